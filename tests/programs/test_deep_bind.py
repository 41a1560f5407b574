"""Libraries loaded with RTLD_DEEPBIND, which look for malloc in libc before they look anywhere else."""

from __future__ import annotations

import pytest

from .builder import Builder
from .harness import Runner


@pytest.fixture
def host(builder: Builder) -> tuple[str, str]:
    program = builder.program("c/deep_bind_host.c", "-Wl,-rpath,$ORIGIN")
    return str(program), builder.plugin("c/deep_bind_plugin.c").name


def test_blocks_cross_the_border_both_ways(runner: Runner, host: tuple[str, str]) -> None:
    finished = runner.same_output([*host, "1000"])
    assert finished.text == "one malloc\n", finished


def test_the_option_leaves_the_flag(runner: Runner, host: tuple[str, str]) -> None:
    finished = runner.run([*host, "0"], env={"HAKMEM_DEEPBIND": "1"})
    assert finished.text == "another malloc\n", finished


def test_a_program_on_libc_keeps_it(runner: Runner, host: tuple[str, str]) -> None:
    finished = runner.run([*host, "0"], env={"HAKMEM_FORCE_LIBC_ALLOC": "1"})
    assert finished.text == "another malloc\n", finished
