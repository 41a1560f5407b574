"""How a program ended, in words and as the shell's number; and how a command ends in order."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


def ending(status: int) -> str:
    """Of a status as wait gives it."""
    return ending_of_code(os.waitstatus_to_exitcode(status))


def ending_of_code(code: int) -> str:
    """Of an exit status, or the number of a signal, negated."""
    if code >= 0:
        return f"ended with exit status {code}"
    return f"was killed by {signal_name(-code)}"


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def last_words(stderr: str) -> str:
    """The last line that it wrote, in brackets, to be put behind how it ended."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    return f" ({lines[-1]})" if lines else ""


def shell_status(status: int) -> int:
    return shell_status_of_code(os.waitstatus_to_exitcode(status))


def shell_status_of_code(code: int) -> int:
    return code if code >= 0 else 128 - code


@contextmanager
def ended_in_order() -> Iterator[None]:
    """What would end this command, as `timeout` and a closed terminal do, ends it by an exception."""

    def end(number: int, _: FrameType | None) -> None:
        sys.exit(128 + number)

    numbers = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) is signal.SIG_DFL]
    for number in numbers:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)
