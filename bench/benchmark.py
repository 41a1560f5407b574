"""Carries out one order: finds the allocators, measures, saves, and writes the page."""

import dataclasses
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from hakmem.allocators import HAKMEM, Allocator, find
from hakmem.allocators import Missing as NotFound
from hakmem.errors import HakmemError

from bench import contention, instructions, machine, page, sampling, scaling, system_calls
from bench.places import BUILD, PAGE_FOLDER, PROGRAMS, REPOSITORY, without_places
from bench.progress import shown
from bench.results import CALM, AllocatorInfo, Missing, Results, load, save, save_csv
from bench.runner import Interrupted, Runner
from bench.schedule import CERTAIN, Plan
from bench.session import Progress, Report, Session
from bench.suite import Suite

RESULTS = "results.json"
RESULTS_CSV = "results.csv"
PREVIOUS = "previous.json"
INTERRUPTED = "interrupted.json"
EXIT_INTERRUPTED = 130

_QUICK = Plan(rounds=4, rounds_of_memory=2, budget_seconds=20 * 60)
_FULL = Plan(rounds=7, rounds_of_memory=3, budget_seconds=120 * 60)


@dataclass(frozen=True)
class Order:
    """What the user asked for."""

    suite: Suite
    whole: bool  # the whole suite on all allocators
    allocators: Sequence[str] | None
    full: bool
    rounds: int | None
    minutes: float | None
    output: Path | None
    build: Path

    def folder(self) -> Path:
        """A part's results must not replace those of the whole suite."""
        return self.output or (PAGE_FOLDER if self.whole else BUILD / "benchmarks")

    def options(self) -> str:
        """Those that make another plan of it than `make bench` has by itself."""
        minutes = None if self.minutes == default_minutes(full=self.full) else self.minutes
        given = {"--minutes": minutes, "--rounds": self.rounds}
        return " ".join(f"{name} {value:g}" for name, value in given.items() if value is not None)

    def plan(self) -> Plan:
        plan = _FULL if self.full else _QUICK
        if self.minutes is not None:
            plan = dataclasses.replace(plan, budget_seconds=self.minutes * 60)
        return plan if self.rounds is None else Plan(self.rounds, self.rounds, 0)


def default_minutes(*, full: bool) -> float:
    return (_FULL if full else _QUICK).budget_seconds / 60


def carry_out(order: Order) -> Path:
    """The page's path; does not return if the user interrupts."""
    folder = writable(order.folder())
    runner = Runner(places_of(order.build), order.full)
    plan = order.plan()
    allocators, missing = find(order.allocators)
    _require_useful(allocators, missing)
    results = Results(
        started=datetime.now().astimezone().isoformat(timespec="minutes"),
        full=order.full,
        machine={**machine.describe(order.build), **_versions(order.suite)},
        method=_method(plan),
        allocators=[_info(allocator) for allocator in allocators],
        missing=[Missing(entry.name, without_places(entry.reason)) for entry in missing],
        options=order.options(),
    )
    os.chdir(REPOSITORY)  # workloads that are modules of Python are found from here
    with shown() as report:
        Session(runner, allocators, plan, report).measure(order.suite.workloads, results)
        if not results.interrupted:
            _measure_besides(order, allocators, runner, report, results)
    _tell_failures(results)
    return keep(results, folder)


def writable(folder: Path) -> Path:
    """Made, if need be: what is wrong with it is found out before the time is spent."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HakmemError(f"cannot make the folder '{folder}': {error.strerror}") from error
    if not os.access(folder, os.W_OK):
        raise HakmemError(f"cannot write into the folder '{folder}'")
    return folder.absolute()


def places_of(build: Path) -> dict[str, str]:
    workloads = build.absolute() / "bench"
    if not workloads.is_dir():
        raise HakmemError(
            f"no workloads in '{workloads}': run 'make bench', or build with -DHAKMEM_BUILD_BENCH=ON and "
            "name the folder of the build with --build"
        )
    return {
        "workloads": str(workloads),
        "programs": str(PROGRAMS),
        "python": sys.executable,
        "threads": str(machine.cores()),
    }


def _require_useful(allocators: Sequence[Allocator], missing: Sequence[NotFound]) -> None:
    """Raises, before the time is spent, if HAKMEM is `missing` or there is no allocator at all."""
    reasons = {entry.name: entry.reason for entry in missing}
    if HAKMEM in reasons:
        raise HakmemError(
            f"HAKMEM cannot be used here: {reasons[HAKMEM]}; "
            "to measure others alone, name them with --allocators"
        )
    if not allocators:
        told = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
        raise HakmemError(f"no allocator can be used here: {told}")


def _versions(suite: Suite) -> dict[str, str]:
    needed = dict.fromkeys(name for workload in suite.workloads for name in workload.needs)
    return machine.program_versions(list(needed))


def _info(allocator: Allocator) -> AllocatorInfo:
    return AllocatorInfo(
        allocator.name,
        allocator.title,
        allocator.version,
        without_places(allocator.origin),
        machine.digest(allocator.library),
        dict(allocator.environment),
    )


def _method(plan: Plan) -> dict[str, str]:
    least = f"{plan.rounds} of each workload, {plan.rounds_of_memory} where only memory is compared"
    more = (
        f"; then, as long as {plan.budget_seconds / 60:g} minutes in all last, one more for the workload "
        f"whose times it makes certain the most, until all are known within {CERTAIN:.1%}"
    )
    return {
        "rounds": "a round has every allocator once, in an order drawn anew each time; at least "
        f"{least}{more if plan.budget_seconds else ''}",
        "calm rounds": "those in which other processes, or other machines on the same host, took at most "
        f"{CALM:.0%} of the processors' time; where there are enough of them, only they count",
        "time": "the mean of the fastest quarter of the runs, of two at least, which of four are the faster "
        "half: what disturbs a run only ever makes it slower; "
        "a ratio is that of two such means, and its interval comes from drawing rounds with replacement",
        "many short runs": "where its memory happens to lie changes a process's speed more than all that "
        "happens while it runs, so that many processes tell more than long ones",
        "environment": "variables of the same number and length for every allocator; address space "
        "randomised; no process bound to a core",
        "warm-up": "each program and each library at least once, unmeasured, so that the files are in memory",
        "memory of the host": "before each run but those of a workload's first round, as much as it has "
        "taken at most until then is touched and freed, so that the host of a virtual machine has it ready "
        "for every allocator alike",
        "peak RSS": "the kernel's high-water mark, read when the process exits; a server's own for a server; "
        "the median of the runs",
        "failures": "a run that fails, is killed or runs out of time is listed, and is in no figure",
    }


def _measure_besides(
    order: Order, allocators: Sequence[Allocator], runner: Runner, report: Report, into: Results
) -> None:
    """What is no comparison of times: instructions, numbers of threads, and what is of HAKMEM alone."""

    def say(doing: str) -> None:
        report(Progress(1, None, doing))

    try:
        _count_by_tools(order.suite, allocators, runner, say, into)
        scaling.measure(order.suite.scaling, allocators, runner, order.plan(), say, into=into)
        if hakmem := next((entry for entry in allocators if entry.name == HAKMEM), None):
            into.contention = contention.count(order.suite.workloads, hakmem, runner, say)
            into.sampling = sampling.measure(order.suite.workloads, hakmem, runner, order.plan(), say)
    except (Interrupted, KeyboardInterrupt):
        into.interrupted = True


def _count_by_tools(
    suite: Suite,
    allocators: Sequence[Allocator],
    runner: Runner,
    say: Callable[[str], None],
    into: Results,
) -> None:
    if problem := instructions.problem():
        into.skipped += [Missing(f"instructions of {entry.name}", problem) for entry in suite.instructions]
    elif suite.instructions:
        into.instructions = instructions.count(suite.instructions, allocators, runner.places, say)
    if problem := system_calls.problem():
        into.skipped.append(Missing("system calls", problem))
    else:
        into.system_calls = system_calls.count(suite.workloads, allocators, runner, say)


def _tell_failures(results: Results) -> None:
    """Says how many runs failed, and raises if nothing was measured: earlier results then stay."""
    runs = results.runs()
    failed = sum(run.failure is not None for run in runs)
    counted = any(entry.per_operation for entry in results.instructions)
    if not (results.interrupted or counted or failed < len(runs)):
        first, *more = _reasons(results)
        raise HakmemError(
            f"nothing could be measured: {first}" + (f" (and {len(more)} more)" if more else "")
        )
    if failed:
        print(f"bench: {failed} of {len(runs)} runs failed, and are in no figure", file=sys.stderr)


def _reasons(results: Results) -> list[str]:
    """Why what is not in the results is not."""
    uncounted = [missing for entry in results.instructions for missing in entry.missing]
    return [
        *(
            f"{workload.name} on {results.title(name)}: {reason}"
            for workload in (*results.workloads, *results.scaling)
            for name in workload.runs
            for reason in workload.failures(name)
        ),
        *(f"{entry.name}: {entry.reason}" for entry in (*results.skipped, *uncounted)),
    ]


def keep(results: Results, folder: Path) -> Path:
    """Saves, and makes the page of it: its path. Does not return if the user interrupted."""
    if results.interrupted:
        save(results, folder / INTERRUPTED)
        print(f"bench: interrupted; what was measured is in '{folder / INTERRUPTED}'", file=sys.stderr)
        sys.exit(EXIT_INTERRUPTED)
    file = folder / RESULTS
    previous = _set_aside(file, folder / PREVIOUS)
    save(results, file)
    kept = load(file)  # with its digits, so that whoever makes the page again gets the same
    save_csv(kept, folder / RESULTS_CSV)
    return page.write(kept, previous, folder)


def _set_aside(file: Path, before: Path) -> Results | None:
    """The results that are there from the last run, kept for comparison."""
    if not file.exists():
        return None
    try:
        previous = load(file)
    except HakmemError as error:
        print(f"bench: the earlier results are not compared with: {error}", file=sys.stderr)
        return None
    file.replace(before)
    return previous
