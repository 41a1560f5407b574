"""A program that shows figures as the library does, and answers requests with what the test has prepared.

Run as a module, it is that program; tests import the rest. The layout is that of docs/statistics.md.
"""

import json
import mmap
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.live_path import live_path

REPOSITORY = Path(__file__).parents[2]
BUFFER_BYTES = 1 << 16
TEXT_OFFSET = 4096
HEADER = struct.Struct("<8sIIQI4xQQQQIIQIiQQQ")
REQUEST = struct.Struct("<IIQ")
REQUEST_OFFSET = 64
DONE_OFFSET = 80
SAMPLING = struct.Struct("<QQQ")  # interval before the request, interval, run
SAMPLING_OFFSET = 88
START, STOP = 5, 6
MEASURING = (7, 8)
DEFAULT_INTERVAL = 512 << 10
PATH = slice(128, 128 + 1024)
_HANG_SECONDS = 60
# Of a program that is watched to its end: longer than a command takes to start on a busy machine.
ENDS_SOON_S = 4.0


@dataclass
class Program:
    """What the program does. Everything may be left at its default."""

    statistics: Mapping[str, Any] = field(default_factory=dict)
    answers: Mapping[int, str] = field(default_factory=dict)  # by kind of request; others are done without
    answer_bytes: int | None = None  # how long an answer is made by a hole at its end
    errors: Mapping[int, int] = field(default_factory=dict)  # errno by kind of request
    idle: bool = False  # never answers
    hesitates: Mapping[int, float] = field(default_factory=dict)  # seconds from taking a kind up to doing it
    unanswered: Sequence[int] = ()  # kinds of request that it takes up, but never answers
    ends_at: int | None = None  # the kind of request at which it ends
    overtaken: int = 0  # so many measured publications are followed by an estimated one before it answers
    published: bool = True
    magic: str = "HAKLIVE1"
    text: str | None = None  # published instead of the statistics
    start_ticks: int | None = None  # instead of its own
    age_ms: int = 0  # of the publications
    lifetime_seconds: float = _HANG_SECONDS
    tidy: bool = False  # removes its file at the end of its life
    ending_seconds: float = 0  # goes on for so long without it
    interval: int = 0  # of its sampling, before anybody asks
    intervals: Mapping[int, int] = field(default_factory=dict)  # of sampling begun anew just before a kind
    log: str = os.devnull  # gets a line for each request: kind and argument


@contextmanager
def running(program: Program, wrapper: tuple[str, ...] = ()) -> Iterator["subprocess.Popen[str]"]:
    """The program, once it has published; killed at the end, and its file removed."""
    command = [*wrapper, sys.executable, "-m", "tests.cli.live_file"]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY
    )
    try:
        assert process.stdin is not None
        json.dump(program.__dict__, process.stdin)
        process.stdin.close()
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.wait()
        live_path(process.pid).unlink(missing_ok=True)


@contextmanager
def running_in_container(program: Program, folder: Path) -> Iterator[int]:
    """The number that the program has outside of its container, in which it has another one and a /dev/shm of
    its own."""
    script = folder / "enter"
    script.write_text('#!/bin/sh\nmount -t tmpfs tmpfs /dev/shm && exec "$@"\n')
    script.chmod(0o755)
    wrapper = ("unshare", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
    with running(program, (*wrapper, str(script))) as process:
        (child,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        yield int(child)


@contextmanager
def crashed(program: Program) -> Iterator[int]:
    """The process id of one that was killed and left its file behind."""
    with running(program) as process:
        process.kill()
        process.wait()
        yield process.pid


def await_request(pid: int) -> None:
    """Returns when somebody has asked the process for the first time, if only just."""
    with live_path(pid).open("rb") as file:
        while REQUEST.unpack(os.pread(file.fileno(), REQUEST.size, REQUEST_OFFSET))[0] == 0:
            time.sleep(0.001)


def start_ticks(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


def _serve(program: Program) -> None:
    path = live_path(os.getpid())
    path.unlink(missing_ok=True)  # of one that had this number before
    with path.open("xb+") as file:
        path.chmod(0o600)
        file.truncate(TEXT_OFFSET + 2 * BUFFER_BYTES)
        memory = mmap.mmap(file.fileno(), 0)
    ticks = start_ticks(os.getpid()) if program.start_ticks is None else program.start_ticks
    _publish(memory, program, ticks, 1 if program.published else 0)
    print("ready", flush=True)
    publications = 1
    taken_up = 0  # the last request that was
    SAMPLING.pack_into(memory, SAMPLING_OFFSET, 0, program.interval, 0)
    deadline = time.monotonic() + program.lifetime_seconds
    while time.monotonic() < deadline:
        sequence, kind, argument = REQUEST.unpack_from(memory, REQUEST_OFFSET)
        if not program.idle and sequence != taken_up:
            taken_up = sequence
            time.sleep(program.hesitates.get(str(kind), 0))  # type: ignore[call-overload] # JSON has no other keys
            answers = kind != program.ends_at and kind not in program.unanswered
            if answers:  # before it is logged: who waits for that may count on it
                _sample(memory, program, kind, argument)
            with Path(program.log).open("a") as log:
                log.write(f"{kind} {argument}\n")
            if kind == program.ends_at:
                return
            if answers:
                for measured in _next_publications(program, kind, publications):
                    publications += 1
                    _publish(memory, program, ticks, publications, measured=measured)
                _answer(memory, program, sequence, kind)
        time.sleep(0.002)
    if program.tidy:
        path.unlink()
    time.sleep(program.ending_seconds)


def _next_publications(program: Program, kind: int, before: int) -> list[bool]:
    """Whether each is measured."""
    if kind not in MEASURING:
        return [False]
    return [True, False] if before <= 2 * program.overtaken else [True]


def _publish(
    memory: mmap.mmap, program: Program, ticks: int, publications: int, *, measured: bool = False
) -> None:
    figures = {"pid": os.getpid(), "program": "fake", **program.statistics}
    if measured and "memory" in figures:
        figures["memory"] = {**figures["memory"], "measured": True}
    text = (json.dumps(figures) if program.text is None else program.text).encode()
    which = publications % 2
    lengths = [0, 0]
    lengths[which] = len(text)
    start = TEXT_OFFSET + which * BUFFER_BYTES
    memory[start : start + len(text)] = text
    header = HEADER.pack(
        *(program.magic.encode(), os.getpid(), BUFFER_BYTES, ticks, which, *lengths, publications),
        *(time.time_ns() // 1_000_000 - program.age_ms, 0, 0, 0, 0, 0, 0, 0, 0),
    )
    memory[:REQUEST_OFFSET] = header[:REQUEST_OFFSET]


def _sample(memory: mmap.mmap, program: Program, kind: int, argument: int) -> None:
    """Starts and stops to sample, as the library does: what it does already changes nothing."""
    _, before, run = SAMPLING.unpack_from(memory, SAMPLING_OFFSET)
    anew = program.intervals.get(str(kind))  # type: ignore[call-overload] # JSON has no other keys
    if anew is not None:
        run += anew != before
        before = anew
    interval = before
    if kind == START:
        interval = argument or before or DEFAULT_INTERVAL
    elif kind == STOP:
        interval = 0
    SAMPLING.pack_into(memory, SAMPLING_OFFSET, before, interval, run + (interval != before))


def _answer(memory: mmap.mmap, program: Program, sequence: int, kind: int) -> None:
    answer = program.answers.get(str(kind))  # type: ignore[call-overload] # JSON has no other keys
    error = program.errors.get(str(kind), 0)  # type: ignore[call-overload]
    if answer is not None and not error:
        path = Path(os.fsdecode(bytes(memory[PATH]).split(b"\0")[0]))
        with path.open("x", errors="surrogateescape") as file:
            file.write(answer)
            if program.answer_bytes is not None:
                file.truncate(program.answer_bytes)
        path.chmod(0o600)
    struct.pack_into("<i", memory, DONE_OFFSET + 4, error)
    struct.pack_into("<I", memory, DONE_OFFSET, sequence)


def sample_statistics(**changes: Any) -> dict[str, Any]:
    """A publication whose main figures all differ, so that none can stand in another's place."""
    lane = {
        **{"live_blocks": 11, "live_bytes": 4096, "cached_blocks": 12, "cached_bytes": 1024},
        **{"free_bytes": 512, "tail_bytes": 256, "untouched_bytes": 0, "slab_bytes": 65536},
        "resident_bytes": 8192,
    }
    size_class = {
        **{"bytes": 64, "exact": False, "slabs": 3, "live_blocks": 2048, "live_bytes": 131072},
        **{"cached_blocks": 17, "free_blocks": 1007, "resident_bytes": 180224},
    }
    return {
        **{"schema": 1, "version": "0.1.0", "program": "fake", "time_ms": 1_767_225_600_000},
        **{"uptime_ms": 81_234, "counting_ms": 71_234},
        "memory": {
            **{"live_bytes": 5 << 20, "live_blocks": 1234, "cached_bytes": 111 << 10, "cached_blocks": 99},
            **{"free_in_slabs_bytes": 222 << 10, "slab_tail_bytes": 33 << 10, "retained_bytes": 2 << 20},
            **{"metadata_bytes": 44 << 10, "untouched_bytes": 55 << 10, "heap_resident_bytes": 7 << 20},
            **{"process_resident_bytes": None, "reserved_bytes": 9 << 30, "committed_bytes": 8 << 20},
            **{"retained_limit_bytes": 3 << 20, "measured": False},
        },
        "container": {"limit_bytes": 512 << 20, "room_bytes": 12 << 20, "scarce": True},
        "metadata": {"regions_bytes": 20480, "page_map_bytes": 8192, "heaps_bytes": 12288},
        "lanes": {"tiny": lane, "mid": {**lane, "live_bytes": 7777}},
        "classes": [size_class, {**size_class, "bytes": 1040, "exact": True, "resident_bytes": 90112}],
        "counters": {"refills": 100, "refilled_blocks": 6400, "purged_bytes": 1 << 20, "slabs_created": 7},
        "batches": {"refill": [1, 2, 0, 0, 0, 0, 97, 0], "flush": [0, 0, 0, 0, 0, 0, 0, 5]},
        "fallbacks": {"foreign_free": 3},
        "heaps": {"active": 4, "abandoned": 1, "shared": 0},
        "options": {"stats": "1"},
        **changes,
    }


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    with suppress(KeyboardInterrupt):
        _serve(Program(**json.load(sys.stdin)))
