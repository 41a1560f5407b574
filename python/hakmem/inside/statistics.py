"""The statistics that the library publishes, by the names of docs/statistics.md."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from hakmem.errors import HakmemError
from hakmem.inside.live_file import Publication
from hakmem.inside.names import printable, printable_document

SCHEMA = 1
_LONGEST_SCHEMA = 20  # of one that is shown
_NUMBERS_END = 1 << 64
LANES = ("tiny", "mid", "large", "huge")

# What each counter counts. Those that are absent from a publication count 0.
COUNTERS = {
    "refills": "Magazines that ran empty and were filled",
    "refilled_blocks": "Blocks that came into magazines so",
    "refills_parcels": "Refills served by blocks that other threads freed and left in parcels",
    "refills_stock": "Refills served by the thread's stock of blocks that a magazine had no room for",
    "refills_current_slab": "Refills served by the slab that served the last one",
    "refills_partial_slab": "Refills served by a partly-used slab of the thread's own",
    "refills_inbox_slab": "Refills served by a slab that other threads had freed blocks of",
    "refills_adopted_slab": "Refills served by a slab that another thread had used in part",
    "refills_fresh_slab": "Refills served by a new slab",
    "magazine_growths": "Magazines that got a larger array",
    "flushes": "Magazines from which blocks were returned to slabs, or put into stocks",
    "flushed_blocks": "Blocks that left magazines so",
    "flushes_magazine_full": "Flushes because a magazine was full",
    "flushes_stocked": "Of these, those whose blocks were put into stocks",
    "stock_returned_blocks": "Blocks returned from stocks to slabs",
    "flushes_thread_exit": "Flushes because the thread ended",
    "flushes_reclaim": "Flushes because the thread slept for long",
    "flushes_idle": "Flushes because the thread used other sizes for long",
    "flushes_surplus": "Flushes because a thread's magazines together held too much",
    "flushes_api": "Flushes because the program asked for it",
    "remote_freed_blocks": "Blocks freed by another thread than the one that they belong to",
    "remote_flushes": "Times that such blocks were returned together",
    "remote_parcels": "Parcels of such blocks that were left with their owner",
    "remote_kept_blocks": "Of such blocks, those that the thread keeps for its next allocations",
    "large_allocs": "Blocks of the large lane allocated",
    "large_frees": "Blocks of the large lane freed",
    "large_kept": "Of those allocated, those on a run that the thread had kept",
    "huge_allocs": "Blocks of the huge lane allocated",
    "huge_frees": "Blocks of the huge lane freed",
    "huge_remaps": "Huge blocks that realloc moved without copying",
    "foreign_frees": "Blocks of libc's allocator that were freed",
    "slabs_created": "Slab runs made for a size class",
    "slabs_recycled": "Slab runs made of memory that was still resident",
    "slabs_adopted": "Slab runs, used in part, taken over from other threads",
    "slabs_released": "Slab runs that became empty and were given back to the arena",
    "superslabs_opened": "Superslabs taken into use that were wholly free",
    "superslabs_dense": "Superslabs that came as one huge page",
    "regions_created": "Reservations of address space",
    "purges": "Ranges given back to the operating system",
    "purged_bytes": "Bytes given back to the operating system",
    "decayed_bytes": "Bytes given back because they lay idle",
    "hole_bytes": "Bytes given back of free blocks in slabs that are in use",
    "populated_bytes": "Bytes faulted in ahead of use",
    "page_faults_avoided": "Pages populated so, and where realloc copies, less one for each call",
    "heaps_reclaimed": "Heaps taken from threads that slept",
    "system_calls": "Calls into the kernel for memory",
    "arena_lock_waits": "Times that a thread found the arena's lock taken",
    "other_lock_waits": "Times that a thread found another lock of the allocator taken",
    "publications": "Times that the live page was written",
}


@dataclass(frozen=True)
class Statistics:
    """A publication's document; what is absent counts 0."""

    document: Mapping[str, Any]

    @property
    def program(self) -> str:
        return str(self.document.get("program", "?"))

    @property
    def pid(self) -> int:
        return self.number("pid")

    @property
    def version(self) -> str:
        return str(self.document.get("version", "?"))

    @property
    def classes(self) -> Sequence[Mapping[str, int]]:
        """By block size."""
        entries = self.document.get("classes")
        return [
            {name: value for name, value in entry.items() if isinstance(value, bool) or _is_number(value)}
            for entry in (entries if isinstance(entries, list) else ())
            if isinstance(entry, dict)
        ]

    @property
    def measured(self) -> bool:
        return bool(self.section("memory").get("measured"))

    @property
    def scarce(self) -> bool:
        """Whether its container is short of memory, so that less that is free stays."""
        return bool(self.section("container").get("scarce"))

    def section(self, *names: str) -> Mapping[str, Any]:
        found: object = self.document
        for name in names:
            found = found.get(name) if isinstance(found, dict) else None
        return found if isinstance(found, dict) else {}

    def number(self, *names: str) -> int:
        return _number(self.section(*names[:-1]).get(names[-1]))

    def memory(self, name: str) -> int:
        return self.number("memory", name)

    def counter(self, name: str) -> int:
        return self.number("counters", name)

    def numbers(self, *names: str) -> dict[str, int]:
        """All numbers of a section."""
        entries = self.section(*names).items()
        return {name: value for name, value in entries if _is_number(value)}

    def batches(self, name: str) -> list[int]:
        found = self.section("batches").get(name)
        return list(map(_number, found)) if isinstance(found, list) else []


def statistics_of(publication: Publication) -> Statistics:
    schema = publication.statistics.get("schema")
    if schema != SCHEMA:
        raise HakmemError(
            f"the library in that process publishes schema {printable(str(schema))[:_LONGEST_SCHEMA]}, this "
            f"command reads {SCHEMA}: use the hakmem command that came with that library"
        )
    try:
        return Statistics(printable_document(publication.statistics))
    except RecursionError as error:
        raise HakmemError("what that process publishes is nested too deeply to be the library's") from error


def _is_number(value: object) -> TypeGuard[int]:
    """Anyone may write a file that says it is the library's: numbers that it cannot write are none."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _NUMBERS_END


def _number(value: object) -> int:
    return value if _is_number(value) else 0
