"""The first thing on the page: how the subject stands, in one table."""

from bench.page.markdown import bold, count, factor, listed, paragraph, table
from bench.results import Results
from bench.view import MEASURES, MEDIAN_TIME, RSS, TIME, TIME_BESIDES, Measure, Verdict, View, mean

# Others may take this share of the processors' time before the page warns of it.
_QUIET = 0.05

_TALLIED = {
    "wins": "workloads it wins",
    "even": "even: within 2 %, and known to 5 %",
    "unclear": "not told apart from noise",
    "loses": "workloads it loses",
}


def lines(view: View) -> list[str]:
    if view.subject not in view.names:
        return paragraph(f"{view.subject} was not measured, so there is nothing to set beside the others.")
    return [
        *paragraph(
            f"{view.short} is an allocator: what a program calls for memory, with malloc and free, and what",
            "can be exchanged without changing the program. This page says how fast programs run on it, and",
            "how much memory they take, beside the other allocators of one machine:",
            f"{count(len(view.results.workloads), 'workload')},",
            f"each on {count(len(view.names), 'allocator')} in turn.",
            f"Started {view.results.started}, {view.results.duration_seconds / 60:.0f} minutes",
            f"({_kind_of_run(view.results)}).",
        ),
        *table(["", *(_of_how_many(view, measure) for measure in MEASURES)], _rows(view)),
        *paragraph(
            f"Geometric means of what {view.short} takes, over what the other takes:",
            f"{bold('below 1')} {view.short} takes less, above 1 it takes more. The best peer is each",
            "workload's own: whichever of all the others does it best.",
            *_by_medians(view),
            *_besides(view),
        ),
        *_chosen_apart(view),
        *table(["against the best peer", *(measure.name for measure in MEASURES)], _tally(view)),
        *_failures(view),
        *_disturbances(view),
    ]


def _kind_of_run(results: Results) -> str:
    kind, target = ("full run", "bench-full") if results.full else ("quick run", "bench")
    options = f" ARGS='{results.options}'" if results.options else ""
    return f"{kind}, `make {target}{options}`"


def _rows(view: View) -> list[list[str]]:
    rows = []
    for name in (view.reference, view.system):
        if name in view.peers:
            cells = [factor(mean(view.verdicts_against(name, measure))) for measure in MEASURES]
            rows.append([f"against {view.title(name)}", *cells])
        elif name != view.subject:
            rows.append([f"against {name}", *["not measured"] * len(MEASURES)])
    best = [factor(mean(view.verdicts_against_best(measure))) for measure in MEASURES]
    return [*rows, [bold("against the best peer of each workload"), *map(bold, best)]]


def _of_how_many(view: View, measure: Measure) -> str:
    return f"{measure.name}, of {count(len(view.workloads(measure)), 'workload')}"


def _by_medians(view: View) -> list[str]:
    """Says that the choice of the estimate does not make the result, or by how much it does."""
    return [f"By medians in place of the fastest runs, the times are {figures(view, MEDIAN_TIME)}."]


def _besides(view: View) -> list[str]:
    """The times that no figure has."""
    besides = view.workloads(TIME_BESIDES)
    if not besides:
        return []
    return [
        f"{count(len(besides), 'other workload')}, mostly first touches of memory and run a few times only,",
        f"to measure that memory, {'has' if len(besides) == 1 else 'have'} no part in the times;",
        f"theirs come to {figures(view, TIME_BESIDES)}.",
    ]


def _chosen_apart(view: View) -> list[str]:
    """How much of the last row of the table is luck."""
    means = {measure.name: view.mean_against_best_chosen_apart(measure) for measure in MEASURES}
    known = [f"{factor(value)} of the {name}" for name, value in means.items() if value is not None]
    if not known:
        return []
    return paragraph(
        "The best peer is chosen by the runs that judge it, so that its luck counts for it. Where it is",
        f"chosen by the odd rounds and judged by the even ones, and the other way round, {view.short} takes",
        f"{listed(known)} that it takes. That errs the other way: by half of the rounds it is not always",
        "the best that is chosen.",
    )


def figures(view: View, measure: Measure) -> str:
    """The three means, for a sentence."""
    best = factor(mean(view.verdicts_against_best(measure)))
    others = [
        f"{factor(mean(view.verdicts_against(name, measure)))} against {view.title(name)}"
        for name in (view.reference, view.system)
        if name in view.peers
    ]
    return ", ".join([*others, f"{best} against the best peer"])


def _tally(view: View) -> list[list[str]]:
    found = {measure.name: view.verdicts_against_best(measure) for measure in MEASURES}
    return [
        [title, *(_number(found[measure.name], word) for measure in MEASURES)]
        for word, title in _TALLIED.items()
    ]


def _number(verdicts: list[Verdict], word: str) -> str:
    return str(sum(verdict.word == word for verdict in verdicts))


def _failures(view: View) -> list[str]:
    failed = [workload.name for workload in view.failed(view.subject)]
    if not failed:
        return []
    return paragraph(
        bold(f"{view.title(view.subject)} failed in {count(len(failed), 'workload')}:"),
        f"{', '.join(failed)}. No figure above has the failed runs in.",
    )


def _disturbances(view: View) -> list[str]:
    if view.results.other_load <= _QUIET:
        return []
    return paragraph(
        bold("The machine was not quiet:"),
        f"others took {view.results.other_load:.0%} of the processors' time while this was measured.",
        "The figures are less certain than they could be, those of several threads most of all.",
    )


def measured(measure: Measure) -> str:
    """What a measure's table is headed with."""
    return {TIME.name: "Time", RSS.name: "Peak resident memory"}[measure.name]
