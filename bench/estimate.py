"""The statistics: what many runs come to, ratios of two allocators, how sure a ratio is, geometric means.

All of it is symmetric in the allocators: exchange two, and each ratio becomes its reciprocal.

Times come to the mean of the fastest quarter. What disturbs a run (another process, another machine on the
same host, memory that lies badly in the caches) only ever makes it slower, so that the fast runs tell the
program's speed, and the others its luck. On recorded runs, 12 rounds of 41 workloads on a virtual machine of
two cores that others used as well, two such ratios differed by less than 5 % in 89 of 100 draws, ratios of
medians in 72, medians of each round's ratios in 76, ratios of lower quartiles in 85. The fastest run alone
does as well (90), but then one lucky run decides. Memory comes to the median.
"""

import math
import random
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

_RESAMPLINGS = 400
_RESAMPLINGS_ROUGH = 40
_SEED = 20

Estimate = Callable[[Sequence[float]], float]


@dataclass(frozen=True)
class Ratio:
    """How much more one allocator takes than another: 1.1 is 10 % more."""

    value: float
    low: float  # the interval that 95 of 100 drawings fall into; see holds()
    high: float
    rounds: int

    @property
    def uncertainty(self) -> float:
        """Half the interval's width, as a share of the value."""
        return math.sqrt(self.high / self.low) - 1 if self.low > 0 else math.inf


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def fastest_quarter(values: Sequence[float]) -> float:
    """The mean of the lowest quarter, of two at least."""
    return statistics.fmean(sorted(values)[: in_fastest_quarter(len(values))])


def in_fastest_quarter(count: int) -> int:
    """How many that are."""
    return min(count, max(2, count // 4))


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    if len(values) < 2:
        return values[0], values[0]
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, high


def ratio(pairs: Sequence[tuple[float, float]], estimate: Estimate) -> Ratio | None:
    """Of what the left ones come to and the right ones; each pair is of one round. None without pairs.

    The interval comes from drawing whole rounds with replacement, again and again.
    """
    if not pairs or any(value <= 0 for pair in pairs for value in pair):
        return None
    value = _quotient(pairs, estimate)
    if len(pairs) == 1:
        return Ratio(value, 0, math.inf, 1)
    draw = random.Random(_SEED)
    drawn = sorted(_quotient(draw.choices(pairs, k=len(pairs)), estimate) for _ in range(_RESAMPLINGS))
    tail = _RESAMPLINGS // 40  # 2.5 % on either side
    return Ratio(value, drawn[tail], drawn[-1 - tail], len(pairs))


def holds(rounds: int, estimate: Estimate) -> int:
    """How often, of 100 times, the interval of so many rounds holds the true ratio, by noise of known size:
    few do not show all of the spread, so that it is less than the 95 that drawing promises."""
    known = _HOLDS[estimate]
    return known[max(number for number in known if number <= rounds)]


def uncertainty(values: Sequence[float], estimate: Estimate) -> float:
    """Twice the standard error of what the values come to, as a share of it; quick, and rough."""
    if len(values) < 3 or min(values) <= 0:
        return math.inf
    draw = random.Random(_SEED)
    drawn = [math.log(estimate(draw.choices(values, k=len(values)))) for _ in range(_RESAMPLINGS_ROUGH)]
    return 2 * statistics.stdev(drawn)


def geometric_mean(values: Iterable[float]) -> float | None:
    logarithms = [math.log(value) for value in values]
    return math.exp(statistics.fmean(logarithms)) if logarithms else None


def best(candidates: Iterable[str], figure: Callable[[str], float | None]) -> str | None:
    """Whose figure is the lowest; the first of equals."""
    known = [(value, name) for name in candidates if (value := figure(name)) is not None]
    return min(known, key=lambda entry: entry[0])[1] if known else None


_HOLDS: Mapping[Estimate, Mapping[int, int]] = {
    fastest_quarter: {2: 50, 3: 75, 4: 80, 5: 84, 8: 86, 15: 90},
    median: {2: 50, 3: 75, 4: 85, 5: 93, 15: 95},
}


def _quotient(pairs: Sequence[tuple[float, float]], estimate: Estimate) -> float:
    return estimate([left for left, _ in pairs]) / estimate([right for _, right in pairs])
