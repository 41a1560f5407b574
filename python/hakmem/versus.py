"""Runs a program in turn under HAKMEM and under libc's malloc, and gathers what each round took."""

import os
import signal
import tempfile
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from hakmem import preload
from hakmem.ending import shell_status
from hakmem.errors import EXIT_NOT_EXECUTABLE, HakmemError
from hakmem.measure import run_measured
from hakmem.replay import Input
from hakmem.rounds import Round, StoppedError, begin_round, run_round
from hakmem.signals import SignalGuard

HAKMEM_SIDE = "HAKMEM"
LIBC_SIDE = "libc"


@dataclass
class Comparison:
    rounds: list[Round] = field(default_factory=list)
    for_summary: Round | None = None  # a round of its own, whose figures do not count: writing one costs
    summary: str = ""  # HAKMEM's own, of that round
    interrupted: bool = False

    def side(self, name: str) -> list[Round]:
        return [entry for entry in self.rounds if entry.side == name]

    def all_rounds(self) -> list[Round]:
        return [*self.rounds, *([self.for_summary] if self.for_summary else [])]

    def consistent(self) -> bool:
        return len({entry.measurement.status for entry in self.all_rounds()}) == 1

    def exit_status(self) -> int:
        """The first round's, or the first failure if a later round failed."""
        codes = [shell_status(entry.measurement.status) for entry in self.all_rounds()]
        return next((code for code in codes if code), 0)


def compare(
    program: Path, arguments: tuple[str, ...], library: Path, runs: int, *, polling: bool = False
) -> Comparison:
    """Rounds HAKMEM, libc, HAKMEM, libc …, and one more on HAKMEM for its summary; the first one's output is
    shown, the others' is not."""
    result = Comparison()
    environments = {
        HAKMEM_SIDE: preload.with_hakmem(os.environ, library),
        LIBC_SIDE: preload.without_hakmem(os.environ),
    }
    stdin = Input()
    total = 2 * runs + 1
    with SignalGuard() as guard, tempfile.TemporaryDirectory(prefix="hakmem-") as folder:
        for number in range(1, total + 1):
            side = HAKMEM_SIDE if number % 2 else LIBC_SIDE
            environment = environments[side]
            if number == total:
                wanted = {"HAKMEM_STATS": "1", "HAKMEM_STATS_FILE": str(Path(folder, "%p"))}
                environment = {**environment, **wanted}
            try:
                begin_round(number, total, side, guard)
            except StoppedError:
                result.interrupted = True
                break
            measurement, stderr_end = run_round(
                number == 1,
                stdin,
                partial(run_measured, program, arguments, environment, polling=polling),
                library if number == 1 else None,
            )
            entry = Round(number, side, measurement, stderr_end)
            if number == total:
                result.for_summary = entry
            else:
                result.rounds.append(entry)
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
        if result.for_summary:
            # The program's children write theirs beside it.
            own = Path(folder, str(result.for_summary.measurement.pid))
            if own.is_file():
                result.summary = own.read_text(encoding="utf-8", errors="replace")
    return result
