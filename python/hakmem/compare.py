"""Runs a program in turn under several allocators, all treated alike, and gathers what each run took."""

import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hakmem.allocators import SYSTEM, Allocator, Missing, find
from hakmem.ending import shell_status
from hakmem.errors import HakmemError
from hakmem.measure import Measurement
from hakmem.memory_curve import Curve, Sampler
from hakmem.rounds import Round, StoppedError
from hakmem.runner import Runner, order_of
from hakmem.signals import SignalGuard


@dataclass
class Side:
    allocator: Allocator
    runs: list[Round] = field(default_factory=list)
    watched: Round | None = None  # a run of its own, whose figures do not count
    curve: Curve | None = None  # the memory that it held over time

    def succeeded(self) -> list[Measurement]:
        return [run.measurement for run in self.runs if run.measurement.status == 0]


@dataclass
class Survey:
    """What came of all runs; the first one was on the reference, showed its output, and counts only here."""

    sides: list[Side]
    reference: Side  # what the others are set in relation to
    missing: list[Missing]
    shown: Round | None = None
    interrupted: bool = False

    def all_runs(self) -> list[Round]:
        runs = [run for side in self.sides for run in (*side.runs, side.watched) if run]
        return ([self.shown] if self.shown else []) + sorted(runs, key=lambda run: run.number)

    def common_status(self) -> int | None:
        """The status that all runs ended with, None if they did not end alike."""
        statuses = {run.measurement.status for run in self.all_runs()}
        return statuses.pop() if len(statuses) == 1 else None

    def figures_of(self, side: Side) -> list[Measurement]:
        """The runs whose figures count: all if all ended alike, else those that succeeded."""
        if self.common_status() is not None:
            return [run.measurement for run in side.runs]
        return side.succeeded()

    def curves(self) -> dict[str, Curve]:
        """By the allocators' titles."""
        return {side.allocator.title: side.curve for side in self.sides if side.curve}

    def exit_status(self) -> int:
        """That of the first run that failed."""
        codes = [shell_status(run.measurement.status) for run in self.all_runs()]
        return next((code for code in codes if code), 0)


def choose(names: Sequence[str] | None) -> tuple[list[Allocator], list[Missing]]:
    """The allocators to compare: all that work here, or exactly those of `names`."""
    found, missing = find(names)
    if names is not None and missing:
        first = missing[0]
        raise HakmemError(f"'{first.name}' cannot be used here: {first.reason} (see 'hakmem allocators')")
    if not found:
        raise HakmemError("no allocator can be used here: 'hakmem allocators' says why")
    if names is None:
        return found, missing
    return sorted(found, key=lambda allocator: names.index(allocator.name)), missing


def survey(
    program: Path,
    arguments: tuple[str, ...],
    allocators: Sequence[Allocator],
    missing: list[Missing],
    runs: int,
    *,
    polling: bool = False,
    curves: bool = False,
    shown_output: int = 1,
) -> Survey:
    """Runs the program once to show its output, then in `runs` rounds, each with all allocators.

    With `curves`, one more round at the end watches the memory of the program: watching costs time.
    """
    sides = [Side(allocator) for allocator in allocators]
    reference = next((side for side in sides if side.allocator.name == SYSTEM), sides[0])
    result = Survey(sides, reference, missing)
    with SignalGuard() as guard:
        total = 1 + len(sides) * (runs + curves)
        runner = Runner(
            program, arguments, polling=polling, shown_output=shown_output, total=total, guard=guard
        )
        try:
            _run_all(result, runner, runs, curves=curves)
        except StoppedError:
            result.interrupted = True
    return result


def _run_all(result: Survey, runner: Runner, runs: int, *, curves: bool) -> None:
    result.shown = runner.run(result.reference.allocator)
    # A reader that left the first run's output wants no more of them.
    result.interrupted = _stopped(result.shown) or result.shown.measurement.status == signal.SIGPIPE
    for number in range(runs):
        for side in order_of(result.sides, number):
            if result.interrupted:
                return
            side.runs.append(runner.run(side.allocator))
            result.interrupted = _stopped(side.runs[-1])
    for side in result.sides if curves else ():
        if result.interrupted:
            return
        sampler = Sampler()
        side.watched = runner.run(side.allocator, on_exec=sampler.start)
        result.interrupted = _stopped(side.watched)
        side.curve = sampler.stop()


def _stopped(run: Round) -> bool:
    return run.measurement.interrupted
