"""One run of one workload: what is taken from it, and what counts as a failure."""

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hakmem.allocators import SYSTEM, Allocator

from bench.results import Run
from bench.runner import Runner, adopt_orphans, base_environment
from bench.suite import Workload
from tests.fake_allocators import compile_fake

LINE = '{"workload": "x", "operations": 1000, "seconds": 0.5, "live_bytes": 7, "name": "text", "yes": true}'
SYSTEM_MALLOC = Allocator(SYSTEM, "glibc", "2.36", None, "the system's")

RunScript = Callable[..., Run]


@pytest.fixture
def script() -> RunScript:
    """script("shell commands", kind=..., ...): the run of a workload that is these commands."""

    def run(commands: str, kind: str = "time", timeout_seconds: float = 60) -> Run:
        workload = Workload(
            "x/y", kind, "Something.", ("sh", "-c", commands), timeout_seconds=timeout_seconds
        )
        return Runner({}, full=False).run(workload, SYSTEM_MALLOC, 3)

    return run


def test_figures_of_the_line(script: RunScript) -> None:
    run = script(f"echo '{LINE}'")
    assert run.failure is None
    assert run.round == 3
    assert (run.seconds, run.operations, run.time) == (0.5, 1000, 0.0005)
    assert run.figures == {"live_bytes": 7}
    assert run.peak_rss_bytes > 100_000
    assert run.minor_faults > 10
    assert 0 < run.wall_seconds < 60


def test_the_line_goes_before_what_is_measured(script: RunScript) -> None:
    given = '{"operations": 1, "seconds": 1, "peak_rss_bytes": 12, "end_rss_bytes": 11, "cpu_seconds": 10}'
    run = script(f"echo '{given}'")
    assert (run.peak_rss_bytes, run.end_rss_bytes, run.cpu_seconds) == (12, 11, 10)
    assert run.figures == {}


def test_a_real_program_that_prints_no_line_is_timed_as_a_whole(script: RunScript) -> None:
    run = script("echo compiled", kind="program")
    assert run.failure is None
    assert run.time == run.wall_seconds


def test_peak_memory_is_that_of_the_program_or_its_children(script: RunScript) -> None:
    """Not that of this process, which starts the program."""
    ballast = bytearray(os.urandom(1 << 20) * 100)
    assert script(f"echo '{LINE}'").peak_rss_bytes < 20 << 20
    of_child = script(f"'{sys.executable}' -I -S -c 'bytes(range(256)) * (20 << 12)'; echo '{LINE}'")
    assert 20 << 20 < of_child.peak_rss_bytes < 50 << 20
    del ballast


@pytest.mark.parametrize(
    ("commands", "reason"),
    [
        ("echo 'heap damaged' >&2; exit 1", "ended with exit status 1: heap damaged"),
        ("kill -SEGV $$", "was killed by SIGSEGV"),
        ("echo nothing", "printed 0 lines of JSON in place of one"),
        (f"echo '{LINE}'; echo '{LINE}'", "printed 2 lines of JSON in place of one"),
        ("echo '{broken'", "printed a line that is not JSON"),
        ("""echo '{"operations": 5}'""", "printed no number of 'seconds'"),
        ("""echo '{"operations": 0, "seconds": 1}'""", "printed operations = 0"),
        ("""echo '{"operations": 5, "seconds": -1}'""", "printed seconds = -1"),
    ],
)
def test_failures_are_told_apart(script: RunScript, commands: str, reason: str) -> None:
    assert (script(commands).failure or "").startswith(reason)


def test_a_failure_after_the_line_is_a_failure(script: RunScript) -> None:
    assert script(f"echo '{LINE}'; exit 3").failure == "ended with exit status 3"


def test_a_run_that_hangs_is_stopped(script: RunScript) -> None:
    begun = time.monotonic()
    assert script("sleep 1000", timeout_seconds=0.2).failure == "stopped after 0.2 s"
    assert time.monotonic() - begun < 60


def test_what_a_workload_leaves_running_is_ended(script: RunScript, tmp_path: Path) -> None:
    adopt_orphans()
    note = tmp_path / "pid"
    run = script(f"sleep 1000 & echo $! > {note}; echo '{LINE}'")
    assert run.failure is None
    with pytest.raises(ProcessLookupError):
        os.kill(int(note.read_text()), signal.SIGCONT)


def test_a_program_that_is_not_there_is_a_failure_and_a_problem() -> None:
    workload = Workload("x/y", "time", "Something.", ("hak-no-such",), needs=("hak-none", "sh"))
    runner = Runner({}, full=False)
    assert runner.problem(workload) == "needs hak-none, which is not installed"
    unneeding = Workload("x/y", "time", "Something.", ("hak-no-such",))
    assert "hak-no-such" in (runner.problem(unneeding) or "")
    assert "hak-no-such" in (runner.run(unneeding, SYSTEM_MALLOC, 1).failure or "")


def test_the_environment_has_the_same_size_for_every_allocator(tmp_path: Path) -> None:
    sizes = set()
    for number, name in enumerate(("short", "a-much-longer-name-of-a-library")):
        library = compile_fake(tmp_path / f"lib{name}.so", "FORWARDS")
        commands = 'printf \'{"operations": 1, "seconds": 1, "size": %d}\' "$(wc -c < /proc/$$/environ)"'
        workload = Workload("x/y", "time", "Something.", ("sh", "-c", commands))
        allocator = Allocator(
            name, name, "1", library, "here", {"GLIBC_TUNABLES": "glibc.pthread.rseq=0"} if number else {}
        )
        run = Runner({}, full=False).run(workload, allocator, 1)
        assert run.failure is None
        sizes.add(run.figures["size"])
    assert len(sizes) == 1


@pytest.mark.parametrize("contents", [None, b"", b"text"], ids=["gone", "empty", "no library"])
def test_a_run_without_the_allocators_library_is_none_of_the_allocators(
    tmp_path: Path, contents: bytes | None
) -> None:
    """The dynamic linker goes on without what it cannot preload, and the figures would be those of libc."""
    library = tmp_path / "libother.so"
    if contents is not None:
        library.write_bytes(contents)
    workload = Workload("x/y", "time", "Something.", ("sh", "-c", f"echo '{LINE}'"))
    run = Runner({}, full=False).run(workload, Allocator("other", "other 1.0", "1.0", library, "here"), 1)
    assert run.failure == f"did not run on other 1.0: '{library}' was not loaded; is it there, and whole?"


def test_a_library_that_a_link_leads_to_is_found_again(tmp_path: Path) -> None:
    link = tmp_path / "libother.so"
    link.symlink_to(compile_fake(tmp_path / "libother.so.1", "FORWARDS"))
    workload = Workload("x/y", "time", "Something.", ("sh", "-c", f"echo '{LINE}'"))
    run = Runner({}, full=False).run(workload, Allocator("other", "other 1.0", "1.0", link, "here"), 1)
    assert run.failure is None


def test_the_users_environment_does_not_reach_the_workloads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MALLOC_ARENA_MAX", "1")
    monkeypatch.setenv("HAKMEM_STATS", "1")
    environment = base_environment("/tmp/x")
    assert not [name for name in environment if name.startswith(("MALLOC", "HAKMEM"))]
    assert environment["TMPDIR"] == "/tmp/x"
