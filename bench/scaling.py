"""What more threads bring: loops whose threads share nothing, with one thread, as many as cores, and many.

A loop that is a control allocates nothing: what it comes to is the machine's doing. It is run on every
allocator all the same, since how much its figures differ is how much those of the others differ by chance.
"""

from collections.abc import Callable, Sequence

from hakmem.allocators import Allocator

from bench.results import Missing, Results, ScalingResult
from bench.runner import Interrupted, Runner
from bench.schedule import Plan
from bench.session import Session
from bench.suite import Scaling, Workload

MANY = 64
# A thread's first touches of its memory are slow. Were all of many threads to do no more than as many threads
# as cores do, a run would tell of little but these. Its length makes up for fewer rounds.
_TIMES_THE_WORK = 4
_ROUNDS_OF_MANY = 3


def measure(
    entries: Sequence[Scaling],
    allocators: Sequence[Allocator],
    runner: Runner,
    plan: Plan,
    say: Callable[[str], None],
    *,
    into: Results,
) -> None:
    """Fills `into` when all is measured; `plan` is that of the comparison."""
    cores = int(runner.places["threads"])
    measured: dict[str, tuple[Scaling, int]] = {}  # what each workload is: a loop, and its threads
    workloads: list[Workload] = []
    for entry in entries:
        of_entry = {threads: _workload(entry, threads, cores, runner.full) for threads in _counts(cores)}
        if problem := runner.problem(of_entry[1]):
            into.skipped.append(Missing(entry.name, problem))
            continue
        workloads += of_entry.values()
        measured |= {workload.name: (entry, threads) for threads, workload in of_entry.items()}
    if not workloads:
        return
    found = Results(started="", full=runner.full, machine={}, method={}, allocators=[])
    # One round more than the others have at least: an odd number in a quick run, whose median is a run.
    rounds = plan.rounds + 1
    session = Session(runner, allocators, Plan(rounds, rounds, 0), lambda progress: say(progress.doing))
    session.measure(workloads, found)
    if found.interrupted:
        raise Interrupted
    for result in found.workloads:
        entry, threads = measured[result.name]
        into.scaling.append(
            ScalingResult(
                entry.name,
                result.kind,
                result.stands_for,
                result.command,
                result.runs,
                threads=threads,
                control=entry.control,
            )
        )


def _counts(cores: int) -> list[int]:
    return sorted({1, cores, MANY})


def _workload(entry: Scaling, threads: int, cores: int, full: bool) -> Workload:
    many = threads > cores
    work = entry.work_of_a_core(full=full) * min(threads, cores) * (_TIMES_THE_WORK if many else 1)
    return Workload(
        f"{entry.name}, threads: {threads}",
        "time",
        entry.stands_for,
        entry.with_threads(threads, max(1, work // threads)),
        rounds_most=_ROUNDS_OF_MANY if many else None,
    )
