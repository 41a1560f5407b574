"""The file through which the library shows its figures and takes requests, as docs/statistics.md lays it out.

Reading never disturbs the process: it keeps two buffers of text, and the one that is whole is named in the
header. Requests are written by one client at a time, which holds a lock on the file.
"""

import fcntl
import json
import os
import stat
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

from hakmem.ending import ended_in_order
from hakmem.errors import HakmemError

MAGIC = b"HAKLIVE1"
TEXT_OFFSET = 4096
PATH_OFFSET = 128
PATH_BYTES = 1024
# magic, pid, buffer_bytes, start_ticks, current, padding, length[2], sequence, published_ms,
# request_sequence, request_kind, request_argument, done_sequence, done_errno, interval_before, interval,
# sampling_run
HEADER = struct.Struct("<8sIIQI4xQQQQIIQIiQQQ")
REQUEST_SEQUENCE_OFFSET = 64
_GIVEN_UP = struct.Struct("<I")
_GIVEN_UP_OFFSET = 112
_REQUEST_KIND_OFFSET = 68  # the argument follows

# Of a request, and of figures that are due.
WHEN_IT_ANSWERS = (
    "at its next slow path (every few hundred allocations of a size, or when it needs or gives back a slab)"
)

_LONGEST_TEXT_BYTES = 1 << 20  # the library's are at most 32 KiB
_LONGEST_ANSWER_BYTES = 1 << 30
_READ_ATTEMPTS = 100
_POLL_SECONDS = 0.02
# What a process answers at once is to be read before it publishes by itself again.
_FIRST_SECONDS = 0.05
_FIRST_POLL_SECONDS = 0.001
_TAKEN_UP_SECONDS = 1.0  # in which a process does what it has taken up, on a busy machine


class Kind(IntEnum):
    NOTHING = 0  # in place of a request that is withdrawn; the library answers that it does not know it
    HEAP = 1
    FRAGMENTATION = 2
    SLAB_MAP = 3
    SITES = 4
    START = 5
    STOP = 6
    PUBLISH = 7
    COLLECT = 8


@dataclass(frozen=True)
class Sampling:
    """How a process samples."""

    interval: int  # bytes between samples; 0: it does not
    run: int  # another one whenever it has begun anew or ended, or the interval has changed


@dataclass(frozen=True)
class Header:
    pid: int
    buffer_bytes: int
    start_ticks: int
    current: int
    lengths: tuple[int, int]
    sequence: int
    published_ms: int
    request_sequence: int
    done_sequence: int
    done_errno: int
    interval_before: int
    sampling: Sampling


@dataclass(frozen=True)
class Publication:
    """The figures of one moment."""

    statistics: dict[str, Any]
    text: str  # the same, as published
    published_ms: int
    sequence: int

    def age_seconds(self) -> float:
        return max(0.0, time.time() - self.published_ms / 1000)


class NotAnsweredError(HakmemError):
    """The process did not take up the request in time."""


class LiveFile:
    def __init__(self, path: Path) -> None:
        """OSError where the file is not there or not for this user to read."""
        self.path = path
        self._descriptor = _open_regular(path, os.O_RDWR)
        self.owner = os.fstat(self._descriptor).st_uid

    def __enter__(self) -> "LiveFile":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        os.close(self._descriptor)

    def is_left(self) -> bool:
        """Whether nobody has removed it."""
        return os.fstat(self._descriptor).st_nlink > 0

    def is_replaced(self) -> bool:
        """Whether there is another in its place."""
        try:
            return not os.path.samestat(self.path.lstat(), os.fstat(self._descriptor))
        except OSError:
            return False

    def is_given_up(self) -> bool:
        """Whether the process has ended normally, or has no more use for it, and could not remove it."""
        raw = os.pread(self._descriptor, _GIVEN_UP.size, _GIVEN_UP_OFFSET)
        return len(raw) == _GIVEN_UP.size and _GIVEN_UP.unpack(raw) != (0,)

    def header(self) -> Header:
        raw = os.pread(self._descriptor, HEADER.size, 0)
        if len(raw) < HEADER.size or not raw.startswith(MAGIC):
            raise self._strange("it does not begin as one")
        (_, pid, buffer_bytes, start_ticks, current, *rest) = HEADER.unpack(raw)
        first, second, sequence, published_ms, request_sequence, _, _, done_sequence, *rest = rest
        done_errno, interval_before, interval, run = rest
        return Header(
            pid=pid,
            buffer_bytes=buffer_bytes,
            start_ticks=start_ticks,
            current=current,
            lengths=(first, second),
            sequence=sequence,
            published_ms=published_ms,
            request_sequence=request_sequence,
            done_sequence=done_sequence,
            done_errno=done_errno,
            interval_before=interval_before,
            sampling=Sampling(interval, run),
        )

    def read(self) -> Publication | None:
        """The figures last published; none if none have been yet."""
        for _ in range(_READ_ATTEMPTS):
            header = self.header()
            if header.sequence == 0:
                return None
            text = self._text(header)
            # Two publications later, the buffer that was read may have been written to meanwhile.
            if self.header().sequence == header.sequence:
                return self._publication(header, text)
        raise HakmemError(f"'{self.path}' changes too fast to be read; try again")

    def keep_sampling(self) -> bool:
        """Keeps other commands from starting or stopping to sample until this file is closed; false if one
        keeps this one from it."""
        try:
            # Of another kind than the lock of a request, so that others may make requests meanwhile.
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            return False
        return True

    def request(self, kind: Kind, seconds: float, argument: int = 0, *, alive: Callable[[], bool]) -> None:
        """Has the process do what needs no answer."""
        with ended_in_order(), self._sole_client(seconds):
            self._ask(kind, argument, None, seconds, alive)

    def request_text(self, kind: Kind, seconds: float, *, alive: Callable[[], bool]) -> bytes:
        """Has the process write a file, and gives what is in it.

        The file stands beside the live file while it is needed: there the process may write, whatever
        its directories and user have become, and there it can be found from outside of a container.
        """
        with ended_in_order(), self._sole_client(seconds):
            answer = self.path.with_name(f"{self.path.name}.{os.getpid()}-{time.monotonic_ns()}")
            try:
                self._ask(kind, 0, Path("/dev/shm") / answer.name, seconds, alive)
                return self._answer(answer)
            finally:
                answer.unlink(missing_ok=True)

    def _text(self, header: Header) -> bytes:
        current = header.current
        # Anyone may make such a file, and a sparse one of gigabytes costs nothing.
        if current > 1 or header.lengths[current] > min(header.buffer_bytes, _LONGEST_TEXT_BYTES):
            raise self._strange("its header is damaged")
        length = header.lengths[current]
        text = os.pread(self._descriptor, length, TEXT_OFFSET + current * header.buffer_bytes)
        if len(text) < length:
            raise self._strange("it is cut off")
        return text

    def _publication(self, header: Header, raw: bytes) -> Publication:
        text = raw.decode(errors="replace")
        try:
            statistics = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise self._strange(f"its text is not JSON: {error}") from error
        if not isinstance(statistics, dict):
            raise self._strange("its text is not a JSON object")
        return Publication(statistics, text, header.published_ms, header.sequence)

    def _ask(
        self, kind: Kind, argument: int, path: Path | None, seconds: float, alive: Callable[[], bool]
    ) -> None:
        try:
            header = self._answered((self._write_request(kind, argument, path),), seconds, alive)
        except BaseException:
            # What nobody waits for any more must not happen later; but sampling must not go on for ever.
            left = self.header()
            if kind != Kind.STOP and left.done_sequence != left.request_sequence:
                withdrawn = (left.request_sequence, self._write_request(Kind.NOTHING, 0, None))
                # The process may just have taken up what is withdrawn, and be about it: only when it is done,
                # the header tells what came of it.
                if kind == Kind.START:
                    with suppress(HakmemError):
                        self._answered(withdrawn, _TAKEN_UP_SECONDS, alive)
            raise
        if header.done_errno:
            raise OSError(header.done_errno, os.strerror(header.done_errno))

    def _answered(self, sequences: tuple[int, ...], seconds: float, alive: Callable[[], bool]) -> Header:
        """The header once one of the requests has been answered."""
        begin = time.monotonic()
        while (header := self.header()).done_sequence not in sequences:
            if not alive():
                raise HakmemError("the process ended before it answered")
            waited = time.monotonic() - begin
            if waited > seconds:
                raise NotAnsweredError(
                    f"no answer within {seconds:g} s; it answers {WHEN_IT_ANSWERS}; "
                    "try again when it works, or with a longer --wait"
                )
            time.sleep(_FIRST_POLL_SECONDS if waited < _FIRST_SECONDS else _POLL_SECONDS)
        return header

    def _write_request(self, kind: Kind, argument: int, path: Path | None) -> int:
        sequence = (self.header().request_sequence + 1) & 0xFFFFFFFF
        name = os.fsencode(path or "")
        os.pwrite(self._descriptor, name.ljust(PATH_BYTES, b"\0"), PATH_OFFSET)
        os.pwrite(self._descriptor, struct.pack("<IQ", kind, argument), _REQUEST_KIND_OFFSET)
        # Last: from here on the process may act upon it.
        os.pwrite(self._descriptor, struct.pack("<I", sequence), REQUEST_SEQUENCE_OFFSET)
        return sequence

    def _answer(self, path: Path) -> bytes:
        try:
            descriptor = _open_regular(path, os.O_RDONLY, self.owner)
        except OSError as error:
            raise HakmemError(f"the process answered, but left no file '{path}': {error.strerror}") from error
        with os.fdopen(descriptor, "rb") as file:
            size = os.fstat(descriptor).st_size
            # As of the text: a sparse file costs nothing.
            if size > _LONGEST_ANSWER_BYTES:
                raise HakmemError(
                    f"the process answered with {size} bytes, which is too long to be the library's"
                )
            return file.read(size)

    @contextmanager
    def _sole_client(self, seconds: float) -> Iterator[None]:
        deadline = time.monotonic() + seconds
        while True:
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise NotAnsweredError(
                        f"another hakmem command has been waiting for the process for over {seconds:g} s; "
                        "end that one first"
                    ) from None
                time.sleep(_POLL_SECONDS)
        try:
            yield
        finally:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def _strange(self, what: str) -> HakmemError:
        return HakmemError(f"'{self.path}' is not a live file of this version of HAKMEM: {what}")


def _open_regular(path: Path, flags: int, owner: int | None = None) -> int:
    # Anyone may put a file into /dev/shm: never follow a link there, nor wait at a pipe.
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or owner not in (None, status.st_uid):
        os.close(descriptor)
        raise PermissionError(0, "it is not a file of the process", str(path))
    return descriptor
