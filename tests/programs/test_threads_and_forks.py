"""Threads, forks, exits, signals and limits, each in a small C program."""

from __future__ import annotations

import pytest

from .builder import Builder
from .harness import Argument, Finished, Runner, required_program

STORM_LIMIT_KB = 150 * 1024
FREES_LIMIT_KB = 5 * 1024
ADDRESS_SPACE_LIMIT_KB = 300 * 1024
# What a limit of 300 MiB must leave to the program's blocks, or it is of no use to anyone.
LEAST_OBTAINED_MIB = 64
LEAST_OF_2_GIB_MIB = 1536


def run_limited(runner: Runner, limit_kb: int | None, *command: Argument) -> Finished:
    """Runs it with so much address space; None: with all."""
    limit = "unlimited" if limit_kb is None else str(limit_kb)
    return runner.run(["bash", "-c", 'ulimit -v "$0" && exec "$@"', limit, *command])


def test_child_of_threaded_parent_can_allocate(runner: Runner, builder: Builder) -> None:
    runner.same_output([builder.program("c/fork_in_threaded_program.c")])


def test_hundred_thousand_short_threads_leave_memory_bounded(runner: Runner, builder: Builder) -> None:
    finished = runner.run([builder.program("c/thread_storm.c")])
    highest_kb = int(finished.text)
    assert highest_kb < STORM_LIMIT_KB, f"{highest_kb} kB resident, {STORM_LIMIT_KB} allowed\n{finished}"


def test_threads_that_only_free_leave_memory_bounded(runner: Runner, builder: Builder) -> None:
    finished = runner.run([builder.program("c/threads_that_only_free.c")])
    resident_kb = int(finished.text)
    assert resident_kb < FREES_LIMIT_KB, f"{resident_kb} kB resident, {FREES_LIMIT_KB} allowed\n{finished}"


def test_the_librarys_thread_is_no_real_time_thread(runner: Runner, builder: Builder) -> None:
    finished = runner.run([builder.program("c/library_thread_schedule.c")])
    assert finished.text == "policy as others, processors of the process\n", finished


def test_thread_specific_destructors_can_allocate_in_every_round(runner: Runner, builder: Builder) -> None:
    runner.same_output([builder.program("c/thread_specific_destructors.c")])


def test_the_first_thread_may_end_before_the_others(runner: Runner, builder: Builder) -> None:
    finished = runner.run([builder.program("c/first_thread_has_ended.c")])
    assert finished.text == "all the same\n", finished


def test_allocates_before_main_and_after_exit(runner: Runner, builder: Builder) -> None:
    runner.same_output([builder.program("c/before_main_and_after_exit.c")])


def test_timer_signals_lose_no_block(runner: Runner, builder: Builder) -> None:
    runner.same_output([builder.program("c/timer_signal.c")])


def test_fork_in_the_handler_of_a_signal_that_interrupts_malloc(runner: Runner, builder: Builder) -> None:
    program = [builder.program("c/fork_in_signal_handler.c")]
    runner.same_output(program)
    sampled = ["env", "HAKMEM_PROF=1", "HAKMEM_PROF_INTERVAL=4096", "HAKMEM_PROF_AT_EXIT=0"]
    runner.same_output([*sampled, *program])


@pytest.mark.parametrize("how", ["setrlimit", "prlimit", "system_call", "mlockall"])
def test_a_program_that_limits_or_locks_its_address_space_has_it(
    runner: Runner, builder: Builder, how: str
) -> None:
    finished = runner.run([builder.program("c/address_space_given_up.c"), how])
    assert int(finished.text) >= LEAST_OF_2_GIB_MIB, finished


def test_a_program_that_limits_its_address_space_while_others_allocate_has_it(
    runner: Runner, builder: Builder
) -> None:
    runner.run([builder.program("c/address_space_given_up_among_threads.c")])


@pytest.mark.parametrize("limit_mib", [100, 200])
def test_a_program_that_limits_its_address_space_to_little_has_it(
    runner: Runner, builder: Builder, limit_mib: int
) -> None:
    finished = runner.run([builder.program("c/narrow_limit_of_its_own.c"), str(limit_mib)])
    assert limit_mib // 2 <= int(finished.text) <= limit_mib, finished


@pytest.mark.parametrize("limit_gib", [2, 9, 20])
def test_a_limit_of_address_space_leaves_most_of_it(runner: Runner, builder: Builder, limit_gib: int) -> None:
    program = builder.program("c/untouched_blocks.c")
    finished = run_limited(runner, limit_gib << 20, program)
    assert int(finished.text) >= limit_gib * 1024 * 3 // 4, finished


@pytest.mark.parametrize("limit_mib", [24, 64, 200])
def test_a_narrow_limit_of_address_space_leaves_most_of_it(
    runner: Runner, builder: Builder, limit_mib: int
) -> None:
    program = builder.program("c/scarce_address_space.c")
    finished = run_limited(runner, limit_mib << 10, program)
    own_kib = 8 << 10  # of the program, the libraries and what it has of libc
    assert int(finished.text) >= ((limit_mib << 10) - own_kib) * 2 // 3, finished


def test_a_narrow_limit_leaves_something_where_the_kernel_maps_upwards(
    runner: Runner, builder: Builder
) -> None:
    upwards = [required_program("setarch"), "-L"]
    program = builder.program("c/scarce_address_space.c")
    for _ in range(12):  # where what lies is chance
        run_limited(runner, 24 << 10, *upwards, program)


@pytest.mark.parametrize("limit_mib", [60, 300, 5000])
def test_a_huge_block_that_grows_may_have_most_of_a_limit(
    runner: Runner, builder: Builder, limit_mib: int
) -> None:
    program = builder.program("c/huge_block_that_grows.c")
    finished = run_limited(runner, limit_mib << 10, program)
    assert int(finished.text) >= limit_mib // 2, finished


@pytest.mark.parametrize("limit_kb", [1 << 20, None])
def test_huge_blocks_that_come_and_go_find_a_place_each_time(
    runner: Runner, builder: Builder, limit_kb: int | None
) -> None:
    program = builder.program("c/huge_blocks_come_and_go.c")
    run_limited(runner, limit_kb, program)


def test_used_up_address_space_gives_null_and_enomem(runner: Runner, builder: Builder) -> None:
    program = builder.program("c/address_space_limit.c")
    finished = run_limited(runner, ADDRESS_SPACE_LIMIT_KB, program)
    obtained_mib = int(finished.text)
    assert LEAST_OBTAINED_MIB <= obtained_mib <= ADDRESS_SPACE_LIMIT_KB // 1024, finished
