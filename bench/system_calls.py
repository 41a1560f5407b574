"""Counts the system calls by which a workload has memory and waits for others, with strace.

The run is apart from the timed ones, since each call stops the program; and never one of a full run's length,
which would take hours. Real programs are left out: most are driven by another one, whose calls are none of
theirs.
"""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from shutil import which

from hakmem.allocators import Allocator, environment_for
from hakmem.errors import HakmemError

from bench.children import Children, at_once, told_apart
from bench.machine import cores
from bench.results import SystemCalls
from bench.runner import Runner, base_environment, not_loaded
from bench.suite import Workload

STRACE = "strace"
FOR_MEMORY = ("brk", "madvise", "mmap", "mprotect", "mremap", "munmap", "process_madvise")
TO_WAIT = ("futex", "membarrier", "sched_yield")
# What the dynamic linker says, and goes on.
_NOT_PRELOADED = "cannot be preloaded"


def count(
    workloads: Sequence[Workload], allocators: Sequence[Allocator], runner: Runner, say: Callable[[str], None]
) -> list[SystemCalls]:
    """One run of each on each allocator; one that fails is named with the reason."""
    wanted = [entry for entry in workloads if entry.kind != "program" and runner.problem(entry) is None]
    # Those whose threads may wait for each other run one at a time, or they would wait for a core, too.
    found: dict[str, SystemCalls] = {}
    for alone in (False, True):
        some = [entry for entry in wanted if entry.contention == alone]
        for entry in _count_at_once(1 if alone else cores(), some, allocators, runner, say):
            found[entry.name] = entry
    return [found[workload.name] for workload in wanted]


def problem() -> str | None:
    return None if which(STRACE) else f"needs {STRACE}, which is not installed"


def _count_at_once(
    runs: int,
    workloads: Sequence[Workload],
    allocators: Sequence[Allocator],
    runner: Runner,
    say: Callable[[str], None],
) -> list[SystemCalls]:
    with at_once(STRACE, runs) as (strace, pool):
        futures = [
            (
                workload,
                {entry.name: pool.submit(_calls, workload, entry, runner, strace) for entry in allocators},
            )
            for workload in workloads
        ]
        found = []
        for workload, by_allocator in futures:
            say(f"{workload.name}: system calls")
            results = {name: future.result() for name, future in by_allocator.items()}
            found.append(SystemCalls(workload.name, *told_apart(results)))
        return found


def _calls(
    workload: Workload, allocator: Allocator, runner: Runner, strace: Children
) -> Mapping[str, int] | str:
    """By their names, or why there are none."""
    with tempfile.TemporaryDirectory(prefix="hakmem-bench-") as scratch:
        summary = Path(scratch, "summary")
        base = base_environment(scratch)
        try:
            # The allocator is for the workload alone.
            own = {k: v for k, v in environment_for(allocator, base).items() if base.get(k) != v}
            arguments = [*_options(summary), *(f"--env={name}={value}" for name, value in own.items())]
            arguments += workload.arguments(runner.places, full=False)
            said = strace.complaint(arguments, base, workload.timeout(full=False))
        except HakmemError as error:
            return str(error)
        if allocator.library and _NOT_PRELOADED in said:
            return not_loaded(allocator)
        return _counted(summary.read_text(encoding="utf-8"))


def _options(summary: Path) -> list[str]:
    """Not by a filter, which would be faster: what HAKMEM calls depends on whether there is one."""
    # A question mark: an strace that does not know the call is no mistake.
    calls = ",".join(f"?{name}" for name in (*FOR_MEMORY, *TO_WAIT))
    return [
        *("--follow-forks", "--quiet=all", "--signal=none", f"--trace={calls}"),
        *("--summary-only", "--summary-columns=calls,name", f"--output={summary}"),
    ]


def _counted(summary: str) -> dict[str, int]:
    """Of the lines of a table those that have a number and the name of a call."""
    rows = (line.split() for line in summary.splitlines())
    known = {*FOR_MEMORY, *TO_WAIT}
    return {row[1]: int(row[0]) for row in rows if len(row) == 2 and row[1] in known}
