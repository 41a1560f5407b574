"""Programs that lock their memory (mlockall): they pay for what they use, and real-time ones do not fault."""

from __future__ import annotations

import pytest

from .builder import Builder
from .harness import Runner

# Of the library, libc and the allocator's metadata, all of which are locked, too.
FIXED_MIB = 12
# Each block of 200 KiB and of 3 MiB ends where no other begins.
BESIDE_BLOCKS_MIB = 32
PAGES_OF_ONE_ROUND = 16_000
KEPT_BY_A_CHILD_MIB = 16
BESIDE_TOUCHED_PAGES_MIB = 4
# Two buffers of 6 MiB, one of 13, what one left behind, and the library.
MOVED_MIB = 100
USER_WANTS_LITTLE = {"HAKMEM_PROFILE": "memory"}


def test_locked_memory_is_what_is_used(runner: Runner, builder: Builder) -> None:
    finished = runner.run([builder.program("c/locked_memory.c")])
    when_locked, with_blocks, at_last = map(int, finished.text.split())
    assert when_locked <= FIXED_MIB, finished
    assert with_blocks <= BESIDE_BLOCKS_MIB, finished
    assert at_last <= FIXED_MIB, finished


def test_a_child_whose_memory_is_not_locked_gives_it_back(runner: Runner, builder: Builder) -> None:
    finished = runner.run([builder.program("c/locked_memory_and_children.c")])
    with_large_blocks, at_last = map(int, finished.text.split())
    assert with_large_blocks <= BESIDE_TOUCHED_PAGES_MIB, finished
    assert at_last <= KEPT_BY_A_CHILD_MIB, finished


def test_what_is_had_after_the_lock_is_locked_only_if_the_program_says_so(
    runner: Runner, builder: Builder
) -> None:
    finished = runner.run([builder.program("c/locked_so_far.c")])
    assert int(finished.text) <= BESIDE_TOUCHED_PAGES_MIB, finished


def test_what_is_had_from_now_on_is_locked_where_the_program_says_only_that(
    runner: Runner, builder: Builder
) -> None:
    finished = runner.run([builder.program("c/locked_from_now_on.c")])
    assert int(finished.text) <= BESIDE_TOUCHED_PAGES_MIB, finished


def test_what_may_not_be_locked_takes_nothing(runner: Runner, builder: Builder) -> None:
    finished = runner.run([builder.program("c/locked_beyond_the_limit.c")])
    assert int(finished.text) <= BESIDE_TOUCHED_PAGES_MIB, finished


def test_what_is_moved_is_locked_in_one_place(runner: Runner, builder: Builder) -> None:
    finished = runner.run([builder.program("c/locked_and_moved.c")])
    assert int(finished.text) <= MOVED_MIB, finished


@pytest.mark.parametrize("how", ["lock", "ask"])
def test_a_real_time_program_has_no_faults_for_what_it_had_before(
    runner: Runner, builder: Builder, how: str
) -> None:
    finished = runner.run([builder.program("c/real_time.c"), how])
    at_once, after_a_while = map(int, finished.text.split())
    assert at_once <= PAGES_OF_ONE_ROUND // 50, finished
    assert after_a_while <= PAGES_OF_ONE_ROUND // 100, finished


def test_it_has_none_for_a_buffer_that_realloc_has_moved(runner: Runner, builder: Builder) -> None:
    finished = runner.run([builder.program("c/real_time_that_grows.c")])
    assert int(finished.text) <= PAGES_OF_ONE_ROUND // 50, finished


def test_the_user_decides_what_a_program_keeps(runner: Runner, builder: Builder) -> None:
    finished = runner.run([builder.program("c/real_time.c"), "ask"], env=USER_WANTS_LITTLE)
    at_once, _ = map(int, finished.text.split())
    assert at_once >= PAGES_OF_ONE_ROUND // 2, finished
