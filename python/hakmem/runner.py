"""Runs a program on one allocator after the other, with the same input each time."""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from hakmem.allocators import Allocator, environment_for
from hakmem.errors import EXIT_NOT_EXECUTABLE, HakmemError
from hakmem.measure import run_measured
from hakmem.replay import Input
from hakmem.rounds import Round, begin_round, run_round
from hakmem.signals import SignalGuard

_Side = TypeVar("_Side")


class Runner:
    """The first run reads and writes as if alone; the output of the others is dropped.

    StoppedError, instead of a run, where `guard` has noted that somebody asked to stop.
    """

    def __init__(
        self,
        program: Path,
        arguments: tuple[str, ...],
        *,
        polling: bool,
        shown_output: int,
        total: int,
        guard: SignalGuard,
    ) -> None:
        self._program = program
        self._run = partial(run_measured, program, arguments, polling=polling)
        self._stdin = Input()
        self._shown_output = shown_output
        self._number = 0
        self._total = total
        self._guard = guard

    def run(
        self,
        allocator: Allocator,
        settings: Mapping[str, str] | None = None,
        side: str | None = None,
        on_exec: Callable[[int], None] = lambda pid: None,
    ) -> Round:
        """One run, with variables of the allocator's own besides what `environment_for` says."""
        self._number += 1
        side = side or allocator.name
        begin_round(self._number, self._total, side, self._guard)
        environment = {**environment_for(allocator, os.environ), **(settings or {})}
        run = partial(self._run, environment, on_exec=on_exec)
        measurement, stderr_end = run_round(
            self._number == 1, self._stdin, run, allocator.library, self._shown_output
        )
        if measurement.mapped is False and os.WIFEXITED(measurement.status):
            raise HakmemError(
                f"{allocator.title} was not loaded in '{self._program}' when it ended: what it runs through "
                "drops LD_PRELOAD, or ends in a statically linked program",
                EXIT_NOT_EXECUTABLE,
            )
        return Round(self._number, side, measurement, stderr_end)


def order_of(sides: Sequence[_Side], number: int) -> list[_Side]:
    """Another one begins each round, and the rest come backwards in every second round."""
    start = number % len(sides)
    first, *others = [*sides[start:], *sides[:start]]
    return [first, *(others[::-1] if number % 2 else others)]
