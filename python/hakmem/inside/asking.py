"""Requests to a process, with what can go wrong in one line each."""

import errno
import os
from collections.abc import Callable
from typing import TypeVar

import click

from hakmem.errors import HakmemError
from hakmem.inside.live_file import WHEN_IT_ANSWERS, Kind
from hakmem.inside.parameters import Seconds
from hakmem.inside.target import Target

WAIT_OPTION = click.option(
    "--wait",
    type=Seconds(0),
    default=10.0,
    show_default=True,
    metavar="S",
    help=f"Give up when the process has not answered for S seconds. It answers {WHEN_IT_ANSWERS}.",
)

_ATTEMPTS = 5
_REASONS = {
    errno.ENOSPC: "there is no room for its answer in /dev/shm: free some",
    errno.ENOMEM: "it has no memory for that",
    errno.EBUSY: "it is busy with the profile; try again",
    errno.ENOSYS: "its library does not know this request: use the hakmem command that came with it",
}
_Answer = TypeVar("_Answer")


def ask(target: Target, kind: Kind, wait: float, argument: int = 0) -> None:
    _asked(target, lambda: target.file.request(kind, wait, argument, alive=target.alive))


def answer_of(target: Target, kind: Kind, wait: float) -> bytes:
    return _asked(target, lambda: target.file.request_text(kind, wait, alive=target.alive))


def _asked(target: Target, question: Callable[[], _Answer]) -> _Answer:
    for attempt in range(_ATTEMPTS):
        try:
            return question()
        except HakmemError as error:
            raise HakmemError(f"{target}: {error}") from error
        except OSError as error:
            # Somebody in the process was just counting a sample.
            if error.errno == errno.EBUSY and attempt + 1 < _ATTEMPTS:
                continue
            code = error.errno or 0
            raise HakmemError(f"{target} cannot do that: {_REASONS.get(code, os.strerror(code))}") from error
    raise AssertionError("unreachable")
