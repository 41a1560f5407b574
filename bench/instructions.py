"""Counts instructions with valgrind's callgrind: the figure that no noise of the machine touches.

Each loop is run at two lengths; the difference of the two counts, over the difference of the lengths, is what
one operation takes, the loop's own instructions included, start-up left out.
"""

import os
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from shutil import which

from hakmem.allocators import Allocator, environment_for
from hakmem.errors import HakmemError

from bench.children import Children
from bench.machine import cores
from bench.results import InstructionCount, Missing
from bench.runner import base_environment, not_loaded
from bench.suite import Instructions

VALGRIND = "valgrind"
_COLLECTED = re.compile(r"Collected\s*:\s*(\d+)")
_TIMEOUT_SECONDS = 120
# What HAKMEM publishes by the clock is no cost of an operation, and may come in one of the two runs only.
_WITHOUT_A_CLOCK = {"HAKMEM_LIVE": "0"}


def count(
    entries: Sequence[Instructions],
    allocators: Sequence[Allocator],
    places: Mapping[str, str],
    say: Callable[[str], None],
) -> list[InstructionCount]:
    """Every loop on every allocator; one that does not run under valgrind is named with the reason."""
    jobs = [(entry, allocator) for entry in entries for allocator in allocators]
    valgrind = Children(VALGRIND)
    pool = ThreadPoolExecutor(max_workers=cores())  # counts do not depend on who else is running
    try:
        futures = {
            (entry.name, allocator.name): pool.submit(_per_operation, entry, allocator, places, valgrind)
            for entry, allocator in jobs
        }
        found: dict[tuple[str, str], float | str] = {}
        for number, (key, future) in enumerate(futures.items(), 1):
            say(f"instructions of {key[0]}, {number} of {len(futures)}")
            found[key] = future.result()
    finally:  # by an interrupt, too: then the rest is not waited for
        valgrind.end()
        pool.shutdown(cancel_futures=True)
    return [_row(entry, allocators, found) for entry in entries]


def problem() -> str | None:
    return None if which(VALGRIND) else f"needs {VALGRIND}, which is not installed"


def _row(
    entry: Instructions, allocators: Sequence[Allocator], found: Mapping[tuple[str, str], float | str]
) -> InstructionCount:
    counts: dict[str, float] = {}
    missing = []
    for allocator in allocators:
        value = found[entry.name, allocator.name]
        if isinstance(value, str):
            missing.append(Missing(allocator.name, value))
        else:
            counts[allocator.name] = value
    return InstructionCount(entry.name, " ".join(entry.command), counts, missing)


def _per_operation(
    entry: Instructions, allocator: Allocator, places: Mapping[str, str], valgrind: Children
) -> float | str:
    """The count, or why there is none."""
    short, long = entry.operations
    try:
        few, many = (
            _collected(entry.arguments(length, places), allocator, valgrind) for length in (short, long)
        )
    except HakmemError as error:
        return str(error)
    return (many - few) / (long - short)


def _collected(arguments: Sequence[str], allocator: Allocator, valgrind: Children) -> int:
    with tempfile.TemporaryDirectory(prefix="hakmem-bench-") as scratch:
        environment = environment_for(allocator, {**base_environment(scratch), **_WITHOUT_A_CLOCK})
        profile = Path(scratch, "profile")
        callgrind = ["--tool=callgrind", f"--callgrind-out-file={profile}", *arguments]
        said = valgrind.complaint(callgrind, environment, _TIMEOUT_SECONDS)
        objects = profile.read_bytes() if profile.exists() else b""
    collected = _COLLECTED.search(said)
    if collected is None:
        raise HakmemError(f"does not run under {VALGRIND}: it counted nothing")
    if allocator.library and os.fsencode(allocator.library.resolve()) not in objects:
        raise HakmemError(not_loaded(allocator))
    return int(collected[1])
