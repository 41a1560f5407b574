"""Has a process sample: for a while, or until it is told to stop."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hakmem.ending import ended_in_order
from hakmem.errors import HakmemError
from hakmem.inside.asking import ask
from hakmem.inside.live_file import Kind, Sampling
from hakmem.inside.target import Target
from hakmem.units import shown_bytes


def switch_sampling(target: Target, switch: str, interval: int, wait: float) -> str:
    """`switch` is "start" or "stop"; says what is so then."""
    _keep(target)
    if switch == "stop":
        try:
            ask(target, Kind.STOP, wait)
        except HakmemError as error:
            raise HakmemError(f"{error}{'; it samples until then' if target.alive() else ''}") from error
        what_it_has = f"'hakmem profile {target.pid}' writes what it has, until it is started anew"
        return f"{target} samples no more; {what_it_has}"
    _require_same_interval(target, target.file.header().sampling, interval)
    ask(target, Kind.START, wait, interval)
    every = f", once in {shown_bytes(interval)}" if interval else ""
    return f"{target} samples{every}; 'hakmem profile {target.pid}' writes what it has, --stop ends it"


@contextmanager
def sampling(
    target: Target, seconds: float | None, interval: int, wait: float
) -> Iterator[Callable[[], None]]:
    """Samples for so long, if at all, then has the profile taken, and only then ends it: what is allocated in
    between is not sampled, and a program that replaces its blocks would soon hold none that are.

    Gives what raises if the last answer does not tell of all of that time. Leaves a process sampling that
    did so before.
    """
    if seconds is None:
        yield lambda: None
        return
    _keep(target)
    file = target.file
    before = file.header().sampling
    _require_same_interval(target, before, interval)
    if before.interval:
        interval = 0  # as it is: what was sampled so far stays, and the interval may still grow by itself
    started = before
    ours = False

    def require_whole() -> None:
        now = file.header().sampling
        if not _goes_on(started, now, interval):
            what = f"anew, once in {shown_bytes(now.interval)}" if now.interval else "no more"
            raise HakmemError(
                f"{target} was made to sample {what}, while this command had it sample: what it allocated "
                "before that is lost; try again"
            )

    with ended_in_order():
        try:
            interval_before = before.interval
            try:
                ask(target, Kind.START, wait, interval)
                interval_before = file.header().interval_before  # it may have begun since it was published
            finally:
                # If an interrupt comes just when it has started, it has; what was asked last is then another
                # thing, and only what was published says whose it is.
                started = file.header().sampling
                ours = interval_before == 0 and started.interval != 0 and started.run != before.run
            _wait_alive(target, seconds)
            yield require_whole
        finally:
            if ours and _goes_on(started, file.header().sampling, interval):
                _end_sampling(target, wait)


def _keep(target: Target) -> None:
    """One command's sampling must not be ended or begun anew by another's."""
    if not target.file.keep_sampling():
        raise HakmemError(
            f"another 'hakmem profile' has {target} sample for a while: try again when that has ended"
        )


def _require_same_interval(target: Target, now: Sampling, wanted: int) -> None:
    """What begins anew, with another interval, forgets all samples so far, perhaps from the start on."""
    if wanted and now.interval not in (0, wanted):
        raise HakmemError(
            f"{target} samples already, once in {shown_bytes(now.interval)}: leave out --interval; or have "
            f"'hakmem profile {target.pid}' write what it has sampled, for that is gone when it begins anew, "
            "and then end it with --stop"
        )


def _goes_on(then: Sampling, now: Sampling, wanted: int) -> bool:
    """Whether nothing has ended or restarted it since; an interval that nobody asked for grows by itself."""
    grown = then.interval and now.interval % then.interval == 0 and now.interval > then.interval
    return now.run == then.run or (wanted == 0 and bool(grown))


def _wait_alive(target: Target, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        if not target.alive():
            raise HakmemError(
                f"{target} ended while it was sampled: HAKMEM_PROF=1 has it write a profile when it exits, "
                "HAKMEM_PROF_PEAK=1 also before that, whatever ends it"
            )
        time.sleep(min(left, 0.2))


def _end_sampling(target: Target, wait: float) -> None:
    try:
        if target.alive():
            ask(target, Kind.STOP, wait)
    except HakmemError as error:
        if target.alive():
            raise HakmemError(
                f"{error}; it still samples: 'hakmem profile {target.pid} --stop' ends that"
            ) from error
