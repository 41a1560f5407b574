"""Finds the live file of a process, or says in one line why there is none."""

import errno
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from hakmem.errors import HakmemError
from hakmem.inside.live_file import WHEN_IT_ANSWERS, LiveFile, Publication
from hakmem.inside.process import Process, look_up, namespace_of, user_name

SHARED_MEMORY = Path("/dev/shm")
# The kernel's number for the namespace of processes that a machine starts with.
_FIRST_NAMESPACE = 0xEFFFFFFC
LONGEST_ENDING_SECONDS = 1.0  # what a process that has removed its file may need until it is gone
_FIRST_FIGURES = f"it does once it is 50 ms old or uses 32 MiB, {WHEN_IT_ANSWERS}"
_LIVE_FILE_BYTES = 68 << 10
# Settings with which a process has no figures to publish, and their values that do so.
_SILENCING = (
    ("HAKMEM_LIVE", ("0", "false", "no", "off"), "off"),
    ("HAKMEM_FORCE_LIBC_ALLOC", ("1", "true", "yes", "on"), "on"),
)
_START_IT_SO = "start the program with 'hakmem run -- PROGRAM'"


@dataclass
class Target:
    """A process and its figures; `process` is none if it ended and left the file behind."""

    pid: int
    process: Process | None
    file: LiveFile

    def __enter__(self) -> "Target":
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def __str__(self) -> str:
        return str(self.process) if self.process else f"process {self.pid}"

    def root(self) -> Path:
        """Where the files are that it sees at "/"."""
        return self.process.root() if self.process else Path("/")

    def alive(self) -> bool:
        return self.process is not None and self.process.is_alive()

    def read(self) -> Publication:
        publication = self.file.read()
        if publication is None:
            raise HakmemError(
                f"{self} has not published figures yet: {_FIRST_FIGURES}; try again in a moment"
            )
        return publication


def open_target(pid: int) -> Target:
    """The process `pid`, or what one that had this number left behind."""
    if process := look_up(pid):
        try:
            return _target_of(process)
        except HakmemError:
            # The last that it does is to end, but before that it looks like one without HAKMEM.
            if not (process.has_let_go_of_its_memory() and process.ends_within(LONGEST_ENDING_SECONDS)):
                raise
    return _left_behind(pid)


def open_running(pid: int) -> Target:
    """As open_target, for what only a process that still runs can do."""
    target = open_target(pid)
    if target.process is None:
        target.file.close()
        raise HakmemError(
            f"process {pid} has ended; 'hakmem stats {pid}' shows the last figures that it left behind"
        )
    return target


def running_targets() -> Iterator[Target]:
    """All that publish and that this user may look into."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(HakmemError):  # it has ended meanwhile, or another's file stands in its place
            process = look_up(int(folder.name))
            target = _published(process) if process else None
            if target:
                yield target


def ended_targets() -> Iterator[Target]:
    """All that have ended and left figures behind, in this namespace of processes."""
    namespace = namespace_of("self")
    for path in SHARED_MEMORY.glob("hakmem-*"):
        if not _may_be_of(path, namespace):
            continue
        with suppress(OSError, HakmemError):  # another user's, or none of the library's
            file = LiveFile(path)
            try:
                header = file.header()
                number = int(path.name.rpartition("-")[2])
                process = look_up(number)
                has_ended = process is None or process.start_ticks != header.start_ticks
                is_left = header.pid == number and has_ended and not file.is_given_up()
            except BaseException:
                file.close()
                raise
            if is_left:
                yield Target(number, None, file)
            else:
                file.close()


def _target_of(process: Process) -> Target:
    if target := _published(process):
        return target
    raise _why_nothing(process)


def _published(process: Process) -> Target | None:
    """The file in the process's own view of the file system, which in a container is another than ours."""
    refusal: HakmemError | None = None
    places = (
        (process.root() / SHARED_MEMORY.relative_to("/"), process.own_pid),
        # A process that the kernel guards (as one that changed its user) hides its view.
        (SHARED_MEMORY, process.pid),
    )
    for folder, number in places:
        for path in _candidates(folder, number, process.namespace, process.uid):
            with suppress(OSError):
                file = LiveFile(_outside(path))
                try:
                    if _is_of(file, process, number):
                        return Target(process.pid, process, file)
                except HakmemError as error:
                    # Anyone may put a file there: it must not hide the process's own.
                    refusal = refusal or error
                except BaseException:
                    file.close()
                    raise
                file.close()
    if refusal:
        raise refusal
    return None


def _is_of(file: LiveFile, process: Process, number: int) -> bool:
    header = file.header()
    if header.pid != number:
        return False
    if header.start_ticks != process.start_ticks:
        raise HakmemError(
            f"process {process.pid} is not the one that left '{file.path}': that one ended, and its number "
            f"was given to another program ({process.name}); remove the file if you do not need it"
        )
    # Who becomes another program by exec keeps its number and its age, but not its mappings.
    maps = process.maps()
    if file.path.name in maps:
        return True
    if "libhakmem" not in maps:
        raise HakmemError(
            f"{process} has become another program since it left '{file.path}', and that one does not run "
            f"on HAKMEM; {_START_IT_SO}"
        )
    # With another user's rights it cannot remove the file; what has the same rights will yet make its own.
    if file.owner != process.uid:
        raise HakmemError(
            f"{process} has changed its user, to {process.owner()}, since it made '{file.path}': it "
            "publishes and answers no more"
        )
    return False


def _left_behind(pid: int) -> Target:
    refused: OSError | None = None
    strange: HakmemError | None = None
    for path in _candidates(SHARED_MEMORY, pid, namespace_of("self"), os.geteuid()):
        try:
            file = LiveFile(path)
        except OSError as error:
            refused = error
            continue
        try:
            if file.header().pid == pid and not file.is_given_up():
                return Target(pid, None, file)
        except HakmemError as error:
            strange = error
        file.close()
    if strange is not None:
        raise strange
    if refused is not None:
        left = f"process {pid} has ended, and the figures that it left in '{refused.filename}'"
        if refused.errno == errno.EACCES and os.geteuid() != 0:
            raise HakmemError(f"{left} are another user's; run this as that user or as root")
        raise HakmemError(f"{left} cannot be opened: {refused.strerror}")
    raise HakmemError(f"there is no process {pid}, and none of that number left figures behind; see 'ps -e'")


def _outside(path: Path) -> Path:
    """A name of the same file that does not end with the process, where there is one."""
    plain = SHARED_MEMORY / path.name
    with suppress(OSError):
        return plain if plain.samefile(path) else path
    return path


def _candidates(folder: Path, number: int, namespace: int | None, user: int) -> list[Path]:
    """Live files for that number, the newest first: users have different ones, so that one may be stale.

    `user` is the one of the process, who may have another number in a container.
    """
    found: list[tuple[float, Path]] = []
    with suppress(OSError):
        for path in folder.glob(f"hakmem-*-{number}"):
            with suppress(OSError):
                status = path.lstat()
                if _may_be_of(path, namespace) and status.st_uid in (user, int(path.name.split("-")[1])):
                    found.append((status.st_mtime, path))
    return [path for _, path in sorted(found, reverse=True)]


def _may_be_of(path: Path, namespace: int | None) -> bool:
    """Containers may share the folder: names have the number of their namespace, but for the first one."""
    _, *numbers = path.name.split("-")
    if not all(number.isdecimal() for number in numbers) or len(numbers) not in (2, 3):
        return False
    named = int(numbers[1]) if len(numbers) == 3 else _FIRST_NAMESPACE
    return namespace is None or named == namespace


def _why_nothing(process: Process) -> HakmemError:
    if process.is_foreign():
        return HakmemError(
            f"{process} belongs to user {process.owner()}: only that user and root may look inside; "
            f"run this as {process.owner()} or with sudo (you are {user_name(os.geteuid())})"
        )
    try:
        maps = process.maps()
    except OSError as error:
        return _why_hidden(process, error)
    if "libhakmem" not in maps:
        return HakmemError(f"{process} does not run on HAKMEM: no libhakmem in its mappings; {_START_IT_SO}")
    environment = process.environment()
    for name, values, state in _SILENCING:
        if environment.get(name, "").strip().lower() in values:
            return HakmemError(f"{process} publishes nothing: {name} is {state} in it; start it without that")
    with suppress(OSError):
        place = process.root() / SHARED_MEMORY.relative_to("/")
        status = os.statvfs(place)
        if status.f_blocks and status.f_bavail * status.f_frsize < _LIVE_FILE_BYTES:  # 0: without a limit
            return HakmemError(
                f"{process} runs on HAKMEM, but its {SHARED_MEMORY} is full, so that it has no room for its "
                f"figures: free some of '{place}', and start it again"
            )
    # The program may have settings of its own (hakmem_conf), and write over its environment.
    return HakmemError(
        f"{process} runs on HAKMEM, but has not published figures yet: {_FIRST_FIGURES}, but never with "
        f"HAKMEM_LIVE=0 or HAKMEM_FORCE_LIBC_ALLOC=1; it needs to be able to write to {SHARED_MEMORY}"
    )


def _why_hidden(process: Process, error: OSError) -> HakmemError:
    if not process.is_alive():
        return HakmemError(f"there is no process {process.pid} any more: it has just ended")
    if os.geteuid() != 0:
        advice = "the kernel guards it (it changed its user, for example); run this as root"
    else:
        advice = (
            "you are root, but without the right to look into other processes (CAP_SYS_PTRACE), as in many "
            "containers; run this outside of it, or start the container with that capability"
        )
    return HakmemError(f"cannot look into {process}: {error.strerror}: {advice}")
