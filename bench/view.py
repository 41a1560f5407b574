"""Results as questions: who is best where, by how much, and how sure is that.

The subject is the allocator that the page is about, the reference the one that it is set beside. Both are
only names here: exchange them in the results, and every figure goes with its name.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from hakmem.allocators import HAKMEM, SYSTEM

from bench.estimate import Estimate, Ratio, best, fastest_quarter, geometric_mean, median, ratio
from bench.results import Results, Run, WorkloadResult

REFERENCE = "mimalloc3"

# Closer than this is even: no user would notice.
EVEN = 0.02
# But only if they cannot well be further apart than this.
SURELY_EVEN = 0.05
# unclear: they may be even or apart, by what chance does.
WORDS = ("wins", "even", "unclear", "loses")


@dataclass(frozen=True)
class Measure:
    name: str
    of: Callable[[Run], float]
    estimate: Estimate  # what many runs come to
    kinds: tuple[str, ...]  # of the workloads for which it is compared


TIME = Measure("time", lambda run: run.time, fastest_quarter, ("time", "program"))
RSS = Measure("peak RSS", lambda run: run.peak_rss_bytes, median, ("time", "memory", "program"))
MEASURES = (TIME, RSS)
# Of all processes of a run: told beside these, and no verdict of its own.
FAULTS = Measure("page faults", lambda run: run.minor_faults, median, RSS.kinds)
# Of those that are there for their memory, and run too seldom to be compared one by one.
TIME_BESIDES = Measure("time", TIME.of, fastest_quarter, ("memory",))
# Disturbances and bad luck included.
MEDIAN_TIME = Measure("median time", TIME.of, median, TIME.kinds)


@dataclass(frozen=True)
class Verdict:
    """One workload, by one measure: the subject beside one other."""

    workload: WorkloadResult
    other: str
    ratio: Ratio

    @property
    def word(self) -> str:
        """One of WORDS."""
        found = self.ratio
        if abs(found.value - 1) <= EVEN:
            known = found.low >= 1 / (1 + SURELY_EVEN) and found.high <= 1 + SURELY_EVEN
            return "even" if known else "unclear"
        if found.low <= 1 <= found.high:
            return "unclear"
        return "wins" if self.ratio.value < 1 else "loses"


class View:
    def __init__(self, results: Results, subject: str = HAKMEM, reference: str = REFERENCE) -> None:
        self.results = results
        self.subject = subject
        self.reference = reference
        self.system = SYSTEM
        self._ratios: dict[tuple[str, str, str, str], Ratio | None] = {}

    @cached_property
    def names(self) -> list[str]:
        return self.results.names()

    @cached_property
    def peers(self) -> list[str]:
        return [name for name in self.names if name != self.subject]

    def title(self, name: str) -> str:
        return self.results.title(name)

    @property
    def short(self) -> str:
        """The subject's title without its version, for sentences."""
        return self.title(self.subject).partition(" ")[0]

    def workloads(self, measure: Measure) -> list[WorkloadResult]:
        return [workload for workload in self.results.workloads if workload.kind in measure.kinds]

    def value(self, workload: WorkloadResult, allocator: str, measure: Measure) -> float | None:
        """What the allocator's runs come to."""
        values = self.values(workload, allocator, measure)
        return measure.estimate(values) if values else None

    def values(self, workload: WorkloadResult, allocator: str, measure: Measure) -> list[float]:
        return [measure.of(run) for run in workload.good(allocator)]

    def rounds(self, measure: Measure) -> tuple[int, int] | None:
        """How many count, in the workload that has the fewest and in that with the most."""
        counts = [
            max(len(self.values(workload, name, measure)) for name in self.names)
            for workload in self.workloads(measure)
        ]
        counts = [count for count in counts if count]
        return (min(counts), max(counts)) if counts else None

    def ratio(self, workload: WorkloadResult, left: str, right: str, measure: Measure) -> Ratio | None:
        """Over the rounds in which both went well."""
        key = (workload.name, left, right, measure.name)
        if key not in self._ratios:
            rights = {run.round: measure.of(run) for run in workload.good(right)}
            pairs = [
                (measure.of(run), rights[run.round]) for run in workload.good(left) if run.round in rights
            ]
            self._ratios[key] = ratio(pairs, measure.estimate)
        return self._ratios[key]

    def best_peer(self, workload: WorkloadResult, measure: Measure) -> str | None:
        return best(self.peers, lambda name: self.value(workload, name, measure))

    def verdict(self, workload: WorkloadResult, other: str | None, measure: Measure) -> Verdict | None:
        if other is None or (found := self.ratio(workload, self.subject, other, measure)) is None:
            return None
        return Verdict(workload, other, found)

    def against_best(self, workload: WorkloadResult, measure: Measure) -> Verdict | None:
        return self.verdict(workload, self.best_peer(workload, measure), measure)

    def verdicts_against_best(self, measure: Measure) -> list[Verdict]:
        found = (self.against_best(workload, measure) for workload in self.workloads(measure))
        return [verdict for verdict in found if verdict]

    def verdicts_against(self, other: str, measure: Measure) -> list[Verdict]:
        found = (self.verdict(workload, other, measure) for workload in self.workloads(measure))
        return [verdict for verdict in found if verdict]

    def against_best_chosen_apart(self, workload: WorkloadResult, measure: Measure) -> float | None:
        """Over the best peer by one half of the rounds, judged by the other half, and the other way round."""
        found = []
        for choosing, judging in ((1, 0), (0, 1)):
            values = {name: self._of_half(workload, name, measure, judging) for name in self.names}
            judged = [name for name in self.peers if values[name] is not None]
            chosen = best(judged, lambda name, by=choosing: self._of_half(workload, name, measure, by))  # type: ignore[misc]
            own, theirs = values.get(self.subject), values[chosen] if chosen else None
            if own and theirs:
                found.append(own / theirs)
        return geometric_mean(found)

    def mean_against_best_chosen_apart(self, measure: Measure) -> float | None:
        found = (self.against_best_chosen_apart(entry, measure) for entry in self.workloads(measure))
        return geometric_mean(value for value in found if value is not None)

    def over_best(self, allocator: str, measure: Measure) -> float | None:
        """The geometric mean of what it takes over what the best of all takes, each workload's own best."""
        ratios = []
        for workload in self.workloads(measure):
            winner = best(self.names, lambda name, of=workload: self.value(of, name, measure))  # type: ignore[misc]
            own = winner and self.ratio(workload, allocator, winner, measure)
            if own:
                ratios.append(own.value)
        return geometric_mean(ratios)

    def _of_half(
        self, workload: WorkloadResult, allocator: str, measure: Measure, remainder: int
    ) -> float | None:
        values = [measure.of(run) for run in workload.half(allocator, remainder)]
        return measure.estimate(values) if values else None

    def failed(self, allocator: str) -> list[WorkloadResult]:
        """Where it failed at least once."""
        return [workload for workload in self.results.workloads if workload.failures(allocator)]


def mean(verdicts: list[Verdict]) -> float | None:
    return geometric_mean(verdict.ratio.value for verdict in verdicts)
