"""Where a process publishes its figures, as docs/statistics.md says."""

import os
from pathlib import Path

SHARED_MEMORY = Path("/dev/shm")
# The kernel's number for the namespace of processes that a machine starts with.
FIRST_NAMESPACE = 0xEFFFFFFC


def live_path(pid: int, namespace: int | None = None) -> Path:
    """Of a process with that number; in this process's namespace unless another is given."""
    number = Path("/proc/self/ns/pid").stat().st_ino if namespace is None else namespace
    where = "" if number == FIRST_NAMESPACE else f"{number}-"
    return SHARED_MEMORY / f"hakmem-{os.geteuid()}-{where}{pid}"
