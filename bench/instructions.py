"""Counts instructions with valgrind's callgrind: the figure that no noise of the machine touches.

Each loop is run at two lengths; the difference of the two counts, over the difference of the lengths, is what
one operation takes, the loop's own instructions included, start-up left out.
"""

import os
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from shutil import which

from hakmem.allocators import Allocator, environment_for
from hakmem.errors import HakmemError

from bench.children import Children, at_once, told_apart
from bench.machine import cores
from bench.results import InstructionCount
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
    found: dict[str, dict[str, float | str]] = {entry.name: {} for entry in entries}
    with at_once(VALGRIND, cores()) as (valgrind, pool):  # counts do not depend on who else is running
        futures = {
            (entry.name, allocator.name): pool.submit(_per_operation, entry, allocator, places, valgrind)
            for entry in entries
            for allocator in allocators
        }
        for number, ((loop, allocator), future) in enumerate(futures.items(), 1):
            say(f"instructions of {loop}, {number} of {len(futures)}")
            found[loop][allocator] = future.result()
    return [
        InstructionCount(entry.name, " ".join(entry.command), *told_apart(found[entry.name]))
        for entry in entries
    ]


def problem() -> str | None:
    return None if which(VALGRIND) else f"needs {VALGRIND}, which is not installed"


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
