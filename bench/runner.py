"""Runs one workload once on one allocator, and says what it took or why it failed.

Nothing here knows which allocator is whose: all get the same environment but for what preloads them, the same
limits, and the same treatment of failures.
"""

import ctypes
import json
import os
import signal
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from shutil import which
from typing import Any

from hakmem.allocators import Allocator, environment_for
from hakmem.ending import ending
from hakmem.errors import HakmemError
from hakmem.measure import Measurement, Streams, run_measured
from hakmem.proc import stat_fields
from hakmem.program import resolve
from hakmem.tune.policies import PADDING

from bench.places import without_places
from bench.results import Run
from bench.suite import Workload

# What the user's environment may change in a program's speed or memory is left out.
_INHERITED = ("HOME", "PATH", "USER")
_FIXED = {"LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"}

_PR_SET_CHILD_SUBREAPER = 36
_LONGEST_REASON = 300


class Interrupted(Exception):
    """The user wants no more."""


@dataclass(frozen=True)
class Runner:
    places: Mapping[str, str]  # for the placeholders in commands
    full: bool

    def problem(self, workload: Workload) -> str | None:
        """Why the workload cannot be run here, None if it can."""
        if absent := [name for name in workload.needs if which(name) is None]:
            return f"needs {', '.join(absent)}, which is not installed"
        try:
            _resolved(workload.arguments(self.places, full=self.full)[0])
        except HakmemError as error:
            return str(error)
        return None

    def run(self, workload: Workload, allocator: Allocator, number: int) -> Run:
        arguments = workload.arguments(self.places, full=self.full)
        timeout = workload.timeout(full=self.full)
        with (
            tempfile.TemporaryDirectory(prefix="hakmem-bench-") as scratch,
            _captured() as streams,
            _orphans_ended(),
        ):
            environment = environment_for(allocator, {**base_environment(scratch), **_settings(allocator)})
            try:
                measured = run_measured(
                    _resolved(arguments[0]),
                    arguments,
                    environment,
                    streams,
                    look_for=allocator.library.resolve() if allocator.library else None,
                    timeout_seconds=timeout,
                )
            except HakmemError as error:
                return _failed(number, str(error))
            if measured.interrupted:
                raise Interrupted
            said, complaint = (_text_of(descriptor) for descriptor in (streams.stdout, streams.stderr))
        if measured.timed_out:
            return _run(number, measured, failure=f"stopped after {timeout:g} s")
        if measured.status:
            return _run(number, measured, failure=_shortened(f"{ending(measured.status)}{_last(complaint)}"))
        if measured.mapped is False:
            return _run(number, measured, failure=_shortened(not_loaded(allocator)))
        try:
            line = _json_line(said, required=workload.kind != "program")
        except ValueError as error:
            return _run(number, measured, failure=_shortened(str(error)))
        return _run(number, measured, line)


def base_environment(scratch: str) -> dict[str, str]:
    """The same for every run: its size must not depend on who runs the benchmarks, nor when."""
    kept = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    return {**kept, **_FIXED, "TMPDIR": scratch}


def not_loaded(allocator: Allocator) -> str:
    """Why figures are none of the allocator's: the dynamic linker goes on without what it cannot preload."""
    place = without_places(str(allocator.library))
    return f"did not run on {allocator.title}: '{place}' was not loaded; is it there, and whole?"


def _settings(allocator: Allocator) -> dict[str, str]:
    """What one variant of HAKMEM has and another has not; nothing for the allocators that are compared."""
    return {
        name: value for name, value in allocator.environment.items() if name.startswith(("HAKMEM_", PADDING))
    }


def adopt_orphans() -> None:
    """From now on, processes that a workload leaves behind become children of this one."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


@cache
def _resolved(command: str) -> Path:
    return resolve(command)


def _run(
    number: int, measured: Measurement, line: Mapping[str, float] | None = None, failure: str | None = None
) -> Run:
    figures = dict(line or {})
    seconds, operations = figures.pop("seconds", None), figures.pop("operations", None)
    # The program's own line comes first: what is measured of a driver is not what its server took.
    return Run(
        round=number,
        wall_seconds=measured.wall_seconds,
        cpu_seconds=figures.pop("cpu_seconds", measured.cpu_seconds),
        peak_rss_bytes=figures.pop("peak_rss_bytes", measured.peak_rss),
        end_rss_bytes=figures.pop("end_rss_bytes", measured.end_rss),
        minor_faults=measured.minor_faults,
        seconds=seconds,
        operations=operations,
        figures=figures,
        failure=failure,
    )


def _failed(number: int, reason: str) -> Run:
    return Run(number, 0, 0, 0, 0, 0, failure=_shortened(reason))


@contextmanager
def _captured() -> Iterator[Streams]:
    with (
        Path(os.devnull).open("rb") as nothing,
        tempfile.TemporaryFile() as output,
        tempfile.TemporaryFile() as errors,
    ):
        yield Streams(nothing.fileno(), output.fileno(), errors.fileno())


def _text_of(descriptor: int) -> str:
    size = os.fstat(descriptor).st_size
    return os.pread(descriptor, size, 0).decode(errors="replace")


def _json_line(said: str, *, required: bool) -> dict[str, float] | None:
    """The figures of the one line of JSON; None if a real program prints none."""
    lines = [line for line in said.splitlines() if line.startswith("{")]
    if not lines and not required:
        return None
    if len(lines) != 1:
        raise ValueError(f"printed {len(lines)} lines of JSON in place of one")
    try:
        document: Any = json.loads(lines[0])
    except ValueError as error:
        raise ValueError(f"printed a line that is not JSON: {error}") from error
    figures = {
        name: float(value)
        for name, value in document.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    for name in ("operations", "seconds"):
        if required and name not in figures:
            raise ValueError(f"printed no number of '{name}'")
        if figures.get(name, 1) < 0 or figures.get("operations", 1) == 0:
            raise ValueError(f"printed {name} = {figures[name]:g}")
    return figures


def _last(complaint: str) -> str:
    lines = complaint.strip().splitlines()
    return f": {lines[-1]}" if lines else ""


def _shortened(reason: str) -> str:
    return reason if len(reason) <= _LONGEST_REASON else reason[: _LONGEST_REASON - 1] + "…"


@contextmanager
def _orphans_ended() -> Iterator[None]:
    """Ends what the workload left running, so that it cannot disturb the next."""
    try:
        yield
    finally:
        with suppress(ChildProcessError):  # there is none any more
            while True:
                if os.waitpid(-1, os.WNOHANG)[0] == 0:
                    for child in _children():
                        with suppress(ProcessLookupError):
                            os.kill(child, signal.SIGKILL)
                    os.waitpid(-1, 0)


def _children() -> list[int]:
    result = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parent = stat_fields(int(folder.name))[1]
            if int(parent) == os.getpid():
                result.append(int(folder.name))
    return result
