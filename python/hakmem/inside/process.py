"""What the kernel tells of a process that is to be looked into."""

import os
import pwd
import select
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from hakmem.inside.names import printable
from hakmem.proc import fields_of, kilobytes, name_and_stat_fields, status_fields

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_POLL_SECONDS = 0.05
_ENDED_STATES = ("Z", "X")


@dataclass(frozen=True)
class Process:
    pid: int
    own_pid: int  # by which it knows itself: another number inside a container
    namespace: int | None  # in which that number is its own; none where this user may not see it
    name: str
    uid: int
    start_ticks: int  # with the number, this tells a process from all others since the machine started

    def __str__(self) -> str:
        return f"process {self.pid} ({self.name})"

    def root(self) -> Path:
        return _folder_with_memory(self.pid) / "root"

    def owner(self) -> str:
        return user_name(self.uid)

    def is_foreign(self) -> bool:
        return os.geteuid() not in (0, self.uid)

    def maps(self) -> str:
        """The lines of its mappings; OSError where this user may not see them or it has just ended."""
        return (_folder_with_memory(self.pid) / "maps").read_text(encoding="utf-8", errors="replace")

    def environment(self) -> dict[str, str]:
        """As it was when the process started; empty where this user may not see it."""
        with suppress(OSError):
            text = (_folder_with_memory(self.pid) / "environ").read_bytes().decode(errors="replace")
            return dict(entry.split("=", 1) for entry in text.split("\0") if "=" in entry)
        return {}

    def is_alive(self) -> bool:
        # It may have changed its name and its user since.
        now = look_up(self.pid)
        return now is not None and now.start_ticks == self.start_ticks

    def ends_within(self, seconds: float) -> bool:
        """Waits for its end, but not longer than that."""
        with ending_of(self.pid) as ended:
            # The number may be another's by now.
            return not self.is_alive() or ended(seconds)

    def has_let_go_of_its_memory(self) -> bool:
        """As one does shortly before its end, and as the kernel's own have none."""
        try:
            return not self.maps()
        except (FileNotFoundError, ProcessLookupError):  # it is gone altogether
            return True
        except OSError:
            return False


@contextmanager
def ending_of(pid: int) -> Iterator[Callable[[float], bool]]:
    """Gives a function that waits for so many seconds, and says whether the process has ended."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        yield lambda seconds: True
        return
    except OSError:  # as in sandboxes that do not know the call
        yield partial(_is_seen_to_end, look_up(pid))
        return
    try:
        yield lambda seconds: bool(select.select([descriptor], [], [], seconds)[0])
    finally:
        os.close(descriptor)


def _is_seen_to_end(process: Process | None, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while process is not None and process.is_alive():
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        time.sleep(min(left, _POLL_SECONDS))
    return True


def look_up(pid: int) -> Process | None:
    """The process that has this number now; none if it has ended, even if nobody has waited for it."""
    folder = Path(f"/proc/{pid}")
    try:
        name, fields = name_and_stat_fields(folder)
        status = status_fields(pid)
        if fields[0] in _ENDED_STATES and _has_ended(_folder_with_memory(pid)):
            return None
    except OSError:
        return None
    return Process(
        pid=pid,
        own_pid=int(status["NSpid"].split()[-1]) if "NSpid" in status else pid,
        namespace=namespace_of(pid),
        name=printable(name),
        uid=int(status["Uid"].split()[1]),
        start_ticks=int(fields[19]),
    )


def _has_ended(folder: Path) -> bool:
    return name_and_stat_fields(folder)[1][0] in _ENDED_STATES


def _folder_with_memory(pid: int) -> Path:
    """Of the process, or of one of its threads that goes on, where the first one has ended."""
    first = Path(f"/proc/{pid}")
    with suppress(OSError):
        if _has_ended(first):
            for thread in first.glob("task/[0-9]*"):
                with suppress(OSError):
                    if not _has_ended(thread):
                        return thread
    return first


def namespace_of(pid: int | str) -> int | None:
    """The namespace of processes that it is in ("self": of this one); none where that is not to be seen."""
    try:
        return Path(f"/proc/{pid}/ns/pid").stat().st_ino
    except OSError:
        return None


def family(pid: int) -> list[int]:
    """The process and all that it started and that still run, with what those started."""
    found = [pid]
    with suppress(OSError):  # it ended meanwhile
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in children.read_text(encoding="utf-8").split():
                found += family(int(child))
    return found


def resident_bytes(pid: int) -> int:
    """As the kernel says; 0 if there is no such process any more."""
    try:
        return int((_folder_with_memory(pid) / "statm").read_text(encoding="utf-8").split()[1]) * _PAGE_BYTES
    except (OSError, IndexError):
        return 0


@dataclass(frozen=True)
class Resident:
    """In physical memory, in bytes."""

    whole: int
    anonymous: int  # of it, without files: heaps, stacks, data


def resident_now(pid: int) -> Resident | None:
    """As the kernel says; none if there is no such process any more."""
    try:
        status = fields_of(_folder_with_memory(pid) / "status")
    except OSError:
        return None
    if "VmRSS" not in status and "RssAnon" not in status:  # it is ending: its memory is gone
        return None
    return Resident(kilobytes(status.get("VmRSS", "0")), kilobytes(status.get("RssAnon", "0")))


def user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"with number {uid}"
