"""How old a process's figures are, and whether it has grown or shrunk since they were published."""

from hakmem.inside.live_file import Publication
from hakmem.inside.process import Resident
from hakmem.inside.statistics import Statistics
from hakmem.units import shown_bytes, shown_seconds

LIVE_SECONDS = 1.0
_NOTABLE = 0.05
_BESIDE_THE_HEAP_BYTES = 8 << 20  # anonymous memory that any program may have: data, stacks, the linker's


def shown_age(publication: Publication) -> str:
    return f"figures of {shown_seconds(publication.age_seconds())} ago"


def change_since(
    publication: Publication, statistics: Statistics, now: Resident | None, whole_then: int = 0
) -> str | None:
    """One line, where the kernel's figures of now do not fit those that were published.

    `whole_then` is what the process had when it published, where it did not say so itself; 0: not known.
    """
    if now is None:
        return None
    then = statistics.memory("process_resident_bytes") or whole_then
    if then:
        if abs(now.whole - then) <= _NOTABLE * then:
            return None
        direction = "grown" if now.whole > then else "shrunk"
        return f"the process has {direction} since: now {shown_bytes(now.whole)} resident"
    if publication.age_seconds() < LIVE_SECONDS:
        return None
    # The heap is a part of the anonymous memory, so that this says less.
    heap = statistics.memory("heap_resident_bytes")
    if now.anonymous < (1 - _NOTABLE) * heap:
        why = "has shrunk since, or has blocks that it never wrote to"
    elif now.anonymous > (1 + _NOTABLE) * heap + _BESIDE_THE_HEAP_BYTES:
        why = "has grown since, or has memory that is not the allocator's"
    else:
        return None
    return (
        f"the process {why}: now {shown_bytes(now.whole)} resident, of it {shown_bytes(now.anonymous)} "
        f"anonymous, against {shown_bytes(heap)} in these figures"
    )
