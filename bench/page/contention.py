"""What threads wait for: how often a thread found a lock taken, and how often it can have taken one."""

from collections.abc import Mapping
from dataclasses import dataclass

from bench.page.markdown import bold, digits, heading, not_counted, paragraph, table
from bench.results import Contention
from bench.view import View

_MILLION = 1_000_000


@dataclass(frozen=True)
class _Column:
    title: str
    meaning: str
    counters: tuple[str, ...]  # whose sum it is; see docs/statistics.md
    without: tuple[str, ...] = ()  # counters of what these count, but which is none of it

    def value(self, counters: Mapping[str, float]) -> float:
        return sum(counters.get(name, 0) for name in self.counters) - sum(
            counters.get(name, 0) for name in self.without
        )


_STOCKS = ("refills_stock", "flushes_stocked")  # from and to these: docs/design.md

_COLUMNS = (
    _Column(
        "waits for the arena",
        "a thread found the arena's lock taken, and waited",
        ("arena_lock_waits",),
    ),
    _Column(
        "other waits",
        "a thread found any other lock of the allocator taken, and waited",
        ("other_lock_waits",),
    ),
    _Column(
        "slabs",
        "a slab, or a block so large that it has slabs of its own, was taken from the arena or given back; "
        "or a slab was taken over from a thread that has ended",
        (
            *("slabs_created", "slabs_adopted", "slabs_released"),
            *("large_allocs", "large_frees", "huge_allocs", "huge_frees"),
        ),
        # A block on slabs that its thread has kept: neither then nor when they were kept was the arena asked.
        without=("large_kept", "large_kept"),
    ),
    _Column("purges", "memory that lay idle was given back to the operating system", ("purges",)),
    _Column(
        "heaps' locks",
        "a thread went on with another slab that had free blocks, or moved some hundred blocks to or from "
        "its stocks, which are what its magazines had no room for; for that it took the lock of one heap "
        "(what a thread owns), mostly its own",
        (
            *("refills_partial_slab", "refills_inbox_slab", "refills_adopted_slab"),
            *_STOCKS,
        ),
    ),
    _Column(
        "batches",
        "blocks were moved between a thread's magazine and slabs: without a lock, by atomic operations on "
        "what threads share",
        ("refills", "flushes", "remote_flushes"),
        without=_STOCKS,
    ),
    _Column(
        "blocks back",
        "a block left a magazine, or a stock, on its way to its slab (those of remote batches are not "
        "counted); an atomic operation puts it there, which up to 64 neighbours share, and blocks in no "
        "order do not: so there are at most so many, and a few more for each part of a slab that had no "
        "free block before",
        ("flushed_blocks", "stock_returned_blocks"),
    ),
    _Column(
        "remote batches",
        "of the batches, those of up to 256 blocks that belong to other threads",
        ("remote_flushes",),
    ),
    _Column(
        "parcels",
        "blocks of a remote batch were left for their owner's magazines all at once, by four atomic "
        "operations; those that are not come back one by one, or as neighbours, as above",
        ("remote_parcels",),
    ),
)


def lines(view: View) -> list[str]:
    counted = view.results.contention
    if not counted:
        return []
    return [
        *heading(2, "What threads wait for"),
        *paragraph(
            f"{view.short} gives each thread magazines of free blocks, one for each size, which it takes",
            "from and frees to and asks nobody. Only when a magazine runs out, or over, does it turn to",
            "slabs: pieces of memory that hold blocks of one size. And only for a new slab, or with an empty",
            "one, does it turn to the arena, from which all threads have their memory. The table says how",
            "often that happened in a million operations (a real program's operation, a line or a request,",
            "takes many blocks), by the library's own counters, in one run apart from the timed ones, the",
            "start and the end of the process included.",
        ),
        *table(
            ["workload", *(column.title for column in _COLUMNS)],
            (_row(entry) for entry in counted if not entry.failure),
        ),
        *(f"- {bold(column.title)}: {column.meaning}" for column in _COLUMNS),
        "",
        *paragraph(
            f"{bold('To read it')}: no lock that all threads share is taken more often than once for each of",
            "the slabs in the third column (besides purges, and when a thread starts or ends), so that where",
            "the first two columns are near 0, no thread holds up another.",
        ),
        *_failures(counted),
    ]


def _row(entry: Contention) -> list[str]:
    millions = entry.operations / _MILLION
    return [entry.name, *(_rate(column.value(entry.counters) / millions) for column in _COLUMNS)]


def _rate(value: float) -> str:
    return digits(value) if value else "0"


def _failures(counted: list[Contention]) -> list[str]:
    return not_counted(f"{entry.name}: {entry.failure}" for entry in counted if entry.failure)
