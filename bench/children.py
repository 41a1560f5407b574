"""Runs of a tool that counts, several at a time, which can all be ended: what they follow ends with them."""

import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import TypeVar

from hakmem.errors import HakmemError

from bench.results import Missing

_Count = TypeVar("_Count")


class Children:
    """Of the one program `tool`."""

    def __init__(self, tool: str) -> None:
        self._tool = tool
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[str]] = set()
        self._ended = False

    def complaint(
        self, arguments: Sequence[str], environment: Mapping[str, str], timeout_seconds: float
    ) -> str:
        """What a run says on standard error. Raises if it does not start, fails, or does not end in time."""
        with self._started([self._tool, *arguments], environment) as process:
            try:
                said = process.communicate(timeout=timeout_seconds)[1]
            except subprocess.TimeoutExpired as error:
                raise HakmemError(f"does not end under {self._tool} within {timeout_seconds:g} s") from error
        if process.returncode:
            raise HakmemError(f"does not run under {self._tool} (status {process.returncode})")
        return said

    def end(self) -> None:
        """Kills those that run; no other starts."""
        with self._lock:
            self._ended = True
            for process in self._running:
                _kill(process)

    @contextmanager
    def _started(
        self, command: Sequence[str], environment: Mapping[str, str]
    ) -> Iterator[subprocess.Popen[str]]:
        with self._lock:
            if self._ended:
                raise HakmemError("interrupted")
            try:
                process = subprocess.Popen(
                    command,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    encoding="utf-8",
                    errors="replace",
                    start_new_session=True,
                )
            except OSError as error:
                raise HakmemError(f"cannot run {self._tool}: {error.strerror}") from error
            self._running.add(process)
        try:
            with process:
                try:
                    yield process
                finally:
                    _kill(process)
        finally:
            with self._lock:
                self._running.remove(process)


@contextmanager
def at_once(tool: str, runs: int) -> Iterator[tuple[Children, Executor]]:
    """Behind the block, by an interrupt, too, nothing is waited for: neither what runs nor the rest."""
    children = Children(tool)
    pool = ThreadPoolExecutor(max_workers=runs)
    try:
        yield children, pool
    finally:
        children.end()
        pool.shutdown(cancel_futures=True)


def told_apart(found: Mapping[str, _Count | str]) -> tuple[dict[str, _Count], list[Missing]]:
    """By allocator: what was counted, and the reasons in place of it."""
    counts: dict[str, _Count] = {}
    missing = []
    for name, value in found.items():
        if isinstance(value, str):
            missing.append(Missing(name, value))
        else:
            counts[name] = value
    return counts, missing


def _kill(process: "subprocess.Popen[str]") -> None:
    """With what it follows: that is of its group, and has ended when it has."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
