"""System calls of whole runs: what is counted, why something is not, and what the page makes of it."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hakmem.allocators import SYSTEM, Allocator
from hakmem.proc import stat_fields

from bench import system_calls
from bench.results import Missing, SystemCalls
from bench.runner import Runner, adopt_orphans
from bench.suite import Workload
from tests.c_source import compile_c
from tests.fake_allocators import compile_fake

from .synthetic import results
from .test_page import page, rows, section

# N areas mapped, and N/2 given back, by a child; the parent only waits for it.
SOURCE = r"""
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv) {
    long n = atol(argv[argc - 1]);
    if (fork() == 0) {
        for (long i = 0; i < n; i++) {
            void *area = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (i % 2)
                munmap(area, 4096);
        }
        _exit(0);
    }
    wait(NULL);
}
"""
SYSTEM_MALLOC = Allocator(SYSTEM, "glibc", "2.36", None, "the system's")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(compile_c(SOURCE, tmp_path_factory.mktemp("calls") / "maps", "-O1"))


def said(_: str) -> None:
    """Nobody listens."""


def counted(
    command: Sequence[str],
    allocators: Sequence[Allocator] = (SYSTEM_MALLOC,),
    *,
    kind: str = "time",
    timeout_seconds: float = 60,
    contention: bool = False,
    say: Callable[[str], None] = said,
) -> list[SystemCalls]:
    workload = Workload(
        "a/1", kind, "It.", tuple(command), timeout_seconds=timeout_seconds, contention=contention
    )
    return system_calls.count([workload], allocators, Runner({}, full=False), say)


def test_calls_of_all_processes_are_counted(program: str) -> None:
    (none,) = counted([program, "0"])
    (many,) = counted([program, "1000"])
    before, after = none.calls[SYSTEM], many.calls[SYSTEM]
    assert after["mmap"] - before["mmap"] == 1000
    assert after["munmap"] - before["munmap"] == 500
    assert after.get("madvise", 0) == before.get("madvise", 0)


def test_where_threads_wait_it_is_counted_too(program: str) -> None:
    (found,) = counted([program, "1000"], contention=True)
    assert found.calls[SYSTEM]["mmap"] >= 1000


def test_only_what_is_for_memory_or_waits_is_counted(program: str) -> None:
    (found,) = counted([program, "1"])
    assert set(found.calls[SYSTEM]) <= {*system_calls.FOR_MEMORY, *system_calls.TO_WAIT}


def test_one_that_does_not_run_is_named(tmp_path: Path) -> None:
    broken = Allocator("jemalloc", "fake", "1", compile_fake(tmp_path / "libfake.so", "CRASHES"), "a test")
    (found,) = counted(["sh", "-c", ":"], [SYSTEM_MALLOC, broken])
    assert set(found.calls) == {SYSTEM}
    (missing,) = found.missing
    assert missing.name == "jemalloc"
    assert missing.reason.startswith("does not run under strace (status ")


def test_what_the_c_library_called_is_not_counted_for_another(program: str, tmp_path: Path) -> None:
    gone = Allocator("jemalloc", "jemalloc 5", "5", tmp_path / "libgone.so", "a test")
    (found,) = counted([program, "1"], [gone])
    assert not found.calls
    (missing,) = found.missing
    assert missing.reason.startswith("did not run on jemalloc 5: ")


def test_real_programs_and_what_cannot_be_run_are_left_out(program: str) -> None:
    assert counted([program, "1"], kind="program") == []
    assert counted(["/nowhere/at-all"]) == []


def test_what_does_not_end_in_time_is_ended(tmp_path: Path) -> None:
    adopt_orphans()  # as `python -m bench` does
    pid = tmp_path / "pid"
    (found,) = counted(["sh", "-c", f"echo $$ > {pid}; sleep 100; :"], timeout_seconds=2)
    (missing,) = found.missing
    assert missing.reason == "does not end under strace within 2 s"
    wait_until_gone(int(pid.read_text()))


def test_an_interrupt_ends_what_runs_and_waits_for_nothing_else(tmp_path: Path) -> None:
    pid = tmp_path / "pid"

    def interrupt(_: str) -> None:
        while not (pid.exists() and pid.read_text()):
            time.sleep(0.01)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        counted(["sh", "-c", f"echo $$ >> {pid}; sleep 100; :"], [SYSTEM_MALLOC] * 20, say=interrupt)
    for line in pid.read_text().splitlines():
        wait_until_gone(int(line))


def wait_until_gone(pid: int) -> None:
    """Or nobody but this process, which may be whom orphans are left to, has yet to hear of its end."""
    for _ in range(6000):
        try:
            state = stat_fields(pid)[0]
        except OSError:
            return
        if state == "Z":
            return
        time.sleep(0.01)
    pytest.fail(f"process {pid} goes on")


def test_without_strace_there_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    assert system_calls.problem() is None
    monkeypatch.setenv("PATH", "/nowhere")
    assert system_calls.problem() == "needs strace, which is not installed"


def told(*entries: SystemCalls) -> str:
    made = results()
    made.system_calls = list(entries)
    return section(page(made), "System calls")


def test_the_page_has_sums_with_the_fewest_in_bold() -> None:
    calls = {
        "hakmem": {"mmap": 20, "madvise": 3},
        "system": {"mmap": 20, "brk": 100, "futex": 7},
        "mimalloc3": {"mmap": 23},
    }
    text = told(SystemCalls("mix/small", calls, [Missing("jemalloc", "does not run")]))
    memory, waits = rows(text, "mix/small")
    assert memory[1:] == ["23", "120", "23", "-"]
    assert waits[1:] == ["0", "7", "0", "-"]
    assert "| **23** | 120 | **23** | - |" in text
    assert "- mix/small on jemalloc 5.3.1: does not run" in text


def test_where_nobody_waits_there_is_no_row_of_waits() -> None:
    assert len(rows(told(SystemCalls("mix/small", {"hakmem": {"mmap": 1}})), "mix/small")) == 1


def test_without_counts_the_page_says_nothing_of_them() -> None:
    assert "System calls" not in page(results())
