"""What a program, its user or a stranger does must not turn the library's own files against the program."""

from __future__ import annotations

import json
import mmap
import os
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ..live_path import live_path
from .builder import Builder
from .harness import Runner

BUSY_MS = 300
BUSY = f"""
import time
end = time.monotonic() + {BUSY_MS / 1000}
while time.monotonic() < end:
    blocks = [bytearray(size) for size in range(0, 30000, 7)]
print("done")
"""
# No process has this number: the highest that the kernel gives is 2^22.
NOBODY = 2147483000
LIVE_PAGE_BYTES = 68 << 10
SLAB_MAP = 3
ANSWERS = 25


def test_a_pipe_under_a_dead_process_name_stops_nobody(runner: Runner) -> None:
    pipe = live_path(NOBODY)
    os.mkfifo(pipe)
    try:
        finished = runner.run([sys.executable, "-c", BUSY], env={"PYTHONMALLOC": "malloc"})
    finally:
        pipe.unlink(missing_ok=True)
    assert finished.text.strip() == "done", finished


def test_children_of_vfork_have_no_part_in_it(runner: Runner, builder: Builder) -> None:
    runner.run([builder.program("c/vfork_children_that_allocate.c")])


def test_children_forked_in_a_handler_leave_page_and_answers_to_their_parent(
    runner: Runner, builder: Builder, tmp_path: Path
) -> None:
    told = tmp_path / "told"
    program = str(builder.program("c/forks_in_handler_until_told.c"))
    with subprocess.Popen([program, str(told)], env=runner.preloaded_environment()) as process:
        page = live_path(process.pid)
        try:
            while not page.exists() or page.stat().st_size < LIVE_PAGE_BYTES:
                assert process.poll() is None
                time.sleep(0.001)
            for number in range(ANSWERS):
                answer = tmp_path / f"answer{number}"
                ask_for_map(page, answer)
                assert "slab_bytes" in json.loads(answer.read_text())
            assert page.exists(), "a child removed it"
        finally:
            told.touch()
    assert process.returncode == 0


def ask_for_map(page: Path, answer: Path) -> None:
    """As docs/statistics.md says, and waits for it."""
    with page.open("r+b") as file, mmap.mmap(file.fileno(), LIVE_PAGE_BYTES) as memory:
        name = os.fsencode(answer) + b"\0"
        memory[128 : 128 + len(name)] = name
        (number,) = struct.unpack_from("<I", memory, 64)
        struct.pack_into("<I", memory, 68, SLAB_MAP)
        struct.pack_into("<I", memory, 64, number + 1)
        while struct.unpack_from("<I", memory, 80)[0] != number + 1:
            assert page.exists(), "a child removed it"
            time.sleep(0.001)


@pytest.mark.parametrize("option", ["HAKMEM_PROF_LEAKS", "HAKMEM_STATS"])
def test_reports_at_exit_spare_the_files_of_the_program(
    runner: Runner, builder: Builder, tmp_path: Path, option: str
) -> None:
    data = tmp_path / "data"
    runner.run([builder.program("c/descriptors_closed_at_start.c"), data], env={option: "1"}, proven=False)
    assert data.read_bytes() == b"mine"


def test_a_profile_that_would_exceed_a_limit_ends_there(runner: Runner, tmp_path: Path) -> None:
    profile = tmp_path / "profile"
    command = f"ulimit -f 1 && exec {sys.executable} -c 'print(\"done\")'"
    finished = runner.run(
        ["bash", "-c", command],
        env={"HAKMEM_PROF": "1", "HAKMEM_PROF_FILE": str(profile)},
        proven=False,  # the statistics are not written either
        may_speak=True,
    )
    assert "done" in finished.text, finished
    assert profile.stat().st_size <= 1024
    assert "cannot be written" in str(finished), finished
