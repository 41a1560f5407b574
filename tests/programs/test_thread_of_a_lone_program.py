"""The library's thread in a program that has none of its own: there once the program breathes, and never in
the way of what only a process of one thread can do."""

from __future__ import annotations

from pathlib import Path

import pytest

from .builder import Builder
from .harness import Runner
from .idle import IDLE_FLAGS


@pytest.fixture(name="program")
def _program(builder: Builder) -> Path:
    return builder.program("c/breathes_alone.c", *IDLE_FLAGS)


@pytest.mark.parametrize(
    "how",
    [
        *("fork", "handler", "clone", "raw-clone", "no-clone3"),
        *("unshare", "raw-unshare", "unshare-each-time", "setns"),
    ],
)
def test_it_makes_way_and_comes_back(runner: Runner, program: Path, how: str) -> None:
    runner.run([program, how])


@pytest.mark.parametrize("how", ["unshare", "raw-unshare", "unshare-each-time", "setns"])
def test_it_makes_way_where_threads_have_ended(runner: Runner, program: Path, how: str) -> None:
    runner.run([program, "threads", how])


def test_it_gives_back_what_lies_idle_and_ends(runner: Runner, program: Path) -> None:
    runner.run([program, "stops"])


@pytest.mark.parametrize("how", [("filter",), ("filtered", "never")])
def test_it_is_not_there_where_system_calls_may_be_filtered(
    runner: Runner, program: Path, how: tuple[str, ...]
) -> None:
    runner.run([program, *how])


def test_an_option_has_it_where_system_calls_were_filtered_from_the_start(
    runner: Runner, program: Path
) -> None:
    runner.run([program, "filtered", "stops"], env={"HAKMEM_BACKGROUND_THREAD": "2"})


def test_an_option_keeps_it_away(runner: Runner, program: Path) -> None:
    runner.run([program, "never"], env={"HAKMEM_BACKGROUND_THREAD": "0"})


@pytest.mark.parametrize("how", ["exit", "libc-exit"])
def test_the_program_ends_with_its_own_status(runner: Runner, program: Path, how: str) -> None:
    runner.run([program, how], status=3, proven=False)


@pytest.mark.parametrize("how", ["interrupted", "busy"])
def test_children_of_a_fork_at_a_bad_moment_are_whole(runner: Runner, builder: Builder, how: str) -> None:
    program = builder.program("c/forks_beside_library_thread.c", *IDLE_FLAGS)
    # A short period of the decay, so that the thread is often in the midst of something.
    runner.run([program, how], env={"HAKMEM_DECAY_MS": "20"})
