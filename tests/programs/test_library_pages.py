"""What of the library itself becomes memory of each program: the kernel maps pages by sixteen."""

from __future__ import annotations

from pathlib import Path

from .builder import Builder
from .harness import Runner

WINDOW_KB = 64


def resident_code_kb(runner: Runner, builder: Builder, *command: str) -> int:
    helper = builder.program("c/code_at_exit.c")
    finished = runner.run_plain([helper, runner.library, *command])
    return int(finished.text.split()[-1])


def most_kb(library: Path, windows: int) -> int:
    """The order in src/sections.ld is made for GCC; what Clang inlines takes one window more."""
    return (windows + (b"clang version" in library.read_bytes())) * WINDOW_KB


def test_a_short_program_has_64_kib_of_the_library(runner: Runner, builder: Builder) -> None:
    assert 0 < resident_code_kb(runner, builder, "seq", "3") <= most_kb(runner.library, 1)


def test_a_program_of_a_few_mib_that_goes_on_has_128_kib(runner: Runner, builder: Builder) -> None:
    script = """
        $large = 'x' x 3e6;
        @words = map { "y$_" } 1 .. 30_000;
        select(undef, undef, undef, 0.3);
        @numbers = (1) x 90_000;
    """
    assert WINDOW_KB < resident_code_kb(runner, builder, "perl", "-e", script) <= most_kb(runner.library, 2)
