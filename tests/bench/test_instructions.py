"""Instructions per operation."""

import os
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from hakmem.allocators import SYSTEM, Allocator

from bench import instructions
from bench.results import InstructionCount
from bench.suite import Instructions
from tests.c_source import compile_c
from tests.cli.command import REPOSITORY
from tests.fake_allocators import compile_fake

# Each operation is one malloc, its free, and a loop of a hundred steps. The longer run starts late.
SOURCE = r"""
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv) {
    for (long i = atol(argv[2]); i > 0; i--) {
        if (i == 3000)
            usleep(200000);
        free(malloc(16));
        for (int k = 0; k < 100; k++)
            __asm__ volatile("");
    }
}
"""
SYSTEM_MALLOC = Allocator(SYSTEM, "glibc", "2.36", None, "the system's")
HAKMEM = Allocator("hakmem", "HAKMEM", "1", REPOSITORY / "build/libhakmem.so", "the build")


@pytest.fixture
def loop(tmp_path: Path) -> Instructions:
    program = compile_c(SOURCE, tmp_path / "loop", "-O1", "-fno-builtin")
    return Instructions("a loop", (str(program),), (1000, 3000))


def count(loop: Instructions, allocators: Sequence[Allocator]) -> InstructionCount:
    (counted,) = instructions.count([loop], allocators, {}, lambda doing: None)
    return counted


def test_the_count_is_that_of_one_operation_and_always_the_same(loop: Instructions) -> None:
    first, second = count(loop, [SYSTEM_MALLOC]), count(loop, [SYSTEM_MALLOC])
    assert first == second
    assert 200 < first.per_operation[SYSTEM] < 700


def test_what_comes_with_time_is_not_counted(loop: Instructions) -> None:
    """A program crawls under valgrind while the clock runs on, and how far depends on the machine's load."""
    per_operation = count(loop, [HAKMEM]).per_operation["hakmem"]
    assert 200 < per_operation < 250


def test_one_that_does_not_run_under_valgrind_is_named(loop: Instructions, tmp_path: Path) -> None:
    broken = Allocator("jemalloc", "fake", "1", compile_fake(tmp_path / "libfake.so", "CRASHES"), "a test")
    counted = count(loop, [SYSTEM_MALLOC, broken])
    assert set(counted.per_operation) == {SYSTEM}
    (missing,) = counted.missing
    assert missing.name == "jemalloc"
    assert missing.reason.startswith("does not run under valgrind")


def test_what_the_c_library_took_is_not_counted_for_another(loop: Instructions, tmp_path: Path) -> None:
    gone = Allocator("jemalloc", "jemalloc 5", "5", tmp_path / "libgone.so", "a test")
    counted = count(loop, [gone])
    assert not counted.per_operation
    (missing,) = counted.missing
    assert missing.reason.startswith("did not run on jemalloc 5: ")


def test_an_interrupt_does_not_wait_for_what_is_still_to_be_counted(
    loop: Instructions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither for what is queued, nor for what runs."""
    valgrind, started = tmp_path / "valgrind", tmp_path / "started"
    valgrind.write_text(f"#!/bin/sh\necho >> {started}\nexec sleep 20\n")
    valgrind.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    def interrupt(_: str) -> None:
        while not started.exists():
            time.sleep(0.01)
        raise KeyboardInterrupt

    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        instructions.count([loop], [SYSTEM_MALLOC] * 8, {}, interrupt)
    assert time.monotonic() - begun < 15


def test_without_valgrind_there_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    assert instructions.problem() is None
    monkeypatch.setenv("PATH", "/nowhere")
    assert instructions.problem() == "needs valgrind, which is not installed"
