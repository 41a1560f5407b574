"""Signals that come to the command while it runs a program."""

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from types import FrameType

Handler = Callable[[int, FrameType | None], object] | int | None


@dataclass
class Handlers:
    """Handlers of signals that are set for a while."""

    saved: dict[int, Handler] = field(default_factory=dict, kw_only=True)  # what they were before

    def set(self, number: int, handler: Handler) -> None:
        self.saved[number] = signal.signal(number, handler)

    def put_back(self) -> None:
        for number, handler in self.saved.items():
            signal.signal(number, handler)


@dataclass
class SignalGuard(Handlers):
    """Leaves the terminal's signals to the program, passes others on, and notes that they came.

    Around several runs, which have their own, it notes what comes between them.
    """

    pid: int = 0
    interrupted: bool = False
    timed_out: bool = False
    _early: int | None = None  # a signal that came before `pid` was known

    def __enter__(self) -> "SignalGuard":
        for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                self.set(number, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        if signal.SIGALRM in self.saved:
            signal.setitimer(signal.ITIMER_REAL, 0)
        self.put_back()

    def ignore_terminal_stop(self) -> None:
        # A tracer that stopped before it has let its tracee have the same signal would leave it stuck.
        self.set(signal.SIGTSTP, signal.SIG_IGN)

    def kill_after(self, seconds: float | None) -> None:
        if seconds is not None:
            self.set(signal.SIGALRM, self._on_timeout)
            signal.setitimer(signal.ITIMER_REAL, seconds)

    def restore(self) -> None:
        """In the child: the dispositions that a program expects to start with."""
        for number in self.default_signals():
            signal.signal(number, signal.SIG_DFL)

    def default_signals(self) -> list[int]:
        return [*self.saved, signal.SIGPIPE, signal.SIGXFSZ]  # Python ignores the last two

    def pass_on_to(self, pid: int) -> None:
        """From now on, and what came before there was a process to get it."""
        self.pid = pid
        if self._early is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, self._early)

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        self.interrupted = True
        if not self.pid:
            self._early = number
        # The terminal sends SIGINT and SIGQUIT to the program as well.
        if number in (signal.SIGTERM, signal.SIGHUP) and self.pid:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def _on_timeout(self, *_: object) -> None:
        self.timed_out = True
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
