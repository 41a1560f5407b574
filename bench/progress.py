"""Shows how far a run is: a bar with the time left on a terminal, a line now and then elsewhere."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from bench.session import Progress as State
from bench.session import Report

_LINE_EVERY_SECONDS = 30


@contextmanager
def shown() -> Iterator[Report]:
    console = Console(file=sys.stderr)
    with _bar(console) if console.is_terminal else _line() as report:
        yield report


@contextmanager
def _bar(console: Console) -> Iterator[Report]:
    columns = (BarColumn(), TextColumn("{task.percentage:>3.0f} %"), TextColumn("{task.fields[left]}"))
    # Not refreshed by a thread of its own: that would run beside what is measured, and in forks.
    with Progress(*columns, TextColumn("{task.description}"), console=console, auto_refresh=False) as bar:
        task = bar.add_task("", total=1.0, left="")

        def report(state: State) -> None:
            left = _left(state.seconds_left)
            bar.update(task, completed=state.share, description=state.doing, left=left, refresh=True)

        yield report


@contextmanager
def _line() -> Iterator[Report]:
    said_at = -float(_LINE_EVERY_SECONDS)

    def report(state: State) -> None:
        nonlocal said_at
        if time.monotonic() - said_at >= _LINE_EVERY_SECONDS:
            said_at = time.monotonic()
            print(
                f"bench: {state.share:.0%} {_left(state.seconds_left)} {state.doing}",
                file=sys.stderr,
                flush=True,
            )

    yield report


def _left(seconds: float | None) -> str:
    if seconds is None:
        return "--:-- left"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes:2}:{rest:02} left"
