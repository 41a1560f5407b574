"""Programs that ask the kernel for huge pages themselves."""

from __future__ import annotations

from .builder import Builder
from .harness import Runner

# Of each of the fifty blocks six pages are used, and some are the library's own.
TOUCHED_KB = 50 * 6 * 4
BESIDE_THEM_KB = 2048


def test_what_a_program_asks_for_its_blocks_ends_with_them(runner: Runner, builder: Builder) -> None:
    # None but those that the program asks for.
    finished = runner.run([builder.program("c/huge_pages_asked_for.c")], env={"HAKMEM_HUGE_PAGES": "0"})
    assert int(finished.text) <= TOUCHED_KB + BESIDE_THEM_KB, finished
