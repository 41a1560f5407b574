"""Watches, from outside, how much memory a program and its children hold over time."""

import threading
import time
from dataclasses import dataclass, field

from hakmem.inside.process import family, resident_bytes

_FIRST_PERIOD_SECONDS = 0.01
_MOST_POINTS = 1000


@dataclass
class Curve:
    seconds: list[float] = field(default_factory=list)  # since the program began
    rss: list[int] = field(default_factory=list)  # bytes; a page that two processes share counts twice

    def add(self, seconds: float, rss: int) -> None:
        self.seconds.append(seconds)
        self.rss.append(rss)

    def thin_out(self) -> None:
        self.seconds, self.rss = self.seconds[::2], self.rss[::2]


class Sampler:
    """Call `start` once the program runs, and `stop` once it has ended."""

    def __init__(self) -> None:
        self._curve = Curve()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, pid: int) -> None:
        self._thread = threading.Thread(target=self._watch, args=(pid, time.monotonic()), daemon=True)
        self._thread.start()

    def stop(self) -> Curve:
        self._ended.set()
        if self._thread:
            self._thread.join()
        return self._curve

    def _watch(self, pid: int, began: float) -> None:
        period = _FIRST_PERIOD_SECONDS
        while True:
            if rss := sum(map(resident_bytes, family(pid))):  # nothing: it has just let go of its memory
                self._curve.add(time.monotonic() - began, rss)
            # A long program is watched less often, so that any program costs about as many looks.
            if len(self._curve.rss) > _MOST_POINTS:
                self._curve.thin_out()
                period *= 2
            if self._ended.wait(period):
                return
