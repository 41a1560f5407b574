"""Kernels whose pages are larger than those that the library is built on."""

from __future__ import annotations

from .builder import Builder
from .harness import Runner, required_program

WORK = ["sh", "-c", "for i in 1 2 3; do seq 1 20000 | sort -r | head -1; done"]


def test_larger_pages_are_left_to_libc_and_the_program_is_told(runner: Runner, builder: Builder) -> None:
    larger = builder.plugin("c/larger_pages.c")
    plain = runner.run_plain(WORK)
    served = runner.run(WORK, env={"LD_PRELOAD": f"{larger}:{runner.library}"}, proven=False, may_speak=True)
    assert served.stdout == plain.stdout, served
    assert served.library_lines, served
    for line in served.library_lines:
        assert line == "hakmem: the kernel's pages are not of 4 KiB; libc's allocator serves this program"


def test_statistics_say_that_libc_serves(runner: Runner, builder: Builder) -> None:
    larger = builder.plugin("c/larger_pages.c")
    shown = runner.run(
        [required_program("seq"), "1", "3"],
        env={"LD_PRELOAD": f"{larger}:{runner.library}", "HAKMEM_STATS": "1"},
        proven=False,
        may_speak=True,
    )
    assert "libc forced" in shown.stderr.decode(), shown
