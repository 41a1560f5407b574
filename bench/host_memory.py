"""Has memory ready that a program is about to touch.

The host of a virtual machine takes free memory back after a second or two. Whoever touches such
memory next waits for the host, up to a hundred times as long as for a page fault: by chance one
allocator, then another. So as much memory as the program has taken in the rounds before is touched
and freed just before each run, whichever the allocator. On real hardware that changes nothing.
"""

import mmap
import os
from contextlib import suppress

_PAGE = mmap.PAGESIZE
# A program that takes less finds it among what the last one has just freed.
_WORTH_BYTES = 8 << 20


def make_ready(size: float) -> None:
    """Touches `size` bytes, but no more than half of what is free, in a process that then ends."""
    free = os.sysconf("SC_AVPHYS_PAGES") * _PAGE
    wanted = int(min(size, free / 2))
    if wanted < _WORTH_BYTES:
        return
    child = os.fork()  # this process must not grow: what it starts would seem to have grown
    if child == 0:
        try:
            _touch(wanted)
        finally:
            os._exit(0)
    os.waitpid(child, 0)


def _touch(size: int) -> None:
    with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as region:
        # Hosts take back and give whole large pages.
        with suppress(OSError):  # of a kernel without them
            region.madvise(mmap.MADV_HUGEPAGE)
        for offset in range(0, size, _PAGE):
            region[offset] = 1
