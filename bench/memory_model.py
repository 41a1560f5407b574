"""What blocks cost beyond their data, from the memory_usage workloads: overheads, and a fitted cost model."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from bench.results import WorkloadResult
from bench.view import View

FAMILY = "memory_usage"

# Below this many blocks, what one block costs is lost in what the allocator takes once.
_BLOCKS_TO_FIT = 1_000_000


@dataclass(frozen=True)
class Usage:
    """Many blocks of one size on one allocator."""

    blocks: float
    block_bytes: float
    data_bytes: float
    extra_bytes: float  # resident beyond data and beyond the bare process on the system's malloc

    @property
    def overhead(self) -> float:
        """A share of the data."""
        return self.extra_bytes / self.data_bytes


@dataclass(frozen=True)
class CostModel:
    """RSS = data + fixed + per_block x blocks."""

    fixed_bytes: float
    per_block_bytes: float


def usages(view: View) -> dict[str, dict[str, Usage]]:
    """By workload, then by allocator; nothing where the bare process was not measured."""
    bare = bare_bytes(view)
    if bare is None:
        return {}
    result: dict[str, dict[str, Usage]] = {}
    for workload in _workloads(view):
        found = {name: usage for name in view.names if (usage := _usage(workload, name, bare))}
        if found:
            result[workload.name] = found
    return result


def bare_bytes(view: View) -> float | None:
    """The program's own memory: with no blocks, on the system's malloc."""
    for workload in _workloads(view):
        if workload.figure(view.system, "blocks") == 0:
            return workload.figure(view.system, "rss_bytes")
    return None


def fit(found: Sequence[Usage]) -> CostModel | None:
    """Over the usages of one block size; None if they are too few for a line."""
    points = [(usage.blocks, usage.extra_bytes) for usage in found if usage.blocks >= _BLOCKS_TO_FIT]
    if len({blocks for blocks, _ in points}) < 2:
        return None
    slope, intercept = statistics.linear_regression(*zip(*points, strict=True))
    return CostModel(intercept, slope)


def models(view: View) -> dict[float, dict[str, CostModel]]:
    """By block size, then by allocator, where enough was measured."""
    by_size: dict[float, dict[str, list[Usage]]] = {}
    for by_allocator in usages(view).values():
        for name, usage in by_allocator.items():
            by_size.setdefault(usage.block_bytes, {}).setdefault(name, []).append(usage)
    fitted = {
        size: {name: model for name, found in by_allocator.items() if (model := fit(found))}
        for size, by_allocator in by_size.items()
    }
    return {size: found for size, found in fitted.items() if found}


def _workloads(view: View) -> list[WorkloadResult]:
    return [workload for workload in view.results.workloads if workload.family == FAMILY]


def _usage(workload: WorkloadResult, allocator: str, bare: float) -> Usage | None:
    figures = {
        name: workload.figure(allocator, name)
        for name in ("blocks", "block_bytes", "data_bytes", "rss_bytes")
    }
    blocks, size, data, rss = figures.values()
    if blocks is None or size is None or data is None or rss is None or data == 0:
        return None
    return Usage(blocks, size, data, rss - bare - data)
