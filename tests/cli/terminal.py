"""Runs a command in a terminal of its own, and holds what it drew there."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_HANG_SECONDS = 120


@dataclass(frozen=True)
class Drawn:
    status: int
    text: str  # without what moves the cursor and sets colours


class Terminal:
    def __init__(
        self,
        arguments: Sequence[str | Path],
        environment: Mapping[str, str],
        rows: int = 50,
        columns: int = 120,
        kind: str = "xterm-256color",
    ) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self._process = subprocess.Popen(
            list(map(str, arguments)),
            env={**environment, "TERM": kind},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self._seen = b""

    def wait_for(self, text: str) -> None:
        deadline = time.monotonic() + _HANG_SECONDS
        while text not in self._text():
            assert self._read(1.0) or time.monotonic() < deadline, f"never saw {text!r}: {self._text()!r}"

    def interrupt(self) -> None:
        os.killpg(self._process.pid, signal.SIGINT)

    def finish(self) -> Drawn:
        """What was drawn up to the end of the command."""
        deadline = time.monotonic() + _HANG_SECONDS
        while self._read(1.0) or self._process.poll() is None:
            if time.monotonic() > deadline:
                self._process.kill()
                raise AssertionError(f"does not end: {self._text()!r}")
        os.close(self._ours)
        return Drawn(self._process.wait(), self._text())

    def _read(self, seconds: float) -> bool:
        if not select.select([self._ours], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self._ours, 1 << 16)
        except OSError:  # nobody has the other end any more
            self._process.wait(_HANG_SECONDS)
            return False
        self._seen += data
        return bool(data)

    def _text(self) -> str:
        return _CONTROL.sub("", self._seen.decode(errors="replace"))
