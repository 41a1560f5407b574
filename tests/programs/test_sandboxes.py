"""Programs that filter their system calls: the library does not make calls that they forbid."""

from __future__ import annotations

import json

import pytest

from ..live_path import live_path
from .builder import Builder
from .harness import Runner


@pytest.mark.parametrize("sandbox", ["refuse", "kill"])
def test_a_sandbox_is_no_trap(runner: Runner, builder: Builder, sandbox: str) -> None:
    # Without the thread and what is done in its place, which are told to stay away by their own option.
    finished = runner.run(
        [builder.program("c/sandboxed.c"), sandbox], env={"HAKMEM_BACKGROUND_THREAD": "0"}, proven=False
    )
    live_path(finished.pid).unlink(missing_ok=True)
    assert finished.stdout == b"done\n", finished


def test_in_a_sandbox_three_settings_leave_the_calls_that_the_readme_names(
    runner: Runner, builder: Builder
) -> None:
    settings = {f"HAKMEM_{name}": "0" for name in ("LIVE", "BACKGROUND_THREAD", "HUGE_PAGES")}
    finished = runner.run([builder.program("c/sandboxed.c"), "least"], env=settings, proven=False)
    assert finished.stdout == b"done\n", finished


def test_holes_go_back_many_at_a_time_where_nothing_is_filtered(runner: Runner, builder: Builder) -> None:
    program = builder.program("c/filtered.c")
    # Without the calls by which blocks get pages ahead of use: those for holes are to be counted.
    settings = {"HAKMEM_STATS_JSON": "1", "HAKMEM_HUGE_PAGES": "0"}
    ended = runner.run([program, "free"], env=settings, proven=False, may_speak=True)
    counters = json.loads(ended.stderr)["counters"]
    assert counters["purges"] >= 1000, ended
    if ended.stdout == b"many by one call\n":
        assert counters["system_calls"] <= counters["purges"] // 3, ended


@pytest.mark.parametrize("how", ["all", "own", "syscall", "layers"])
def test_after_a_filter_they_go_back_as_filters_know_it(runner: Runner, builder: Builder, how: str) -> None:
    ended = runner.run([builder.program("c/filtered.c"), how], proven=how != "layers")
    assert ended.stdout in (b"many by one call\n", b"one by one\n"), ended
