"""Has files read from disk anew.

The kernel keeps a file that was just written in larger pieces than one that it reads as it is needed, and
maps a whole piece into each program that touches a page of it: a library that was just built takes more of
each process than the same one a day later.
"""

import os
from contextlib import suppress
from pathlib import Path


def read_anew(file: Path) -> None:
    """Drops what the kernel keeps of the file, where nobody has it mapped."""
    with suppress(OSError), file.open("rb") as opened:  # what cannot be done is no reason not to measure
        os.fsync(opened.fileno())
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
