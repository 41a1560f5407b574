"""Runs a program in turn under HAKMEM and under libc's malloc, and gathers what each round took."""

import os
import signal
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from hakmem import preload
from hakmem.errors import EXIT_NOT_EXECUTABLE, HakmemError
from hakmem.measure import Measurement, Streams, run_measured
from hakmem.replay import Input

HAKMEM_SIDE = "HAKMEM"
LIBC_SIDE = "libc"
_STDERR_LINES_KEPT = 5


@dataclass(frozen=True)
class Round:
    number: int
    side: str
    measurement: Measurement
    stderr_end: str  # of rounds whose output is not shown


@dataclass
class Comparison:
    rounds: list[Round] = field(default_factory=list)
    summary: str = ""  # HAKMEM's own, of its last round
    interrupted: bool = False

    def side(self, name: str) -> list[Round]:
        return [entry for entry in self.rounds if entry.side == name]

    def consistent(self) -> bool:
        return len({entry.measurement.status for entry in self.rounds}) == 1

    def exit_status(self) -> int:
        """The first round's, or the first failure if a later round failed."""
        codes = [shell_status(entry.measurement.status) for entry in self.rounds]
        return next((code for code in codes if code), 0)


def shell_status(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def compare(
    program: Path, arguments: tuple[str, ...], library: Path, runs: int, *, polling: bool = False
) -> Comparison:
    """Rounds HAKMEM, libc, HAKMEM, libc …; the first one's output is shown, the others' is not."""
    result = Comparison()
    environments = {
        HAKMEM_SIDE: preload.with_hakmem(os.environ, library),
        LIBC_SIDE: preload.without_hakmem(os.environ),
    }
    stdin = Input()
    with tempfile.TemporaryDirectory(prefix="hakmem-") as folder:
        for number in range(1, 2 * runs + 1):
            side = HAKMEM_SIDE if number % 2 else LIBC_SIDE
            environment = environments[side]
            if number == 2 * runs - 1:
                environment = {
                    **environment,
                    "HAKMEM_STATS": "1",
                    "HAKMEM_STATS_FILE": str(Path(folder, "%p")),
                }
            if number > 1:
                _say_progress(number, 2 * runs, side)
            measurement, stderr_end = _run_round(
                number == 1,
                stdin,
                partial(run_measured, program, arguments, environment, polling=polling),
                library,
            )
            result.rounds.append(Round(number, side, measurement, stderr_end))
            # A reader that left the first round's output wants no more of them.
            if measurement.interrupted or (number == 1 and measurement.status == signal.SIGPIPE):
                result.interrupted = True
                break
            if number == 1 and measurement.mapped is False:
                raise HakmemError(
                    f"HAKMEM was not loaded in '{program}' when it ended: what it runs through drops "
                    "LD_PRELOAD, or ends in a statically linked program",
                    EXIT_NOT_EXECUTABLE,
                )
        for entry in result.side(HAKMEM_SIDE):
            own = Path(folder, str(entry.measurement.pid))  # the program's children write theirs beside it
            if own.is_file():
                result.summary = own.read_text(errors="replace")
    return result


def _run_round(
    first: bool, stdin: Input, run: Callable[..., Measurement], library: Path
) -> tuple[Measurement, str]:
    """The round's figures, and the end of what it wrote to stderr if that was not shown."""
    with (
        stdin.for_round(first=first) as feed,
        Path(os.devnull).open("wb") as nothing,
        tempfile.TemporaryFile() as errors,
    ):
        if first:
            streams = Streams(stdin=feed.descriptor)
        else:
            streams = Streams(feed.descriptor, nothing.fileno(), errors.fileno())
        look_for = library.resolve() if first else None
        measurement = run(streams=streams, look_for=look_for, on_start=feed.begin)
        errors.seek(0)
        lines = errors.read().decode(errors="replace").splitlines()
    return measurement, "\n".join(lines[-_STDERR_LINES_KEPT:])


def _say_progress(number: int, total: int, side: str) -> None:
    if os.isatty(2):
        print(f"hakmem: round {number} of {total}, {side} …", file=sys.stderr)
