"""What a program writes while it is watched: it appears above the view."""

import fcntl
import os
import select
import struct
import termios
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO

from rich.console import Console
from rich.text import Text

_LOOK_SECONDS = 0.1  # between two looks whether the program has ended
# In which what the program has started, and that goes on writing, may close the pipe.
_CLOSED_SECONDS = 1.0
_CHUNK_BYTES = 1 << 16


@contextmanager
def passed_on(output: IO[bytes] | None, to: Console) -> Iterator[None]:
    """Has all that comes from the pipe, if there is one, printed: what a program wrote that has ended by the
    end of the block, wholly."""
    if output is None:
        yield
        return
    ended = threading.Event()
    thread = threading.Thread(target=_pass_on, args=(output.fileno(), to, ended), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _pass_on(output: int, to: Console, ended: threading.Event) -> None:
    begun = b""
    for chunk in _chunks(output, ended):
        *lines, begun = (begun + chunk).split(b"\n")
        _print_lines(lines, to)
    if begun:
        _print_lines([begun], to)


def _chunks(output: int, ended: threading.Event) -> Iterator[bytes]:
    """Until everybody has closed the pipe; what the program has started may never do that."""
    until: float | None = None
    while until is None or time.monotonic() < until:
        if select.select([output], [], [], _LOOK_SECONDS)[0]:
            chunk = os.read(output, _CHUNK_BYTES)
            if not chunk:
                return
            yield chunk
        if until is None and ended.is_set():
            until = time.monotonic() + _CLOSED_SECONDS
    # However long the rest has taken: what the program itself wrote is in the pipe, if it was not read.
    (left,) = struct.unpack("i", fcntl.ioctl(output, termios.FIONREAD, bytes(4)))
    while left > 0 and (chunk := os.read(output, left)):
        left -= len(chunk)
        yield chunk


def _print_lines(lines: Sequence[bytes], to: Console) -> None:
    """All at once: with each call, the view below is drawn again."""
    if lines:
        texts = [Text.from_ansi(line.decode(errors="replace")) for line in lines]
        to.print(Text("\n").join(texts), soft_wrap=True)
