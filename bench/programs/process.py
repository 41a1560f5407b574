"""Finds the installed programs, and makes the environments they run in."""

import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from hakmem.preload import PRELOAD_VARIABLE, preloaded

from bench.programs.program import ProgramMissing, RunFailed

# What the harness sets to choose an allocator.
_CHOOSING_VARIABLES = (PRELOAD_VARIABLE, "GLIBC_TUNABLES")
_LIBC = "libc.so.6"


def require(command: str, package: str) -> Path:
    if found := shutil.which(command):
        return Path(found)
    raise ProgramMissing(command, package)


def chosen_allocator() -> Path | None:
    """The library that the environment preloads; None for the system's malloc."""
    return next(map(Path, preloaded(os.environ)), None)


def measured_environment(*, over_its_own: bool = False) -> dict[str, str]:
    """The environment of what is measured.

    `over_its_own`: for a program that is linked to an allocator of its own, which must give way to the
    system's malloc, too.
    """
    environment = {**os.environ, "LC_ALL": "C.UTF-8", "TZ": "UTC"}
    if over_its_own:
        # Whichever the allocator: first comes what the environment preloads, then the C library.
        environment[PRELOAD_VARIABLE] = f"{environment.get(PRELOAD_VARIABLE, '')}:{_LIBC}"
    return environment


def plain_environment() -> dict[str, str]:
    """The environment of what prepares, drives and checks: the system's malloc."""
    measured = measured_environment()
    return {name: value for name, value in measured.items() if name not in _CHOOSING_VARIABLES}


def run_plain(command: Sequence[str | Path], *, cwd: Path | None = None, stdin: bytes = b"") -> bytes:
    """Runs `command` on the system's malloc and returns what it wrote to stdout."""
    finished = subprocess.run(
        command, check=False, capture_output=True, cwd=cwd, env=plain_environment(), input=stdin
    )
    require_success(Path(command[0]).name, finished.returncode, finished.stderr)
    return finished.stdout


def require_success(name: str, code: int, stderr: bytes) -> None:
    if code != 0:
        ending = (
            f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit status {code}"
        )
        lines = stderr.decode(errors="replace").strip().splitlines()
        raise RunFailed(f"{name} {ending}" + (f": {lines[-1]}" if lines else ""))


def require_loaded(name: str, pid: int) -> None:
    """Raises if the running process has not mapped the allocator it was to run on."""
    allocator = chosen_allocator()
    if allocator and os.fsencode(allocator.resolve()) not in Path(f"/proc/{pid}/maps").read_bytes():
        raise not_loaded(name, allocator)


def not_loaded(name: str, allocator: Path) -> RunFailed:
    return RunFailed(f"{name} does not run on '{allocator}', which LD_PRELOAD names: it was not loaded")
