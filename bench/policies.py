"""How the settings of HAKMEM do over the whole suite: is what it is set to the best for most programs?

The settings are those that `hakmem tune` tries, and what each workload takes under them is held against what
it takes as it is. In each round all meet all, and Elo's ratings say who does better more often; the means say
by how much.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hakmem.allocators import Allocator
from hakmem.tune.policies import POLICIES, REFERENCE, environment_of
from hakmem.tune.search import PRICES, Price
from rich.console import Console
from rich.table import Table

from bench.elo import Ratings
from bench.estimate import geometric_mean
from bench.results import Results, WorkloadResult
from bench.runner import Runner
from bench.schedule import Plan
from bench.session import Report, Session
from bench.suite import Workload
from bench.view import EVEN, RSS, TIME, Measure, View

_NOTABLE = 0.05
_ALL = (REFERENCE, *POLICIES)


@dataclass(frozen=True)
class Standing:
    name: str
    ratings: Mapping[str, float]  # by price
    time: float | None  # over the reference's, geometric means
    memory: float | None


def measure(
    workloads: Sequence[Workload], hakmem: Allocator, runner: Runner, rounds: int, report: Report
) -> Results:
    """With runs under each policy, by their names."""
    variants = [
        replace(
            hakmem,
            name=policy.name,
            title=policy.name,
            environment={**hakmem.environment, **environment_of(policy)},
        )
        for policy in _ALL
    ]
    found = Results(started="", full=runner.full, machine={}, method={}, allocators=[])
    Session(runner, variants, Plan(rounds, rounds, 0), report).measure(workloads, found)
    return found


def standings(results: Results) -> list[Standing]:
    """Best first, by the balanced price."""
    names = [policy.name for policy in _ALL]
    ratings = {price.name: _ratings(results, names, price) for price in PRICES.values()}
    view = View(results, REFERENCE.name, REFERENCE.name)
    found = [
        Standing(
            name,
            {price: rated.of[name] for price, rated in ratings.items()},
            *(_mean(view, name, which) for which in (TIME, RSS)),
        )
        for name in names
    ]
    return sorted(found, key=lambda standing: -standing.ratings["balanced"])


def cost(workload: WorkloadResult, time: float, memory: float, price: Price) -> float:
    """Where there is no speed to compare, memory alone."""
    return price.cost(time, memory) if workload.kind in TIME.kinds else memory


def rounds_done(results: Results) -> int:
    """Those that every workload has had."""
    return min((_rounds(workload) for workload in results.workloads), default=0)


def print_standings(to: Console, results: Results) -> None:
    if results.interrupted:
        done = rounds_done(results)
        to.print(f"Interrupted after {done} {'round' if done == 1 else 'rounds'} of all workloads.")
        if not done:
            return
    table = Table("settings", box=None, pad_edge=False)
    for name in PRICES:
        table.add_column(f"Elo, {name}", justify="right")
    for title in ("time", "peak RSS"):
        table.add_column(title, justify="right")
    for standing in standings(results):
        means = ("-" if mean is None else f"{mean:.3f}" for mean in (standing.time, standing.memory))
        rated = (f"{standing.ratings[name]:.0f}" for name in PRICES)
        table.add_row(standing.name, *rated, *means)
    to.print(table)
    for price in PRICES.values():
        gains = hindsight(results, price)
        mean = geometric_mean([gain for _, _, gain in gains])
        if mean is None:
            continue
        to.print(
            f"\nFor {price.name}, what is best for each workload costs {mean:.3f} of what it does as it is:"
        )
        for workload, name, gain in sorted(gains, key=lambda entry: entry[2]):
            if gain < 1 - _NOTABLE:
                to.print(f"  {gain:.2f}  {workload}  {name}")


def hindsight(results: Results, price: Price) -> list[tuple[str, str, float]]:
    """The best settings of each workload, chosen by the odd rounds, and their cost over the reference's in
    the even ones."""
    found = []
    for workload in results.workloads:
        odd = _costs(workload, price, remainder=1)
        even = _costs(workload, price, remainder=0)
        if REFERENCE.name in odd and REFERENCE.name in even:
            best = min((name for name in odd if name in even), key=lambda name: odd[name])
            found.append((workload.name, best, even[best] / even[REFERENCE.name]))
    return found


def _rounds(workload: WorkloadResult) -> int:
    return max((run.round for runs in workload.runs.values() for run in runs), default=0)


def _costs(workload: WorkloadResult, price: Price, *, remainder: int) -> dict[str, float]:
    costs = {}
    for name in workload.runs:
        if runs := workload.half(name, remainder):
            time, memory = (which.estimate([which.of(run) for run in runs]) for which in (TIME, RSS))
            costs[name] = cost(workload, time, memory, price)
    return costs


def _ratings(results: Results, names: Sequence[str], price: Price) -> Ratings[str]:
    ratings = Ratings(names)
    rounds = {run.round for workload in results.workloads for runs in workload.runs.values() for run in runs}
    for number in sorted(rounds):
        for workload in results.workloads:
            costs = {
                name: cost(workload, run.time, run.peak_rss_bytes, price)
                for name in workload.runs
                for run in workload.good(name)
                if run.round == number
            }
            ratings.meet(costs, EVEN)
    return ratings


def _mean(view: View, name: str, which: Measure) -> float | None:
    ratios = (view.ratio(workload, name, REFERENCE.name, which) for workload in view.workloads(which))
    return geometric_mean([found.value for found in ratios if found])
