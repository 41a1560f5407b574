"""Processor time: what all threads of a program take together, which the time that passes does not tell."""

from bench.estimate import fastest_quarter, median
from bench.page.markdown import NONE, bold, factor, heading, paragraph, table
from bench.page.summary import figures
from bench.results import WorkloadResult
from bench.view import TIME, Measure, View

# Of the whole process: nothing tells the processor time of the part that the program measures.
PROCESSOR = Measure("processor time", lambda run: run.cpu_seconds, fastest_quarter, TIME.kinds)
PASSED = Measure("time of the process", lambda run: run.wall_seconds, fastest_quarter, TIME.kinds)
BUSY = Measure("processors busy", lambda run: run.cpu_seconds / run.wall_seconds, median, TIME.kinds)

# Below it a program has one thread at a time, and processor time says what time does.
_SEVERAL = 1.1


def lines(view: View) -> list[str]:
    several = [workload for workload in view.workloads(BUSY) if _busiest(view, workload) >= _SEVERAL]
    if view.subject not in view.names or not several:
        return []
    return [
        *heading(2, "Processor time"),
        *paragraph(
            "What a process takes of the processors, in the program and in the kernel, all threads together,",
            "an allocator's own among them, from start to end. Over the workloads whose times are compared",
            f"it comes to {figures(view, PROCESSOR)}; the time that passes meanwhile",
            f"to {figures(view, PASSED)}.",
        ),
        *paragraph(
            "The table has the workloads in which more than one processor was busy. The best peer is that of",
            f"the times above. Where the ratio of processor time is the higher one, {view.short} has more of",
            "the machine busy for what it does; where it is the lower one, its threads wait more. How many",
            "processors are busy is processor time over the time that passed, as the median of the runs.",
        ),
        *table(
            [
                *("workload", "best peer", "time that passed, to it", "processor time, to it"),
                *(f"processors busy, {view.short}", "the peer"),
            ],
            (_row(view, workload) for workload in several),
        ),
    ]


def _busiest(view: View, workload: WorkloadResult) -> float:
    return max((view.value(workload, name, BUSY) or 0 for name in view.names), default=0)


def _row(view: View, workload: WorkloadResult) -> list[str]:
    peer = view.best_peer(workload, TIME)
    verdicts = [view.verdict(workload, peer, measure) for measure in (PASSED, PROCESSOR)]
    passed, processor = (factor(verdict.ratio.value) if verdict else NONE for verdict in verdicts)
    busy = [view.value(workload, name, BUSY) if name else None for name in (view.subject, peer)]
    return [workload.name, view.title(peer) if peer else NONE, passed, bold(processor), *map(factor, busy)]
