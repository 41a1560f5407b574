"""How much of the processors' time went to others while something was measured."""

import os
import resource
import time
from pathlib import Path

from bench.machine import cores

_STAT = Path("/proc/stat")
# Fields of /proc/stat's first line, after its name.
_IDLE = (3, 4)  # idle, and waiting for a disk
_GUESTS = (8, 9)  # counted in user time already
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


class OtherLoad:
    """From its making on: other processes, and on a virtual machine other machines."""

    def __init__(self) -> None:
        self._busy, self._own, self._began = _busy_seconds(), _own_seconds(), time.monotonic()

    def share(self) -> float:
        """0.5: half of all processors' time. Children count as own once they have ended."""
        elapsed = time.monotonic() - self._began
        others = (_busy_seconds() - self._busy) - (_own_seconds() - self._own)
        # The kernel counts in ticks: in a time shorter than one, they may come to more than there is.
        return min(1.0, max(0.0, others / (elapsed * cores()))) if elapsed > 0 else 0.0


def _busy_seconds() -> float:
    ticks = [int(field) for field in _STAT.read_text(encoding="utf-8").splitlines()[0].split()[1:]]
    counted = (value for place, value in enumerate(ticks) if place not in (*_IDLE, *_GUESTS))
    return sum(counted) / _TICKS_A_SECOND


def _own_seconds() -> float:
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)
