"""Runs commands with and without the library preloaded, and says what happened when they fail."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pytest

# Long enough for the slowest command here on a busy two-core machine: past it the command hangs.
DEFAULT_TIMEOUT_S = 240.0
LIBRARY_LINE = re.compile(rb"^hakmem: .*$", re.MULTILINE)
SHOWN_OUTPUT_BYTES = 6000

Argument = str | Path


@dataclass(frozen=True)
class Finished:
    """A command that ended, and all it left behind."""

    command: str
    pid: int
    returncode: int
    stdout: bytes
    stderr: bytes

    @property
    def text(self) -> str:
        return self.stdout.decode(errors="replace")

    @property
    def library_lines(self) -> list[str]:
        """What the library itself said on stderr."""
        return [line.decode(errors="replace") for line in LIBRARY_LINE.findall(self.stderr)]

    def __str__(self) -> str:
        return (
            f"command: {self.command}\n{ending(self.returncode)}\n"
            f"--- stdout\n{tail(self.stdout)}\n--- stderr\n{tail(self.stderr)}"
        )


def ending(returncode: int) -> str:
    if returncode < 0:
        return f"killed by {signal.Signals(-returncode).name}"
    return f"exit status {returncode}"


def tail(output: bytes) -> str:
    cut = f"[{len(output) - SHOWN_OUTPUT_BYTES} bytes cut]\n" if len(output) > SHOWN_OUTPUT_BYTES else ""
    return cut + output[-SHOWN_OUTPUT_BYTES:].decode(errors="replace")


def required_program(name: str, path: str | None = None) -> str:
    """Where the program is installed; its absence is a failure, never a skip."""
    found = shutil.which(name, path=path)
    if not found:
        pytest.fail(f"{name} is not installed: run tests/programs/setup.sh")
    return found


class Runner:
    """Runs commands on the library, checks that they really ran on it, and compares with libc."""

    def __init__(self, library: Path, scratch: Path, user: str | None = None) -> None:
        self.library = library
        self.scratch = scratch
        self.user = user
        self._count = 0

    def preloaded_environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        environment = self.plain_environment()
        environment["LD_PRELOAD"] = str(self.library)
        environment.update(extra or {})
        return environment

    def plain_environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        # Whoever runs the tests may have options of their own set: every program starts from none.
        environment = {
            name: value
            for name, value in os.environ.items()
            if name != "LD_PRELOAD" and not name.startswith(("HAKMEM_", "PYTHON"))
        }
        environment.update(LC_ALL="C.UTF-8", TZ="UTC")
        environment.update(extra or {})
        return environment

    def run(
        self,
        command: Sequence[Argument],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stdin: bytes = b"",
        timeout_s: float = DEFAULT_TIMEOUT_S,
        status: int | None = 0,
        proven: bool = True,
        may_speak: bool = False,
    ) -> Finished:
        """Runs `command` preloaded and requires `status`; None: the caller looks at how it ended.

        `proven`: the process must have left the library's statistics at exit, which shows that it
        ran on it. `may_speak`: lines of the library's own on stderr are expected.
        """
        environment = self.preloaded_environment(env)
        report = self._new_path("stats")
        if proven:
            environment.update(HAKMEM_STATS="1", HAKMEM_STATS_FILE=f"{report}.%p")
        finished = self._finish(command, environment, cwd, stdin, timeout_s)
        shown = f"LD_PRELOAD={self.library} {finished}"
        if status is not None:
            assert finished.returncode == status, f"expected {ending(status)}\n{shown}"
        if proven:
            left = Path(f"{report}.{finished.pid}")
            assert left.is_file() and left.stat().st_size > 0, (
                f"the process left no statistics, so it did not run on the library\n{shown}"
            )
        if not may_speak:
            assert not finished.library_lines, f"the library complained\n{shown}"
        return finished

    def run_plain(
        self,
        command: Sequence[Argument],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stdin: bytes = b"",
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> Finished:
        """Runs `command` without the library: what it gives is what the preloaded run must give."""
        finished = self._finish(command, self.plain_environment(env), cwd, stdin, timeout_s)
        assert finished.returncode == 0, f"fails without the library too\n{finished}"
        return finished

    def same_output(
        self,
        command: Sequence[Argument],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stdin: bytes = b"",
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> Finished:
        """Runs `command` both ways, requires the same standard output, and gives the preloaded run."""
        plain = self.run_plain(command, env=env, cwd=cwd, stdin=stdin, timeout_s=timeout_s)
        preloaded = self.run(command, env=env, cwd=cwd, stdin=stdin, timeout_s=timeout_s)
        assert preloaded.stdout == plain.stdout, (
            f"other output than without the library\n{preloaded}\n\n{plain}"
        )
        assert plain.stdout, f"no output to compare\n{plain}"
        return preloaded

    @contextmanager
    def server(
        self,
        command: Sequence[Argument],
        *,
        ready: Callable[[], bool],
        cwd: Path,
        env: Mapping[str, str] | None = None,
        timeout_s: float = 60.0,
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Runs `command` preloaded for the length of the block; it must still live at its end.

        At the end it gets SIGTERM and must leave with status 0, unless the block made it end.
        """
        log = self._new_path("server-log")
        with log.open("wb") as sink:
            process = self._spawn(
                command, self.preloaded_environment(env), cwd, (subprocess.DEVNULL, sink, sink)
            )

        def described(what: str) -> str:
            return f"{what}: LD_PRELOAD={self.library} {join(command)}\n--- log\n{tail(log.read_bytes())}"

        try:
            wait_until(
                lambda: process.poll() is not None or ready(),
                timeout_s,
                lambda: described(f"the server is not ready after {timeout_s} s"),
            )
            if process.poll() is not None:
                pytest.fail(described(f"the server ended at once ({ending(process.returncode)})"))
            assert_loaded(process.pid, self.library)
            yield process
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            try:
                process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                pytest.fail(described(f"the server does not stop within {timeout_s} s of SIGTERM"))
            assert process.returncode == 0, described(f"the server ended with {ending(process.returncode)}")
            said = LIBRARY_LINE.findall(log.read_bytes())
            assert not said, described("the library complained")
        finally:
            kill_group(process)

    def _finish(
        self,
        command: Sequence[Argument],
        environment: dict[str, str],
        cwd: Path | None,
        stdin: bytes,
        timeout_s: float,
    ) -> Finished:
        # Files, not pipes: a grandchild that outlives the command would keep a pipe open.
        stem = self._new_path("output")
        paths = {name: stem.with_suffix(f".{name}") for name in ("in", "out", "err")}
        paths["in"].write_bytes(stdin)
        with paths["in"].open("rb") as source, paths["out"].open("wb") as out, paths["err"].open("wb") as err:
            process = self._spawn(command, environment, cwd, (source, out, err))
        try:
            returncode = process.wait(timeout_s)
            hangs = False
        except subprocess.TimeoutExpired:
            hangs = True
            returncode = -signal.SIGKILL
        finally:
            kill_group(process)
        finished = Finished(
            command=join(command),
            pid=process.pid,
            returncode=returncode,
            stdout=paths["out"].read_bytes(),
            stderr=paths["err"].read_bytes(),
        )
        for path in paths.values():
            path.unlink()
        if hangs:
            preload = environment.get("LD_PRELOAD", "nothing")
            pytest.fail(f"still running after {timeout_s} s, with {preload} preloaded\n{finished}")
        return finished

    def _spawn(
        self,
        command: Sequence[Argument],
        environment: dict[str, str],
        cwd: Path | None,
        streams: tuple[IO[bytes] | int, IO[bytes], IO[bytes]],
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [str(word) for word in command],
            env=environment,
            cwd=cwd or self.scratch,
            stdin=streams[0],
            stdout=streams[1],
            stderr=streams[2],
            start_new_session=True,
            user=self.user,
            group=self.user,
            extra_groups=[] if self.user else None,
        )

    def _new_path(self, kind: str) -> Path:
        self._count += 1
        return self.scratch / f".{kind}-{self._count}"


def join(command: Sequence[Argument]) -> str:
    return shlex.join(str(word) for word in command)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Ends the process and whatever it started and left in its session's first process group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def wait_until(condition: Callable[[], bool], timeout_s: float, failure: Callable[[], str]) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(failure())
        time.sleep(0.05)


def assert_loaded(pid: int, library: Path) -> None:
    """Requires that the running process has mapped the library."""
    maps = Path(f"/proc/{pid}/maps").read_text()
    assert str(library) in maps, f"process {pid} has not mapped {library}:\n{maps}"
