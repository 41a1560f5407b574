"""How sure a ratio is: a column of intervals, and what it is headed with."""

from collections.abc import Callable, Iterable

from bench.estimate import Estimate, Ratio, holds
from bench.page.markdown import NONE


def title(ratios: Iterable[Ratio | None], estimate: Estimate) -> str:
    """Says how often, of 100 times, the column's intervals hold the truth."""
    shares = {holds(ratio.rounds, estimate) for ratio in ratios if ratio and _known(ratio)}
    if not shares:
        return "interval"
    least, most = min(shares), max(shares)
    return f"{least} % interval" if least == most else f"{least} to {most} % interval"


def chance_to_miss(times: int, ratios: Iterable[Ratio], estimate: Estimate) -> float:
    """How probable it is that so many of the intervals, or more, do not hold the truth."""
    fewer = [1.0] + [0.0] * (times - 1)  # how probable it is that 0, 1, ... do not
    for ratio in filter(_known, ratios):
        hold = holds(ratio.rounds, estimate) / 100
        one_fewer = [0.0, *fewer[:-1]]
        fewer = [hold * as_many + (1 - hold) * less for as_many, less in zip(fewer, one_fewer, strict=True)]
    return 1 - sum(fewer)


def cell(ratio: Ratio, form: Callable[[float], str]) -> str:
    return f"{form(ratio.low)} to {form(ratio.high)}" if _known(ratio) else NONE


def _known(ratio: Ratio) -> bool:
    """One round alone tells nothing of how far the next would be."""
    return ratio.rounds > 1
