"""How far the figures can be trusted: within this run, and against the run before it."""

from bench.agreement import LIMIT, Difference, differences, obstacles, share_agreeing
from bench.estimate import geometric_mean
from bench.page.markdown import bold, factor, heading, listed, paragraph, percent, table
from bench.view import MEASURES, TIME, View


def lines(view: View, previous: View | None) -> list[str]:
    if view.reference not in view.names or view.subject not in view.names:
        return []
    return [
        *heading(2, "Does it repeat?"),
        *_within(view),
        *(_between(previous, view) if previous else paragraph("There is no earlier run to compare with.")),
    ]


def _within(view: View) -> list[str]:
    found = view.verdicts_against(view.reference, TIME)
    wide = [verdict for verdict in found if verdict.ratio.uncertainty > LIMIT]
    pair = f"{view.title(view.subject)} / {view.title(view.reference)}"
    text = paragraph(
        f"Of {len(found)} workloads, the ratio of times {pair} is known to within ±{LIMIT:.0%} in",
        f"{len(found) - len(wide)}, by the runs' own spread.",
        "In the others the machine or one of the two allocators varies more than the rounds that there was"
        " time for could even out:"
        if wide
        else "",
    )
    rows = [
        [
            entry.workload.name,
            factor(entry.ratio.value),
            f"±{entry.ratio.uncertainty:.0%}",
            str(entry.ratio.rounds),
        ]
        for entry in sorted(wide, key=lambda entry: -entry.ratio.uncertainty)
    ]
    return [*text, *table(["workload", "ratio", "uncertainty", "rounds"], rows)]


def _between(previous: View, view: View) -> list[str]:
    reasons = obstacles(previous, view)
    intro = f"The run before this one started {previous.results.started}." + (
        f" It is no repetition: {listed(reasons)}; what follows shows what that changed." if reasons else ""
    )
    return [
        *paragraph(intro),
        *(
            line
            for measure in MEASURES
            for line in _changes(measure.name, differences(previous, view, measure))
        ),
    ]


def _changes(measure: str, found: list[Difference]) -> list[str]:
    if not found:
        return []
    agreeing = share_agreeing(found)
    overall = geometric_mean(entry.after / entry.before for entry in found) or 1
    apart = sorted((entry for entry in found if not entry.agrees), key=lambda entry: -abs(entry.change))
    rows = [
        [entry.workload, factor(entry.before), factor(entry.after), bold(percent(entry.change))]
        for entry in apart
    ]
    same = f"{len(found) - len(apart)} of {len(found)} ratios ({agreeing:.0%})"
    return [
        *paragraph(
            f"By {measure}, {same} differ by less than {LIMIT:.0%};",
            f"the geometric mean of all changes is {percent(overall - 1)}.",
            "Those that differ by more:" if rows else "",
        ),
        *table(["workload", "ratio before", "ratio now", "change"], rows),
    ]
