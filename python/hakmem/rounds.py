"""One run of a program among several that are compared: what it reads and writes, and what it took."""

import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hakmem.measure import Measurement, Streams
from hakmem.replay import Input
from hakmem.signals import SignalGuard

_STDERR_LINES_KEPT = 5


@dataclass(frozen=True)
class Round:
    number: int
    side: str  # what it ran on
    measurement: Measurement
    stderr_end: str  # of rounds whose output is not shown


class StoppedError(Exception):
    """Somebody has asked to stop, when no program ran that could have been asked."""


def run_round(
    first: bool,
    stdin: Input,
    run: Callable[..., Measurement],
    library: Path | None,
    shown_output: int = 1,
) -> tuple[Measurement, str]:
    """The round's figures, and the end of what it wrote to stderr if that was not shown.

    Only the first round's output is shown, on the descriptor `shown_output`.
    """
    with (
        stdin.for_round(first=first) as feed,
        Path(os.devnull).open("wb") as nothing,
        tempfile.TemporaryFile() as errors,
    ):
        if first:
            streams = Streams(feed.descriptor, shown_output)
        else:
            streams = Streams(feed.descriptor, nothing.fileno(), errors.fileno())
        look_for = library.resolve() if library else None
        measurement = run(streams=streams, look_for=look_for, on_start=feed.begin)
        errors.seek(0)
        lines = errors.read().decode(errors="replace").splitlines()
    return measurement, "\n".join(lines[-_STDERR_LINES_KEPT:])


def begin_round(number: int, total: int, side: str, guard: SignalGuard) -> None:
    """Says so on a terminal. From the second round on, StoppedError if somebody has asked to stop."""
    if number == 1:
        return
    if os.isatty(2):
        print(f"hakmem: round {number} of {total}, {side} …", file=sys.stderr)
    if guard.interrupted:
        raise StoppedError
