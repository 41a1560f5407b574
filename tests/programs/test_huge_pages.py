"""Huge pages that programs, or the library, ask for in blocks of theirs."""

from __future__ import annotations

import pytest

from .builder import Builder
from .harness import Runner

# Of each of the fifty blocks six pages are used, and some are the library's own.
TOUCHED_KB = 50 * 6 * 4
BESIDE_THEM_KB = 2048


@pytest.mark.parametrize("options", [[], ["-rdynamic", "-DOWN_MADVISE"]], ids=["libc's", "own"])
def test_what_a_program_asks_for_its_blocks_ends_with_them(
    runner: Runner, builder: Builder, options: list[str]
) -> None:
    program = builder.program("c/huge_pages_asked_for.c", *options, suffix="-own" if options else "")
    # None but those that the program asks for.
    finished = runner.run([program], env={"HAKMEM_HUGE_PAGES": "0"})
    assert int(finished.text) <= TOUCHED_KB + BESIDE_THEM_KB, finished


def test_so_it_does_with_one_as_long_as_a_huge_page(runner: Runner, builder: Builder) -> None:
    """Two MiB are a block of the large lane, whose run is a whole superslab."""
    sizes = ["-DASKING_KIB=2048", "-DOTHER_KIB=900"]
    program = builder.program("c/huge_pages_asked_for.c", *sizes, suffix="-whole")
    finished = runner.run([program], env={"HAKMEM_HUGE_PAGES": "0"})
    assert int(finished.text) <= TOUCHED_KB + BESIDE_THEM_KB, finished


@pytest.mark.parametrize("kib", [2048, 4096])
def test_huge_pages_that_a_program_asked_for_are_split_before_a_part_goes(
    runner: Runner, builder: Builder, kib: int
) -> None:
    """Else the machine gets nothing of them back."""
    program = builder.program("c/huge_pages_in_parts.c", f"-DKIB={kib}", suffix=f"-{kib}")
    finished = runner.run([program], env={"HAKMEM_HUGE_PAGES": "0", "HAKMEM_RETAIN_MIN": "512M"})
    given, split = map(int, finished.text.split())
    assert split >= min(given, 50) // 2, finished


def test_no_block_that_is_shorter_than_a_huge_page_gets_one(runner: Runner, builder: Builder) -> None:
    """Two of them would get one together, and so would whatever comes to lie there later."""
    sizes = ["-DASKING_KIB=1024", "-DOTHER_KIB=900"]
    program = builder.program("c/huge_pages_asked_for.c", *sizes, suffix="-large")
    finished = runner.run([program], env={"HAKMEM_HUGE_PAGES": "0"})
    assert int(finished.text) <= TOUCHED_KB + BESIDE_THEM_KB, finished


def test_what_the_library_asks_for_them_does_so_too(runner: Runner, builder: Builder) -> None:
    finished = runner.run([builder.program("c/huge_pages_asked_for.c"), "not"])
    assert int(finished.text) <= TOUCHED_KB + BESIDE_THEM_KB, finished
