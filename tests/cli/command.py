"""Runs a command of the repository and holds what came of it."""

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]

# A hung command fails its test instead of stopping all of them.
_HANG_SECONDS = 300


@dataclass(frozen=True)
class Outcome:
    status: int  # negative: the signal that ended the command
    stdout: str
    stderr: str

    def row(self, name: str) -> list[str]:
        """The cells of the comparison's row that starts with `name`."""
        (line,) = (line for line in self.stdout.splitlines() if line.strip().startswith(name))
        return line.strip().removeprefix(name).split("  ")

    def error_line(self) -> str:
        """The one line that the command wrote to stderr."""
        lines = self.stderr.splitlines()
        assert len(lines) == 1, f"expected one line on stderr, got: {self.stderr!r}"
        return lines[0]


# The command, interrupted where it asks whether to say that round 3 begins.
_INTERRUPTED = """
import os, signal, hakmem.cli
asked = 1
is_terminal = os.isatty
def interrupt(descriptor):
    global asked
    asked += descriptor == 2
    if asked == 3:
        os.kill(os.getpid(), signal.SIGINT)
    return is_terminal(descriptor)
os.isatty = interrupt
signal.signal(signal.SIGINT, signal.default_int_handler)
hakmem.cli.main()
"""


@dataclass(frozen=True)
class Command:
    arguments: list[str]
    environment: Mapping[str, str]

    def __call__(self, *more: str | Path, stdin: str | int | None = None, **variables: str) -> Outcome:
        """Runs the command with `more` arguments; `stdin` is text, a descriptor, or nothing to read."""
        done = subprocess.run(
            [*self.arguments, *map(str, more)],
            env={**self.environment, **variables},
            input=stdin if isinstance(stdin, str) else None,
            stdin=None if isinstance(stdin, str) else stdin or subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_HANG_SECONDS,
            check=False,
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    def interrupted(self, name: str, *more: str | Path) -> Outcome:
        """Runs the command called `name`, which gets SIGINT once two rounds of it have ended."""
        python = str(REPOSITORY / ".venv/bin/python")
        return Command([python, "-c", _INTERRUPTED, name], self.environment)(*more)

    def terminated(self, *more: str) -> tuple[int, str]:
        """Runs `more` on a shell program that catches SIGTERM, says "caught" and exits with 5; sends the
        command SIGTERM once the program is ready. Gives the status and what came on stdout since."""
        program = "trap 'echo caught; exit 5' TERM; echo ready; while :; do sleep 0.05; done"
        with subprocess.Popen(
            [*self.arguments, *more, "sh", "-c", program],
            env=self.environment,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            process.terminate()
            rest = process.communicate(timeout=_HANG_SECONDS)[0]
        return process.returncode, rest
