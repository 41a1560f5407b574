"""Starts programs from a small process, so that what the kernel counts of their memory is their own.

To the kernel, a program's peak is no less than what the process was before it became the program. If that is
a copy of this interpreter, it hides what many a program takes, and all that its children take.
"""

import marshal
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypedDict

from hakmem.preload import PRELOAD_VARIABLE
from hakmem.small_start_program import become

_SCRIPT = Path(__file__).with_name("small_start_program.py")
_SIGNAL_SET_BYTES = 128


class Order(TypedDict):
    """What is to be started, and how; of bytes and numbers only, because marshal hands it on."""

    program: bytes
    arguments: list[bytes]
    environment: dict[bytes, bytes]
    streams: tuple[int, int, int]
    ready: int  # gets the process's number once it waits
    go: int  # the word comes from here
    error: int  # gets the error's number if the program cannot be executed
    default_signals: list[int]  # whose dispositions a program expects to start with
    blocked_signals: bytes


def start(order: Order, in_copy: Callable[[], None]) -> int:
    """A child that waits for the word: made by a small process or, if that fails, a copy of this one.

    `in_copy` is called in such a copy.
    """
    return _from_small(order) or _copied(order, in_copy)


def blocked_signals() -> bytes:
    """As a sigset_t."""
    blocked = sum(1 << number - 1 for number in signal.pthread_sigmask(signal.SIG_BLOCK, ()))
    return blocked.to_bytes(_SIGNAL_SET_BYTES, sys.byteorder)


def _from_small(order: Order) -> int | None:
    reader, writer = os.pipe()
    written = os.memfd_create("hakmem-start")
    os.write(written, marshal.dumps({**order, "ready": writer}))
    small = os.fork()
    if small == 0:
        try:
            _become_small(written, (written, writer, order["go"], order["error"], *order["streams"]))
        finally:
            os._exit(1)
    os.close(written)
    os.close(writer)
    said = os.read(reader, 16)
    os.close(reader)
    os.waitpid(small, 0)
    return int(said) if said else None


def _become_small(written: int, inherited: tuple[int, ...]) -> None:
    # An interrupt ends it in silence, once the script has taken back the interpreter's own handler.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    for descriptor in inherited:
        os.set_inheritable(descriptor, True)
    environment = {name: value for name, value in os.environ.items() if name != PRELOAD_VARIABLE}
    os.execve(sys.executable, [sys.executable, "-I", "-S", str(_SCRIPT), str(written)], environment)


def _copied(order: Order, in_copy: Callable[[], None]) -> int:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        in_copy()
        become({**order, "ready": writer})
    os.close(writer)
    os.read(reader, 16)
    os.close(reader)
    return child
