"""What sampling costs: the subject with it on, over itself with it off."""

from collections.abc import Iterable, Mapping

from bench.estimate import Ratio, geometric_mean
from bench.page import interval
from bench.page.markdown import NONE, bold, count, heading, paragraph, percent, seconds, table
from bench.results import WorkloadResult
from bench.sampling import OFF, ON
from bench.view import RSS, TIME, View


def lines(view: View) -> list[str]:
    measured = view.results.sampling
    if not measured:
        return []
    changes = {workload.name: view.ratio(workload, ON, OFF, TIME) for workload in measured}
    sure = interval.title(changes.values(), TIME.estimate)
    return [
        *heading(2, "What sampling costs"),
        *paragraph(
            f"{view.short} can tell which parts of a program hold its memory. To that end it notes who asked",
            "for about one block in each 512 KiB that are allocated. This is off unless somebody turns it on",
            "(HAKMEM_PROF=1), in all other figures of this page too. Here the same library is measured with",
            "it on and with it off, in rounds of their own: the change of the time is what sampling costs.",
            "Where the interval has 0 % in it, no difference can be told from noise. A program that",
            "allocates many GB/s is sampled more rarely after its first hundredths of a second; so runs are",
            "longer here than in the rest of the page, as those are that anybody would want a profile of.",
        ),
        *table(
            ["workload", "time, off", "time, on", "change", sure, "rounds", "change of peak RSS"],
            (_row(view, workload) for workload in measured),
        ),
        *_by_chance({name: change for name, change in changes.items() if change}),
        *_mean(changes.values()),
        *_failures(measured),
    ]


def _row(view: View, workload: WorkloadResult) -> list[str]:
    times = [view.value(workload, variant, TIME) for variant in (OFF, ON)]
    cells = [workload.name, *(NONE if time is None else seconds(time) for time in times)]
    change, memory = (view.ratio(workload, ON, OFF, measure) for measure in (TIME, RSS))
    if change is None:
        cells += [NONE] * 3
    else:
        cells += [bold(_change(change.value)), interval.cell(change, _change), str(change.rounds)]
    return [*cells, _change(memory.value) if memory else NONE]


def _change(ratio: float) -> str:
    return percent(ratio - 1)


def _by_chance(changes: Mapping[str, Ratio]) -> list[str]:
    """What to make of rows whose interval has no 0 % in it: of many rows, noise alone makes some such."""
    apart = [name for name, change in changes.items() if not change.low <= 1 <= change.high]
    if not apart:
        return []
    chance = interval.chance_to_miss(len(apart), changes.values(), TIME.estimate)
    return paragraph(
        f"Without 0 % in the interval: {', '.join(apart)} ({len(apart)} of {count(len(changes), 'row')}).",
        "If sampling cost nothing, noise alone would make as many such rows, or more, in",
        f"{chance * 100:.0f} of 100 tables like this one.",
    )


def _mean(changes: Iterable[Ratio | None]) -> list[str]:
    mean = geometric_mean(change.value for change in changes if change)
    return [] if mean is None else paragraph(f"The geometric mean of the changes is {percent(mean - 1)}.")


def _failures(measured: list[WorkloadResult]) -> list[str]:
    reasons = [
        f"- {workload.name}, sampling {variant}: {failures[0]} ({count(len(failures), 'run')})"
        for workload in measured
        for variant in (OFF, ON)
        if (failures := workload.failures(variant))
    ]
    return [*paragraph("Runs that failed, and are in no figure:"), *reasons, ""] if reasons else []
