"""Resident memory over a program's phases: the steps of `battle`, the phases of `fragmentation`."""

from dataclasses import dataclass

from bench.results import WorkloadResult
from bench.view import View

FRAGMENTATION = "fragmentation"
BATTLE = "battle"

# Moments of `battle` at which the program has asked for its memory to be given back: by a function of the
# allocator's own, and in older results by malloc_trim, whosever that was.
ASKED = ("released", "flushed")

_LIVE = "_live_bytes"
_RSS = "_rss_bytes"
_NEVER_ASKS = "--release none"


@dataclass(frozen=True)
class Phase:
    name: str
    live_bytes: float
    rss_bytes: float

    @property
    def ratio(self) -> float:
        return self.rss_bytes / self.live_bytes


def fragmentation(view: View) -> list[WorkloadResult]:
    return [workload for workload in view.results.workloads if workload.family == FRAGMENTATION]


def battles(view: View) -> list[WorkloadResult]:
    return [workload for workload in view.results.workloads if workload.family == BATTLE]


def phases(workload: WorkloadResult, allocator: str) -> list[Phase]:
    """In the order in which they were run."""
    result = []
    for name in _figures(workload, allocator):
        if name.endswith(_LIVE):
            phase = name.removesuffix(_LIVE)
            live, rss = (workload.figure(allocator, phase + suffix) for suffix in (_LIVE, _RSS))
            if live and rss:
                result.append(Phase(phase.replace("_", " "), live, rss))
    return result


def over_start(workload: WorkloadResult, allocator: str, moment: str) -> float | None:
    """Bytes resident at a moment of `battle` (allocated, freed, released, idle) over those at its start."""
    if moment in ASKED and _NEVER_ASKS in workload.command:
        return None  # older results have a figure there, too
    start, now = (workload.figure(allocator, f"rss_{name}_bytes") for name in ("start", moment))
    return None if start is None or now is None else now - start


def _figures(workload: WorkloadResult, allocator: str) -> list[str]:
    return list(dict.fromkeys(name for run in workload.good(allocator) for name in run.figures))
