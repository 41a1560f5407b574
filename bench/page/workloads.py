"""Every workload: the subject against the best peer and the reference, then every allocator's own figure."""

from collections.abc import Callable
from functools import partial

from bench.estimate import in_fastest_quarter, median, quartiles
from bench.page import allocators, interval
from bench.page.markdown import (
    NONE,
    bold,
    factor,
    folded,
    heading,
    paragraph,
    seconds,
    side_by_side,
    size,
    table,
)
from bench.page.summary import measured
from bench.results import WorkloadResult
from bench.view import MEASURES, TIME, Measure, Verdict, View, mean


def lines(view: View) -> list[str]:
    return [
        *heading(2, "Workload by workload"),
        *paragraph(
            "Time is that of one operation, usually one block allocated and freed, or of the whole run where",
            "a real program is the workload: the mean over the fastest quarter of the runs, of two at",
            f"least{_of_how_many_runs(view)}.",
            "The interval is where 95 of 100 drawings of the rounds, with replacement, have the ratio. How",
            "often it holds the true one is in its title, and less than that, because few rounds do not show",
            "all of the spread.",
            f"{bold('loses')} and wins are said only where 1 is not in it and the difference is above",
            "2 %, and even only where it is at most that and all of the interval within 5 % of 1. All else",
            "is unclear.",
        ),
        *(line for measure in MEASURES for line in _of(view, measure)),
        *allocators.failures(view),
        *_skipped(view),
        *_families(view),
        *_stands_for(view),
    ]


def _of(view: View, measure: Measure) -> list[str]:
    shown = view.workloads(measure)
    form = seconds if measure is TIME else size
    columns = ["workload", view.title(view.subject), "best peer", "", "ratio to it"]
    columns += [_interval_title(measure, view.verdicts_against_best(measure)), ""]
    with_reference = view.reference in view.peers
    if with_reference:
        verdicts = view.verdicts_against(view.reference, measure)
        columns += [f"ratio to {view.title(view.reference)}", _interval_title(measure, verdicts), ""]
    return [
        *heading(3, f"{measured(measure)}: {view.short} and the best peer"),
        *table(columns, (_row(view, measure, workload, form, with_reference) for workload in shown)),
        *folded(
            f"{measured(measure)} on every allocator, the best of each row in bold",
            table(_columns(view), (_all(view, measure, workload, form) for workload in shown)),
        ),
        *folded(
            f"{measured(measure)} on every allocator: medians over the rounds, with the quartiles",
            table(_columns(view), (_spreads(view, measure, workload, form) for workload in shown)),
        ),
    ]


def _row(
    view: View, measure: Measure, workload: WorkloadResult, form: Callable[[float], str], with_reference: bool
) -> list[str]:
    own = view.value(workload, view.subject, measure)
    peer = view.best_peer(workload, measure)
    theirs = view.value(workload, peer, measure) if peer else None
    cells = [workload.name, form(own) if own is not None else _absent(workload, view.subject)]
    cells += [view.title(peer) if peer else NONE, form(theirs) if theirs is not None else NONE]
    cells += _compared(view.verdict(workload, peer, measure))
    if with_reference:
        cells += _compared(view.verdict(workload, view.reference, measure))
    return cells


def _compared(verdict: Verdict | None) -> list[str]:
    if verdict is None:
        return [NONE] * 3
    word = bold(verdict.word) if verdict.word == "loses" else verdict.word
    return [factor(verdict.ratio.value), interval.cell(verdict.ratio, factor), word]


def _interval_title(measure: Measure, verdicts: list[Verdict]) -> str:
    return interval.title((verdict.ratio for verdict in verdicts), measure.estimate)


def _of_how_many_runs(view: View) -> str:
    """What the fastest quarter is here."""
    found = view.rounds(TIME)
    if found is None:
        return ""
    fewest, most = found
    fastest = f"here the {in_fastest_quarter(fewest)} fastest of {fewest}"
    if fewest < most:
        fastest += f" where there are fewest, {in_fastest_quarter(most)} of {most} where there are most"
    return f" ({fastest})"


def _all(view: View, measure: Measure, workload: WorkloadResult, form: Callable[[float], str]) -> list[str]:
    found = {name: view.value(workload, name, measure) for name in view.names}
    values = {name: value for name, value in found.items() if value is not None}
    return side_by_side(workload.name, view.names, values, form, partial(_absent, workload))


def _spreads(
    view: View, measure: Measure, workload: WorkloadResult, form: Callable[[float], str]
) -> list[str]:
    cells = [workload.name]
    for name in view.names:
        if values := view.values(workload, name, measure):
            low, high = quartiles(values)
            cells.append(f"{form(median(values))} ({form(low)} to {form(high)})")
        else:
            cells.append(_absent(workload, name))
    return cells


def _columns(view: View) -> list[str]:
    return ["workload", *(view.title(name) for name in view.names)]


def _absent(workload: WorkloadResult, allocator: str) -> str:
    return "failed" if workload.failures(allocator) else NONE


def _skipped(view: View) -> list[str]:
    if not view.results.skipped:
        return []
    entries = (f"- {bold(entry.name)}: {entry.reason}" for entry in view.results.skipped)
    return [*paragraph("Workloads that this machine cannot run:"), *entries, ""]


def _families(view: View) -> list[str]:
    """Geometric means by family: a family with many rows weighs no more here than one with few."""
    rows = []
    for family in dict.fromkeys(workload.family for workload in view.results.workloads):
        cells = [family]
        for measure in MEASURES:
            verdicts = [v for v in view.verdicts_against_best(measure) if v.workload.family == family]
            against = [
                v for v in view.verdicts_against(view.reference, measure) if v.workload.family == family
            ]
            cells += [factor(mean(verdicts)), factor(mean(against))]
        rows.append(cells)
    reference = view.title(view.reference)
    columns = ["family", "time, to the best peer", f"time, to {reference}"]
    columns += ["peak RSS, to the best peer", f"peak RSS, to {reference}"]
    return [*heading(3, "By family"), *paragraph("Geometric means of the ratios."), *table(columns, rows)]


def _stands_for(view: View) -> list[str]:
    rows = [[entry.name, entry.stands_for, f"`{entry.command}`"] for entry in view.results.workloads]
    return [
        *heading(3, "What each workload stands for"),
        *(line.replace("---:", "---") for line in table(["workload", "stands for", "command"], rows)),
    ]
