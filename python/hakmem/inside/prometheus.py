"""The statistics in Prometheus' text exposition format, for a node exporter's text-file collector."""

from collections.abc import Iterable, Iterator, Sequence

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from hakmem.inside.statistics import COUNTERS, LANES, Statistics

_MEMORY = {
    "live_bytes": "In blocks that the program holds, rounded up to their size class",
    "live_blocks": "Blocks that the program holds",
    "cached_bytes": "Free, in the threads' magazines, stocks, buffers and parcels",
    "cached_blocks": "Free blocks in the threads' magazines, stocks, buffers and parcels",
    "free_in_slabs_bytes": "Free and resident, in slabs that hold other blocks",
    "slab_tail_bytes": "Resident, but no block fits",
    "retained_bytes": "Free and resident, in no slab",
    "metadata_bytes": "Resident, the allocator's own",
    "untouched_bytes": "Live or cached, but never written and so not resident",
    "heap_resident_bytes": "Resident memory of the heap",
    "process_resident_bytes": "Resident memory of the whole process",
    "reserved_bytes": "Address space reserved",
    "committed_bytes": "Address space that may be written",
    "retained_limit_bytes": "What may be retained before the excess is given back",
}
_CONTAINER = {
    "limit_bytes": "Memory that the process's container may use, where it has a limit",
    "room_bytes": "What of that was left when the library last asked the kernel",
}
_LANE = {
    "live_blocks": "Blocks that the program holds, by lane",
    "live_bytes": "In blocks that the program holds, by lane",
    "cached_blocks": "Free blocks in magazines, by lane",
    "cached_bytes": "Free in magazines, by lane",
    "free_bytes": "Free and resident in slabs in use, by lane",
    "tail_bytes": "Resident where no block fits, by lane",
    "untouched_bytes": "Allocated but never written, by lane",
    "slab_bytes": "Address space of the slabs in use, by lane",
    "resident_bytes": "Resident memory of the slabs in use, by lane",
}
_CLASS = {
    "slabs": "Slabs in use, by size class",
    "live_blocks": "Blocks that the program holds, by size class",
    "live_bytes": "In blocks that the program holds, by size class",
    "cached_blocks": "Free blocks in magazines, by size class",
    "free_blocks": "Free blocks in slabs, by size class",
    "resident_bytes": "Resident memory of the slabs, by size class",
}
_BATCHES = {"refill": "refilled_blocks", "flush": "flushed_blocks"}
_MILLISECONDS = 1000


def exposition(statistics: Statistics, pid: int, published_ms: int, process_rss: int | None) -> str:
    """`pid` is the process id as seen from here; `process_rss`, where the library has not measured it."""
    registry = CollectorRegistry()
    registry.register(_Exporter(statistics, pid, published_ms, process_rss))
    return generate_latest(registry).decode()


class _Exporter(Collector):
    def __init__(self, statistics: Statistics, pid: int, published_ms: int, process_rss: int | None) -> None:
        self._statistics = statistics
        self._common = (str(pid), statistics.program)
        self._published_ms = published_ms
        self._process_rss = process_rss

    def collect(self) -> Iterator[Metric]:
        s = self._statistics
        yield self._gauge(
            "published_timestamp_seconds", "When the figures were taken", self._published_ms / _MILLISECONDS
        )
        yield self._gauge(
            "uptime_seconds", "Since the library was loaded", s.number("uptime_ms") / _MILLISECONDS
        )
        yield self._gauge("measured", "1: resident figures are the kernel's; 0: estimated", int(s.measured))
        yield from self._memory()
        yield from self._container()
        yield self._gauges(
            "metadata_part_bytes",
            "Resident, the allocator's own, by part",
            "part",
            ((name.removesuffix("_bytes"), value) for name, value in s.numbers("metadata").items()),
        )
        for name, help_text in _LANE.items():
            values = ((lane, s.number("lanes", lane, name)) for lane in LANES)
            yield self._gauges(f"lane_{name}", help_text, "lane", values)
        for name, help_text in _CLASS.items():
            values = ((str(entry.get("bytes", 0)), entry.get(name, 0)) for entry in s.classes)
            yield self._gauges(f"class_{name}", help_text, "size_class", values)
        heaps = s.numbers("heaps").items()
        yield self._gauges("heaps", "Heaps of threads, by state", "state", heaps)
        for name, help_text in COUNTERS.items():
            yield self._counter(name, help_text)
        yield self._fallbacks()
        for name, blocks in _BATCHES.items():
            yield from self._batches(name, s.counter(blocks))

    def _memory(self) -> Iterator[Metric]:
        values = self._statistics.numbers("memory")
        if self._process_rss is not None:
            values.setdefault("process_resident_bytes", self._process_rss)
        for name, help_text in _MEMORY.items():
            if name in values:
                yield self._gauge(name, help_text, values[name])

    def _container(self) -> Iterator[Metric]:
        help_text = "1: the container is short of memory, and less that is free stays; 0: it is not"
        yield self._gauge("container_scarce", help_text, int(self._statistics.scarce))
        values = self._statistics.numbers("container")
        for name, help_text in _CONTAINER.items():
            if values.get("limit_bytes"):
                yield self._gauge(f"container_{name}", help_text, values.get(name, 0))

    def _gauge(self, name: str, help_text: str, value: float) -> Metric:
        family = GaugeMetricFamily(f"hakmem_{name}", help_text, labels=("pid", "program"))
        family.add_metric(self._common, value)
        return family

    def _gauges(self, name: str, help_text: str, label: str, values: Iterable[tuple[str, int]]) -> Metric:
        family = GaugeMetricFamily(f"hakmem_{name}", help_text, labels=("pid", "program", label))
        for of, value in values:
            family.add_metric((*self._common, of), value)
        return family

    def _counter(self, name: str, help_text: str) -> Metric:
        family = CounterMetricFamily(f"hakmem_{name}", help_text, labels=("pid", "program"))
        family.add_metric(self._common, self._statistics.counter(name))
        return family

    def _fallbacks(self) -> Metric:
        family = CounterMetricFamily(
            "hakmem_fallbacks", "What did not go the way it should", labels=("pid", "program", "reason")
        )
        for reason, count in self._statistics.numbers("fallbacks").items():
            family.add_metric((*self._common, reason), count)
        return family

    def _batches(self, name: str, blocks: int) -> Iterator[Metric]:
        counts = self._statistics.batches(name)
        if counts:
            family = HistogramMetricFamily(
                f"hakmem_{name}_batch_blocks",
                f"Blocks that came or went at once in a {name}",
                labels=("pid", "program"),
            )
            family.add_metric(self._common, _cumulative(counts), blocks)
            yield family


def _cumulative(counts: Sequence[int]) -> list[tuple[str, float]]:
    """Entry i counts batches of 2^i to 2^(i+1) - 1 blocks, the last one also all above."""
    total = 0
    buckets: list[tuple[str, float]] = []
    for power, count in enumerate(counts):
        total += count
        bound = "+Inf" if power == len(counts) - 1 else f"{2 ** (power + 1) - 1}.0"
        buckets.append((bound, total))
    return buckets
