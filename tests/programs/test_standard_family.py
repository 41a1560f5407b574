"""Every function of the malloc family, by name and with its edge cases."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from .builder import Builder
from .harness import Runner

SILENT_CHECKS = [
    "blocks_are_aligned_and_distinct",
    "malloc_of_nothing_is_unique",
    "malloc_too_large_fails",
    "calloc_zeroes_reused_memory",
    "calloc_overflow_fails",
    "realloc_keeps_contents",
    "realloc_edge_cases",
    "reallocarray",
    "aligned_functions_align",
    "posix_memalign_bad_arguments",
    "aligned_alloc_bad_arguments",
    "valloc_and_pvalloc_give_pages",
    "usable_size_is_usable",
    "free_keeps_errno",
    "sized_frees_and_cfree",
    "malloc_trim_and_mallopt_answer",
    "mallinfo_counts_live_bytes",
]


@pytest.mark.parametrize("check", SILENT_CHECKS)
def test_standard_family(runner: Runner, builder: Builder, check: str) -> None:
    runner.run([builder.program("c/standard_family.c"), check])


def test_malloc_stats_writes_to_stderr_only(runner: Runner, builder: Builder) -> None:
    finished = runner.run(
        [builder.program("c/standard_family.c"), "malloc_stats_goes_to_stderr"], may_speak=True
    )
    assert finished.stderr.strip() and not finished.stdout, finished


def test_malloc_info_is_valid_xml(runner: Runner, builder: Builder) -> None:
    finished = runner.run([builder.program("c/standard_family.c"), "malloc_info_prints_xml"])
    assert ElementTree.fromstring(finished.text).tag == "malloc", finished


def test_blocks_of_libc_are_handed_to_libc(runner: Runner, builder: Builder) -> None:
    runner.same_output([builder.program("c/libc_blocks.c")])


def test_a_program_with_a_malloc_of_its_own_gets_its_own(runner: Runner, builder: Builder) -> None:
    finished = runner.same_output([builder.program("c/own_malloc.c")])
    assert finished.text == "kept, refused\n", finished
