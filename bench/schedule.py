"""Decides which workload gets the next round.

All workloads get a few rounds. Then, while there is time left, the next round goes to the workload whose
times it makes certain the most. A round has every allocator once: none is measured more often than another.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.estimate import fastest_quarter, quartiles, uncertainty
from bench.results import WorkloadResult
from bench.suite import Workload

# Times known better than this need no more rounds: ratios of two of them, in two runs, then differ by less
# than twice as much.
CERTAIN = 0.015
# No workload gets more than this many times an equal share of the time.
_MOST_SHARES = 4


@dataclass(frozen=True)
class Plan:
    rounds: int  # each workload has these
    rounds_of_memory: int  # in place of it, for what is measured in bytes and repeats to the page
    budget_seconds: float  # for all; further rounds begin only within it

    def least(self, workload: Workload) -> int:
        rounds = self.rounds_of_memory if workload.kind == "memory" else self.rounds
        return min(rounds, workload.rounds_most or rounds)


@dataclass
class _Progress:
    rounds: int = 0
    seconds: float = 0
    uncertainty: float = math.inf

    @property
    def seconds_a_round(self) -> float:
        return self.seconds / self.rounds if self.rounds else 0

    @property
    def gain(self) -> float:
        """What a further second brings: the uncertainty falls with the root of the rounds."""
        return self.uncertainty / max(self.seconds, 1e-6)


class Schedule:
    def __init__(self, workloads: Sequence[Workload], plan: Plan) -> None:
        self._plan = plan
        self._workloads = {workload.name: workload for workload in workloads}
        self._progress = {workload.name: _Progress() for workload in workloads}

    def next(self, elapsed: float) -> tuple[Workload, int] | None:
        """The workload to run and the number of its round; None when all is done."""
        name = self._due() or self._most_worth(elapsed)
        return (self._workloads[name], self._progress[name].rounds + 1) if name else None

    def done(self, workload: Workload, seconds: float, uncertainty: float) -> None:
        progress = self._progress[workload.name]
        progress.rounds += 1
        progress.seconds += seconds
        progress.uncertainty = uncertainty

    def share_done(self, elapsed: float) -> float:
        """From 0 to 1, by time, as far as that can be told."""
        if not any(progress.rounds for progress in self._progress.values()):
            return 0
        left = self._seconds_due()
        if any(self._wants_more(name) for name in self._workloads):
            left = max(left, self._plan.budget_seconds - elapsed)
        return elapsed / (elapsed + left) if elapsed + left > 0 else 1

    def _due(self) -> str | None:
        """In turn, so that a slow minute of the machine meets all workloads alike."""
        due = [name for name, workload in self._workloads.items() if self._rounds_due(workload) > 0]
        return min(due, key=lambda name: self._progress[name].rounds, default=None)

    def _most_worth(self, elapsed: float) -> str | None:
        left = self._plan.budget_seconds - elapsed
        wanting = [
            name
            for name in self._workloads
            if self._wants_more(name) and self._progress[name].seconds_a_round <= left
        ]
        return max(wanting, key=lambda name: self._progress[name].gain, default=None)

    def _wants_more(self, name: str) -> bool:
        progress, workload = self._progress[name], self._workloads[name]
        share = self._plan.budget_seconds / len(self._workloads)
        return (
            workload.kind != "memory"
            and progress.uncertainty > CERTAIN
            and progress.rounds < (workload.rounds_most or math.inf)
            and progress.seconds < _MOST_SHARES * share
        )

    def _rounds_due(self, workload: Workload) -> int:
        return self._plan.least(workload) - self._progress[workload.name].rounds

    def _seconds_due(self) -> float:
        """As far as known: a workload that has not been run yet is taken for an average one."""
        known = [progress.seconds_a_round for progress in self._progress.values() if progress.rounds]
        average = sum(known) / len(known) if known else 0
        return sum(
            max(0, self._rounds_due(workload)) * (self._progress[name].seconds_a_round or average)
            for name, workload in self._workloads.items()
        )


def uncertainty_of(result: WorkloadResult, allocators: Sequence[str]) -> float:
    """How uncertain the allocators' times are: the upper quartile of them, so that a single wild one does
    not take all the time."""
    samples: Mapping[str, list[float]] = {
        name: [run.time for run in result.good(name)] for name in allocators if result.good(name)
    }
    if not samples:
        return 0
    found = [uncertainty(values, fastest_quarter) for values in samples.values()]
    return math.inf if math.inf in found else quartiles(found)[1]
