"""A whole benchmark run: every workload on every allocator, interleaved, until the time is used."""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from hakmem.allocators import Allocator

from bench.host_memory import make_ready
from bench.load import OtherLoad
from bench.results import Missing, Results, Run, WorkloadResult
from bench.runner import Interrupted, Runner, adopt_orphans
from bench.schedule import Plan, Schedule, uncertainty_of
from bench.suite import Workload

SEED = 1
_FAILURES_ENOUGH = 2


@dataclass(frozen=True)
class Progress:
    """How far the run is, for whoever shows it."""

    share: float  # done, from 0 to 1
    seconds_left: float | None  # None: nothing known yet
    doing: str


Report = Callable[[Progress], None]


@dataclass
class Session:
    runner: Runner
    allocators: Sequence[Allocator]
    plan: Plan
    report: Report
    _started: float = field(default_factory=time.monotonic)

    def measure(self, workloads: Sequence[Workload], into: Results) -> None:
        """Fills `into` round by round; what is in it when the user interrupts is sound."""
        adopt_orphans()
        others = OtherLoad()
        runnable = []
        for workload in workloads:
            if problem := self.runner.problem(workload):
                into.skipped.append(Missing(workload.name, problem))
                continue
            runnable.append(workload)
            into.workloads.append(
                WorkloadResult(workload.name, workload.kind, workload.stands_for, " ".join(workload.command))
            )
        try:
            self._warm_up(runnable)
            self._rounds(runnable, into)
        except (Interrupted, KeyboardInterrupt):
            into.interrupted = True
        into.duration_seconds = self._elapsed()
        into.other_load = others.share()

    def _warm_up(self, workloads: Sequence[Workload]) -> None:
        """Unmeasured: each program and each library is read from disk."""
        programs = list({workload.program: workload for workload in workloads}.values())
        turns = max(len(programs), len(self.allocators)) if programs else 0
        for turn in range(turns):
            workload = programs[turn % len(programs)]
            self._say(0, None, f"{workload.name}: warming up")
            self.runner.run(workload, self.allocators[turn % len(self.allocators)], 0)
        self._started = time.monotonic()

    def _rounds(self, workloads: Sequence[Workload], into: Results) -> None:
        schedule = Schedule(workloads, self.plan)
        results = {result.name: result for result in into.workloads}
        names = [allocator.name for allocator in self.allocators]
        share = 0.0
        while chosen := schedule.next(self._elapsed()):
            workload, number = chosen
            share = max(share, schedule.share_done(self._elapsed()))
            left = self._elapsed() * (1 - share) / share if share else None
            self._say(share, left, f"{workload.name}, round {number}")
            begun = time.monotonic()
            self._round(workload, number, results[workload.name])
            uncertainty = uncertainty_of(results[workload.name], names)
            schedule.done(workload, time.monotonic() - begun, uncertainty)

    def _round(self, workload: Workload, number: int, result: WorkloadResult) -> None:
        """All or nothing: a round that is interrupted leaves no runs."""
        others = OtherLoad()
        runs: dict[str, Run] = {}
        most = max((run.peak_rss_bytes for done in result.runs.values() for run in done), default=0)
        for index in order(workload.name, number, len(self.allocators)):
            allocator = self.allocators[index]
            if not _hopeless(result, allocator.name):
                make_ready(most)
                runs[allocator.name] = self.runner.run(workload, allocator, number)
        load = others.share()
        for allocator in self.allocators:
            if allocator.name in runs:
                run = replace(runs[allocator.name], other_load=load)
                result.runs.setdefault(allocator.name, []).append(run)

    def _elapsed(self) -> float:
        return time.monotonic() - self._started

    def _say(self, share: float, left: float | None, doing: str) -> None:
        self.report(Progress(share, left, doing))


def order(workload: str, number: int, count: int) -> list[int]:
    """Positions in random order, each round another: it depends on the workload and the round alone."""
    shuffled = list(range(count))
    random.Random(f"{SEED} {workload} {number}").shuffle(shuffled)
    return shuffled


def _hopeless(result: WorkloadResult, allocator: str) -> bool:
    """It has only ever failed: more of that would only take time from the others."""
    return not result.good(allocator) and len(result.failures(allocator)) >= _FAILURES_ENOUGH
