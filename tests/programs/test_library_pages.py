"""What of the library itself becomes memory of each program: the kernel maps pages by sixteen."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from .builder import Builder
from .harness import Runner

WINDOW_KB = 64
# A program of 50 ms publishes its figures, which is more code: one that has had to wait for a processor is
# run again.
SHORT_MS = 25
TRIES = 100


@pytest.fixture
def evicted(runner: Runner, tmp_path: Path) -> Path:
    """A copy of which nothing is in the page cache: of a file just written, the kernel maps more at once."""
    copy = tmp_path / runner.library.name
    shutil.copy(runner.library, copy)
    with copy.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return copy


def resident_code_kb(
    runner: Runner, builder: Builder, library: Path, *command: str | Path, most_ms: int | None = None
) -> int:
    helper = builder.program("c/code_at_exit.c")
    for _ in range(TRIES):
        finished = runner.run_plain([helper, library, *command])
        kb, ms = map(int, finished.text.split()[-2:])
        if most_ms is None or ms <= most_ms:
            return kb
    pytest.fail(f"runs for {ms} ms\n{finished}")


def most_kb(library: Path, windows: int) -> int:
    """The order in src/sections.ld is made for GCC; what Clang inlines takes one window more."""
    return (windows + (b"clang version" in library.read_bytes())) * WINDOW_KB


def test_a_short_program_has_64_kib_of_the_library(runner: Runner, builder: Builder, evicted: Path) -> None:
    assert 0 < resident_code_kb(runner, builder, evicted, "seq", "3", most_ms=SHORT_MS) <= most_kb(evicted, 1)


def test_so_has_one_that_takes_many_small_blocks(runner: Runner, builder: Builder, evicted: Path) -> None:
    program = builder.program("c/small_blocks.c")
    assert 0 < resident_code_kb(runner, builder, evicted, program, most_ms=SHORT_MS) <= most_kb(evicted, 1)


@pytest.mark.parametrize(
    "script",
    [
        """
        $large = 'x' x 3e6;
        @words = map { "y$_" } 1 .. 30_000;
        select(undef, undef, undef, 0.3);
        @numbers = (1) x 90_000;
        """,
        # Large blocks of which one is the first of a superslab.
        """
        @numbers = ([(1) x 14_697], [(1) x 40_000], [(1) x 60_000]);
        select(undef, undef, undef, 0.3);
        @more = map { 'x' x 100_000 } 1 .. 20;
        """,
        """
        for (1 .. 4) {
            %pairs = map { $_ => $_ } 1 .. 6_000;
            $text = join ',', %pairs;
            undef %pairs;
            $text .= $text for 1 .. 3;
            select(undef, undef, undef, 0.1);
        }
        """,
    ],
    ids=["in-turn", "many-large", "growing"],
)
def test_a_program_of_a_few_mib_that_goes_on_has_128_kib(
    runner: Runner, builder: Builder, evicted: Path, script: str
) -> None:
    assert WINDOW_KB < resident_code_kb(runner, builder, evicted, "perl", "-e", script) <= most_kb(evicted, 2)
