"""Statistics as a user of a real program meets them: at exit, on a signal, through libc, while it runs."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from xml.etree import ElementTree

import pytest

from ..live_path import live_path
from .builder import Builder
from .harness import Runner, kill_group, required_program, wait_until

ON_MALLOC = {"PYTHONMALLOC": "malloc"}
DOCUMENT = Path(__file__).parents[2] / "docs" / "statistics.md"

# Comes to slow paths all the time, until its standard input ends.
BUSY = """
import select, sys
print("ready", flush=True)
while not select.select([sys.stdin], [], [], 0)[0]:
    blocks = [bytearray(size) for size in range(0, 30000, 7)]
"""
# The same for a moment.
SHORT_BUSY = """
import time
end = time.monotonic() + 0.3
while time.monotonic() < end:
    blocks = [bytearray(size) for size in range(0, 30000, 7)]
print("done")
"""


def live_statistics(pid: int) -> dict[str, Any] | None:
    """What the process has published, or None if there is nothing yet."""
    try:
        page = live_path(pid).read_bytes()
    except FileNotFoundError:
        return None
    if page[:8] != b"HAKLIVE1" or struct.unpack_from("<Q", page, 48)[0] == 0:
        return None
    capacity, current = struct.unpack_from("<I", page, 12)[0], struct.unpack_from("<I", page, 24)[0]
    length = struct.unpack_from("<Q", page, 32 + 8 * current)[0]
    begin = 4096 + current * capacity
    document: dict[str, Any] = json.loads(page[begin : begin + length])
    return document


@contextmanager
def busy_process(runner: Runner, env: dict[str, str] | None = None) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-c", BUSY],
        env=runner.preloaded_environment({**ON_MALLOC, **(env or {})}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield process
    finally:
        kill_group(process)
        live_path(process.pid).unlink(missing_ok=True)


def wait_for_page(pid: int) -> dict[str, Any]:
    wait_until(lambda: live_statistics(pid) is not None, 30.0, lambda: f"process {pid} publishes nothing")
    found = live_statistics(pid)
    assert found is not None
    return found


def finish(process: subprocess.Popen[bytes]) -> None:
    process.communicate(b"\n", timeout=60)
    assert process.returncode == 0


def bytes_in(pipe: IO[bytes]) -> int:
    count: int = struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))[0]
    return count


def json_at_exit(runner: Runner, code: str, env: dict[str, str] | None = None) -> dict[str, Any]:
    report = runner.scratch / "statistics"
    runner.run(
        [sys.executable, "-c", code],
        env={**ON_MALLOC, "HAKMEM_STATS_JSON": "1", "HAKMEM_STATS_FILE": str(report), **(env or {})},
        proven=False,
    )
    document: dict[str, Any] = json.loads(report.read_text())
    return document


def documented(section: str) -> set[str]:
    """The names that docs/statistics.md explains in the tables under a heading."""
    text = DOCUMENT.read_text().split(f"### `{section}`")[1].split("\n#")[0]
    cells = re.findall(r"^\|([^|]*)\|", text, re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}


@pytest.mark.parametrize("section", ["memory", "metadata", "counters", "heaps"])
def test_every_name_in_the_json_is_documented(runner: Runner, section: str) -> None:
    document = json_at_exit(runner, SHORT_BUSY)
    assert document["schema"] == 1
    assert document[section], document
    assert set(document[section]) <= documented(section)
    if section != "counters":
        assert set(document[section]) == documented(section)


def test_every_name_of_lanes_and_classes_is_documented(runner: Runner) -> None:
    document = json_at_exit(runner, SHORT_BUSY)
    assert set(document["lanes"]) == {"tiny", "mid", "large", "huge"}
    for lane in document["lanes"].values():
        assert set(lane) <= documented("lanes") | documented("memory")
    assert document["classes"]
    for entry in document["classes"]:
        assert set(entry) <= documented("classes") | documented("memory")


def test_the_figures_of_lanes_and_classes_add_up(runner: Runner) -> None:
    document = json_at_exit(runner, SHORT_BUSY)
    memory, lanes = document["memory"], document["lanes"]
    for name in ("live_bytes", "live_blocks", "cached_bytes", "untouched_bytes"):
        assert sum(lane.get(name, 0) for lane in lanes.values()) == memory[name], name
    of_classes = sum(entry.get("live_bytes", 0) for entry in document["classes"])
    assert of_classes == lanes["tiny"]["live_bytes"] + lanes["mid"]["live_bytes"]
    parts = ("live", "cached", "free_in_slabs", "slab_tail", "retained", "metadata")
    resident = sum(memory[f"{part}_bytes"] for part in parts) - memory["untouched_bytes"]
    assert resident == memory["heap_resident_bytes"]
    assert memory["heap_resident_bytes"] <= memory["process_resident_bytes"]


def test_json_goes_to_stderr_where_no_file_is_named(runner: Runner) -> None:
    finished = runner.run(
        [sys.executable, "-c", "pass"], env={"HAKMEM_STATS_JSON": "1"}, proven=False, may_speak=True
    )
    assert json.loads(finished.stderr)["schema"] == 1, finished


def test_settings_that_differ_from_their_defaults_are_named(runner: Runner) -> None:
    document = json_at_exit(runner, "pass", {"HAKMEM_DECAY_MS": "123"})
    assert document["options"]["decay_ms"] == "123"
    assert "retain_min" not in document["options"]


def test_a_signal_brings_the_statistics_and_the_process_goes_on(runner: Runner) -> None:
    report = runner.scratch / "on-signal"
    env = {"HAKMEM_STATS_SIGNAL": str(int(signal.SIGUSR1)), "HAKMEM_STATS_FILE": str(report)}
    with busy_process(runner, env) as process:
        for _ in range(2):
            process.send_signal(signal.SIGUSR1)
            wait_until(
                lambda: report.exists() and "fall-backs" in report.read_text(),
                30.0,
                lambda: "the signal brought no statistics",
            )
            report.unlink()
        finish(process)


def test_a_signal_is_answered_by_a_thread_that_has_the_stack_for_it(runner: Runner, builder: Builder) -> None:
    program = builder.program("c/signal_with_little_stack.c", "-pthread")
    report = runner.scratch / "by-another-thread"
    env = {"HAKMEM_STATS_SIGNAL": str(int(signal.SIGUSR1)), "HAKMEM_STATS_FILE": str(report)}
    runner.run([program, report], env=env, proven=False)
    assert "fall-backs" in report.read_text()


@contextmanager
def into_a_small_pipe(runner: Runner, program: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """The program, which writes statistics at SIGUSR1 to a pipe that takes a part of them, and its end."""
    env = {"HAKMEM_STATS_SIGNAL": str(int(signal.SIGUSR1)), "HAKMEM_STATS_JSON": "1"}
    read_end, write_end = os.pipe()
    fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, 8192)
    os.write(write_end, b" " * 4096)
    with subprocess.Popen(
        [program], env=runner.preloaded_environment(env), stdout=subprocess.PIPE, stderr=write_end
    ) as process:
        os.close(write_end)
        yield process, read_end


def test_the_end_of_the_process_waits_for_statistics_at_a_signal(runner: Runner, builder: Builder) -> None:
    program = builder.program("c/ends_while_statistics_are_written.c")
    with into_a_small_pipe(runner, program) as (process, read_end):
        assert process.stdout is not None
        assert process.stdout.readline() == b"ends\n"
        with os.fdopen(read_end, "rb", buffering=0) as pipe:
            text = b"".join(iter(lambda: pipe.read(512), b"")).decode()
    assert text.count('{"schema"') == 2, text
    json.loads(text[text.rindex('{"schema"') :])


def test_malloc_trim_waits_for_statistics_at_a_signal(runner: Runner, builder: Builder) -> None:
    program = builder.program("c/trims_while_statistics_are_written.c", "-pthread")
    with into_a_small_pipe(runner, program) as (process, read_end):
        wait_for_page(process.pid)
        process.send_signal(signal.SIGUSR1)
        assert process.stdout is not None
        assert process.stdout.readline() == b"waits\n"
        os.close(read_end)


def test_children_of_any_thread_answer_where_the_library_came_late(runner: Runner, builder: Builder) -> None:
    program = builder.program("c/loaded_by_a_late_thread.c")
    env = {"HAKMEM_STATS_SIGNAL": str(int(signal.SIGUSR1))}
    finished = runner.run_plain([program, runner.library], env=env)
    assert finished.stderr.count(b"fall-backs") == 2, finished


def test_the_program_is_called_as_it_was_started(runner: Runner, builder: Builder) -> None:
    program = builder.program("c/title_of_its_own.c")
    assert runner.run([program]).stdout == b"title_of_its_own\n"


def test_a_live_page_is_there_while_the_process_lives_and_no_longer(runner: Runner) -> None:
    with busy_process(runner) as process:
        document = wait_for_page(process.pid)
        assert document["pid"] == process.pid
        assert document["memory"]["live_bytes"] > 0
        assert live_path(process.pid).stat().st_mode & 0o7777 == 0o600
        finish(process)
        assert not live_path(process.pid).exists()


def test_a_live_page_is_there_while_the_statistics_of_the_end_are_written(runner: Runner) -> None:
    with busy_process(runner, {"HAKMEM_STATS_JSON": "1"}) as process:
        wait_for_page(process.pid)
        stdin, stderr = process.stdin, process.stderr
        assert stdin is not None and stderr is not None
        fcntl.fcntl(stderr, fcntl.F_SETPIPE_SZ, 4096)
        stdin.close()
        wait_until(lambda: bytes_in(stderr) > 0, 30.0, lambda: "no statistics")
        assert live_path(process.pid).exists()
        text = stderr.read()
        assert process.wait(timeout=60) == 0
        assert json.loads(text)["pid"] == process.pid
        assert not live_path(process.pid).exists()


def test_a_crash_leaves_a_whole_page(runner: Runner) -> None:
    with busy_process(runner) as process:
        wait_for_page(process.pid)
        process.kill()
        process.wait()
        document = live_statistics(process.pid)
        assert document is not None
        assert document["pid"] == process.pid


def test_a_page_left_by_another_process_of_that_number_is_replaced(runner: Runner) -> None:
    # The number is known before the program begins: a shell that leaves a page and then becomes the program.
    script = f'printf stale > {live_path(0).parent}/"$1"$$; exec {sys.executable} -c "$0"'
    process = subprocess.Popen(
        [required_program("sh"), "-c", script, BUSY, live_path(0).name.removesuffix("0")],
        env=runner.preloaded_environment(ON_MALLOC),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        assert wait_for_page(process.pid)["pid"] == process.pid
        finish(process)
        assert not live_path(process.pid).exists()
    finally:
        kill_group(process)
        live_path(process.pid).unlink(missing_ok=True)


def test_pages_that_dead_processes_left_long_ago_are_removed(runner: Runner) -> None:
    ended = subprocess.Popen([required_program("true")])
    ended.wait()
    stale = live_path(ended.pid)
    begin = live_path(0).name  # so that the number after it is the same process's
    young = stale.with_name(f"{begin}{ended.pid}")
    of_the_living = stale.with_name(f"{begin}{os.getpid()}")
    now = int(time.time() * 1000)
    two_hours_ago = now - 2 * 3_600_000
    try:
        for path, published_ms in ((stale, two_hours_ago), (young, now), (of_the_living, two_hours_ago)):
            path.write_bytes(b"HAKLIVE1" + bytes(48) + struct.pack("<Q", published_ms))
        with busy_process(runner) as process:
            wait_for_page(process.pid)
            finish(process)
        assert not stale.exists()
        assert young.exists()
        assert of_the_living.exists()
    finally:
        for path in (stale, young, of_the_living):
            path.unlink(missing_ok=True)


def test_no_page_without_the_option(runner: Runner) -> None:
    with busy_process(runner, {"HAKMEM_LIVE": "0"}) as process:
        time.sleep(0.5)
        assert live_statistics(process.pid) is None
        finish(process)


@pytest.mark.parametrize(
    "mount",
    [
        "mount -t tmpfs -o size=4k none /dev/shm",
        "mount -t tmpfs -o ro none /dev/shm",
        "mount -t tmpfs none /dev",
    ],
    ids=["full", "read-only", "missing"],
)
def test_without_room_for_a_page_the_program_goes_on_and_it_is_counted(runner: Runner, mount: str) -> None:
    report = runner.scratch / "statistics"
    inside = runner.preloaded_environment(
        {**ON_MALLOC, "HAKMEM_STATS_JSON": "1", "HAKMEM_STATS_FILE": str(report)}
    )
    settings = [f"{name}={value}" for name, value in inside.items()]
    mounted = [required_program("unshare"), "--map-root-user", "--mount", "sh", "-c", f'{mount} && exec "$@"']
    finished = subprocess.run(
        [*mounted, "sh", "env", *settings, sys.executable, "-c", SHORT_BUSY],
        check=False,
        capture_output=True,
        timeout=60,
    )
    assert finished.returncode == 0, finished
    assert finished.stdout == b"done\n", finished
    assert json.loads(report.read_text())["fallbacks"] == {"no_live_page": 1}


def test_a_limit_on_the_size_of_files_is_respected_without_a_signal(runner: Runner) -> None:
    report = runner.scratch / "statistics"
    finished = runner.run(
        [required_program("sh"), "-c", f'ulimit -f 32; exec {sys.executable} -c "$0"', SHORT_BUSY],
        env={**ON_MALLOC, "HAKMEM_STATS_JSON": "1", "HAKMEM_STATS_FILE": str(report)},
        proven=False,
    )
    assert finished.stdout == b"done\n", finished
    assert json.loads(report.read_text())["fallbacks"] == {"no_live_page": 1}


def test_without_address_space_for_the_page_map_regions_serve_and_it_is_counted(runner: Runner) -> None:
    report = runner.scratch / "statistics"
    finished = runner.run(
        [required_program("sh"), "-c", "ulimit -v 1000000; exec seq 1 3"],
        env={"HAKMEM_STATS_JSON": "1", "HAKMEM_STATS_FILE": str(report), "HAKMEM_WRAP_DIAG": "1"},
        proven=False,
        may_speak=True,
    )
    assert finished.stdout == b"1\n2\n3\n", finished
    assert json.loads(report.read_text())["fallbacks"] == {"page_map_by_region": 1}
    [line] = finished.library_lines
    assert line.startswith("hakmem: fall-back: page map by region, "), finished


def test_a_file_without_room_for_the_statistics_is_one_line(runner: Runner) -> None:
    shown = runner.run(
        [required_program("seq"), "1", "3"],
        env={"HAKMEM_STATS_FILE": "/dev/full"},
        proven=False,
        may_speak=True,
    )
    assert len(shown.library_lines) == 1, shown
    assert "/dev/full" in shown.library_lines[0], shown


@pytest.mark.parametrize("setting", ["STATS", "PROF_LEAKS", "WRAP_DIAG"])
def test_a_pipe_that_nobody_reads_any_more_does_not_end_the_program(runner: Runner, setting: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [required_program("sh"), "-c", "exit 3"]
    environment = runner.preloaded_environment({f"HAKMEM_{setting}": "1", "HAKMEM_RETAIN_MIN": "banana"})
    try:
        done = subprocess.run(command, check=False, env=environment, stderr=writer, timeout=60)
    finally:
        os.close(writer)
    assert done.returncode == 3


@pytest.mark.parametrize("setting", ["STATS", "PROF_LEAKS", "WRAP_DIAG"])
def test_a_file_as_long_as_the_limit_allows_does_not_end_the_program(
    runner: Runner, tmp_path: Path, setting: str
) -> None:
    errors = tmp_path / "errors"
    errors.write_bytes(b"x" * 1024)
    ended = runner.run(
        [required_program("bash"), "-c", 'ulimit -f 1; bash -c "exit 3" 2>>"$0"', errors],
        env={f"HAKMEM_{setting}": "1", "HAKMEM_RETAIN_MIN": "banana"},
        status=3,
        proven=False,
        may_speak=True,
    )
    assert errors.stat().st_size == 1024, ended


def test_the_numbers_of_the_programs_descriptors_stay_as_they_are(runner: Runner) -> None:
    code = f"import os\nprint(os.listdir('/proc/self/fd'))\n{SHORT_BUSY}\nprint(os.listdir('/proc/self/fd'))"
    first, _, last = runner.run([sys.executable, "-c", code], env=ON_MALLOC).text.splitlines()
    assert first == last


def test_what_cannot_be_known_without_files_is_not_said(runner: Runner, builder: Builder) -> None:
    program = builder.program("c/sandboxed.c")
    told = runner.run([program, "exit"], env={"HAKMEM_STATS_JSON": "1"}, proven=False, may_speak=True)
    memory = json.loads(told.stderr)["memory"]
    assert memory["process_resident_bytes"] is None, told
    assert memory["heap_resident_bytes"] > 0, told
    shown = runner.run([program, "exit"], env={"HAKMEM_STATS": "1"}, proven=False, may_speak=True)
    assert b"\n  resident " in shown.stderr, shown
    assert b"\n  process " not in shown.stderr, shown


def test_a_forked_child_leaves_its_parents_page_alone(runner: Runner) -> None:
    begin = str(live_path(0)).removesuffix("0")
    code = f"""
import os, sys, time
def busy(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        blocks = [bytearray(size) for size in range(0, 30000, 7)]
busy(0.3)
mine = f"{begin}{{os.getpid()}}"
before = open(mine, "rb").read()
child = os.fork()
if child == 0:
    busy(2)
    own = f"{begin}{{os.getpid()}}"
    os._exit(0 if os.path.exists(own) and not os.unlink(own) else 1)
assert os.waitpid(child, 0)[1] == 0
assert open(mine, "rb").read() == before
print("done")
"""
    assert runner.run([sys.executable, "-c", code], env=ON_MALLOC).stdout == b"done\n"


def test_malloc_info_is_well_formed_and_agrees_with_mallinfo2(runner: Runner) -> None:
    code = """
import ctypes, sys
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
libc.fopen.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
libc.fclose.argtypes = [ctypes.c_void_p]
libc.malloc_info.argtypes = [ctypes.c_int, ctypes.c_void_p]
class Figures(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in
                "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()]
libc.mallinfo2.restype = Figures
blocks = [bytearray(size) for size in range(0, 300000, 700)]
stream = libc.fopen(sys.argv[1].encode(), b"w")
assert libc.malloc_info(0, stream) == 0
assert libc.malloc_info(1, stream) == -1
libc.fclose(stream)
print(libc.mallinfo2().uordblks)
"""
    target = runner.scratch / "info.xml"
    finished = runner.run([sys.executable, "-c", code, str(target)], env=ON_MALLOC)
    root = ElementTree.parse(target).getroot()
    assert root.tag == "malloc"
    totals = {entry.attrib["type"]: int(entry.attrib["size"]) for entry in root.iter("total")}
    assert abs(totals["live"] - int(finished.stdout)) < 1 << 20
    assert totals["live"] > 60_000_000
    assert sum(int(entry.attrib["live"]) for entry in root.iter("lane")) == totals["live"]
    assert [int(entry.attrib["size"]) for entry in root.iter("class")]


def test_malloc_stats_prints_the_screen(runner: Runner) -> None:
    code = "import ctypes; ctypes.CDLL(None).malloc_stats()"
    finished = runner.run([sys.executable, "-c", code], env=ON_MALLOC, may_speak=True)
    assert b"fall-backs" in finished.stderr, finished
