"""`hakmem run`: the program with the library preloaded, and otherwise as if run alone."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from .command import Command
from .conftest import Compile

SHOW_PRELOAD = "import os; print(os.environ['LD_PRELOAD'])"
COUNT_MAPPED = "print('libhakmem.so' in open('/proc/self/maps').read())"


def test_loads_the_library_into_the_program(hakmem: Command) -> None:
    outcome = hakmem("run", sys.executable, "-c", COUNT_MAPPED)
    assert (outcome.status, outcome.stdout, outcome.stderr) == (0, "True\n", "")


def test_the_program_does_not_wait_for_what_other_commands_load(hakmem: Command) -> None:
    outcome = hakmem("run", "true", PYTHONPROFILEIMPORTTIME="1")
    loaded = {line.rpartition("|")[2].strip() for line in outcome.stderr.splitlines()}
    assert "hakmem.preload" in loaded
    assert not loaded & {"rich", "hakmem.report", "hakmem.allocators", "importlib.metadata"}


def test_children_of_the_program_have_it_too(hakmem: Command) -> None:
    outcome = hakmem("run", "sh", "-c", f'"{sys.executable}" -c "{COUNT_MAPPED}"; true')
    assert outcome.stdout == "True\n"


@pytest.mark.parametrize("status", [0, 1, 42, 255])
def test_exit_status_is_the_programs(hakmem: Command, status: int) -> None:
    assert hakmem("run", "sh", "-c", f"exit {status}").status == status


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGSEGV, signal.SIGKILL, signal.SIGPIPE])
def test_death_by_signal_is_the_programs(hakmem: Command, number: signal.Signals) -> None:
    assert hakmem("run", "sh", "-c", f"kill -{number.value} $$").status == -number


def test_signals_reach_the_program_itself(hakmem: Command) -> None:
    assert hakmem.terminated("run") == (5, "caught\n")


def test_signal_dispositions_are_the_usual_ones(hakmem: Command, environment: dict[str, str]) -> None:
    show = ["grep", "SigIgn", "/proc/self/status"]
    alone = subprocess.run(show, env=environment, capture_output=True, text=True, check=True)
    assert hakmem("run", *show).stdout == alone.stdout


def test_streams_pass_through(hakmem: Command) -> None:
    outcome = hakmem("run", "sh", "-c", "cat; echo to stderr >&2", stdin="typed\n")
    assert (outcome.stdout, outcome.stderr) == ("typed\n", "to stderr\n")


def test_arguments_pass_through_unchanged(hakmem: Command) -> None:
    arguments = ["--stats", "a b", "", "*", "--", "$HOME", "-h"]
    show = "import sys; print(sys.argv[1:])"
    assert hakmem("run", sys.executable, "-c", show, *arguments).stdout == f"{arguments}\n"
    assert hakmem("run", "--", sys.executable, "-c", show, *arguments).stdout == f"{arguments}\n"


def test_the_program_sees_its_own_name(hakmem: Command) -> None:
    assert hakmem("run", "sh", "-c", "echo $0").stdout == "sh\n"


def test_what_was_preloaded_before_stays_after_ours(
    hakmem: Command, library: Path, compiled: Compile
) -> None:
    other = compiled("int hak_test_other;", "-shared", "-fPIC", name="other.so")
    outcome = hakmem("run", sys.executable, "-c", SHOW_PRELOAD, LD_PRELOAD=str(other))
    assert outcome.stdout.strip().split(":") == [str(library), str(other)]
    again = hakmem("run", sys.executable, "-c", SHOW_PRELOAD, LD_PRELOAD=f"{library} {other}")
    assert again.stdout == outcome.stdout


def test_stats_prints_a_summary_at_the_end(hakmem: Command) -> None:
    outcome = hakmem("run", "--stats", sys.executable, "-c", "print('done')")
    assert outcome.stdout == "done\n"
    assert "hakmem" in outcome.stderr
    assert "fall-backs" in outcome.stderr
    assert hakmem("run", sys.executable, "-c", "print('done')").stderr == ""


def test_a_script_runs_through_its_interpreter(hakmem: Command, script: Callable[[str], Path]) -> None:
    outcome = hakmem("run", script(f"#!{sys.executable}\n{COUNT_MAPPED}\n"))
    assert outcome.stdout == "True\n"


def test_a_program_here_is_run_from_here(
    hakmem: Command, script: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(script('#!/bin/sh\necho "$0"\n').parent)
    assert hakmem("run", "./script").stdout == "./script\n"


def test_the_command_as_a_module(hakmem: Command) -> None:
    python = Path(hakmem.arguments[0]).parent / "python"
    module = Command([os.fspath(python), "-m", "hakmem"], hakmem.environment)
    assert module("run", "echo", "here").stdout == "here\n"
