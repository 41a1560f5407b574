"""`hakmem top`: a process or a command, watched until it ends."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.live_path import live_path

from .command import Command
from .live_file import ENDS_SOON_S, Program, running, sample_statistics
from .terminal import Terminal

STATISTICS = sample_statistics()
PROFILE = (
    "heap profile: 1: 8000 [1: 8000] @ heapprofile\n1: 8000 [1: 8000] @ 0x10 0x20\n\nMAPPED_LIBRARIES:\n"
)


def as_a_command(program: Program, folder: Path) -> list[str]:
    """Runs it, and ends with status 3."""
    config = folder / "config.json"
    config.write_text(json.dumps(program.__dict__))
    # Not on HAKMEM itself, whose own file its would replace: the command might have opened that one.
    return ["sh", "-c", f'LD_PRELOAD= "{sys.executable}" -m tests.cli.live_file <"{config}"; exit 3']


def test_plain_pictures_follow_each_other_to_the_end(hakmem: Command) -> None:
    with running(Program(STATISTICS, lifetime_seconds=ENDS_SOON_S, tidy=True)) as process:
        outcome = hakmem("top", str(process.pid), "--interval", "0.2")
    assert (outcome.status, outcome.stderr) == (0, "")
    assert outcome.stdout.count(f"fake ({process.pid}), HAKMEM 0.1.0") > 3
    assert outcome.stdout.splitlines()[-1].endswith("has ended")
    assert "\x1b" not in outcome.stdout


def test_a_picture_shows_curves_classes_and_fallbacks(hakmem: Command) -> None:
    with running(Program(STATISTICS)) as process:
        lines = hakmem("top", str(process.pid), "--once", "--interval", "0.1").stdout.splitlines()
    shown = {line.split()[0]: line for line in lines if line.strip()}
    assert "5.0 MiB ██ of at most 5.0 MiB" in shown["live"]
    assert "2.0 MiB ██" in shown["retained"]
    assert "resident" in shown
    assert lines.index(shown["64"]) < lines.index(shown["1,040"])
    assert "3 foreign_free" in shown["fall-backs:"]


def test_once_is_one_picture(hakmem: Command) -> None:
    with running(Program(STATISTICS)) as process:
        outcome = hakmem("top", "--once", "--interval", "0.1", str(process.pid))
    assert outcome.status == 0
    assert outcome.stdout.count("HAKMEM 0.1.0") == 1


def test_once_shows_what_there_was_of_a_process_that_ends_meanwhile(hakmem: Command) -> None:
    with running(Program(STATISTICS, lifetime_seconds=ENDS_SOON_S, tidy=True)) as process:
        outcome = hakmem("top", "--once", "--interval", "60", str(process.pid))
    assert outcome.status == 0
    assert outcome.stdout.count("HAKMEM 0.1.0") == 1
    assert outcome.stdout.splitlines()[-1].endswith("has ended")


def test_once_shows_what_there_was_of_a_command_that_ends_meanwhile(hakmem: Command, tmp_path: Path) -> None:
    ends_at_first_look = Program(STATISTICS, ends_at=1, interval=1 << 20, tidy=True)
    outcome = hakmem("top", "--once", "--interval", "0.2", "--", *as_a_command(ends_at_first_look, tmp_path))
    assert outcome.status == 3
    assert outcome.stdout.count("HAKMEM 0.1.0") == 1


def test_a_process_that_publishes_nothing_new_is_idle(hakmem: Command) -> None:
    with running(Program(STATISTICS, idle=True)) as process:
        outcome = hakmem("top", "--once", "--interval", "0.1", str(process.pid))
    assert "a second: nothing" in outcome.stdout


def test_old_figures_are_not_called_live(hakmem: Command) -> None:
    with running(Program(STATISTICS, age_ms=60_000)) as process:
        outcome = hakmem("top", "--once", "--interval", "0.1", str(process.pid))
    assert "; figures of 1 min" in outcome.stdout.splitlines()[0]


def test_call_sites_of_a_process_that_is_sampled(hakmem: Command) -> None:
    with running(Program(STATISTICS, {1: PROFILE}, interval=1 << 20)) as process:
        outcome = hakmem("top", "--once", "--interval", "0.1", str(process.pid))
    assert "live bytes by call site, sampled" in outcome.stdout
    assert "7.8 KiB          1 blocks  0xf ← 0x1f" in outcome.stdout


def test_call_sites_of_a_process_that_samples_no_more(hakmem: Command) -> None:
    with running(Program(STATISTICS, {1: PROFILE})) as process:
        for switch in ("--start", "--stop"):
            assert hakmem("profile", str(process.pid), switch).status == 0
        outcome = hakmem("top", "--once", "--interval", "0.1", str(process.pid))
    assert "live bytes by call site, sampled" in outcome.stdout


def test_a_process_that_never_sampled_is_asked_for_nothing(hakmem: Command, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.touch()
    with running(Program(STATISTICS, log=str(log))) as process:
        assert hakmem("top", "--once", "--interval", "0.1", str(process.pid)).status == 0
    assert log.read_text() == ""


def test_a_crash_is_told_from_an_end(hakmem: Command) -> None:
    with running(Program(STATISTICS, lifetime_seconds=ENDS_SOON_S)) as process:
        outcome = hakmem("top", str(process.pid), "--interval", "0.1")
    assert outcome.status == 0
    assert "has ended without tidying up" in outcome.stdout
    assert f"'hakmem stats {process.pid}'" in outcome.stdout


def test_in_a_terminal_each_picture_takes_the_place_of_the_last(hakmem: Command) -> None:
    with running(Program(STATISTICS, lifetime_seconds=ENDS_SOON_S, tidy=True)) as process:
        terminal = Terminal(
            [*hakmem.arguments, "top", str(process.pid), "--interval", "0.2"], hakmem.environment
        )
        drawn = terminal.finish()
    assert drawn.status == 0
    assert "███ of at most 5.0 MiB" in drawn.text
    assert drawn.text.rstrip().endswith("has ended")


@pytest.mark.parametrize("kind", ["dumb", "unknown"])
def test_in_a_terminal_that_cannot_draw_over_they_follow_each_other(hakmem: Command, kind: str) -> None:
    with running(Program(STATISTICS, lifetime_seconds=ENDS_SOON_S, tidy=True)) as process:
        arguments = [*hakmem.arguments, "top", str(process.pid), "--interval", "0.2"]
        drawn = Terminal(arguments, hakmem.environment, kind=kind).finish()
    assert drawn.status == 0
    assert drawn.text.count(f"fake ({process.pid}), HAKMEM 0.1.0") > 1
    assert drawn.text.rstrip().endswith("has ended")


def test_interrupting_it_ends_it_and_not_the_process(hakmem: Command) -> None:
    with running(Program(STATISTICS)) as process:
        terminal = Terminal(
            [*hakmem.arguments, "top", str(process.pid), "--interval", "0.1"], hakmem.environment
        )
        terminal.wait_for("of at most")
        terminal.interrupt()
        drawn = terminal.finish()
        assert process.poll() is None
    assert drawn.status == 0
    assert "Traceback" not in drawn.text


@pytest.mark.parametrize("rows", [8, 24])
def test_a_small_terminal(hakmem: Command, rows: int) -> None:
    with running(Program(STATISTICS, lifetime_seconds=ENDS_SOON_S, tidy=True)) as process:
        arguments = [*hakmem.arguments, "top", str(process.pid), "--interval", "0.2"]
        drawn = Terminal(arguments, hakmem.environment, rows=rows, columns=40).finish()
    assert drawn.status == 0
    assert "Traceback" not in drawn.text


def test_a_narrow_terminal_shows_all_figures_in_lines_that_fit(hakmem: Command) -> None:
    with running(Program(STATISTICS, lifetime_seconds=ENDS_SOON_S, tidy=True)) as process:
        arguments = [*hakmem.arguments, "top", str(process.pid), "--interval", "0.2"]
        drawn = Terminal(arguments, hakmem.environment, rows=80, columns=30).finish()
    assert drawn.status == 0
    *pictures, end = drawn.text.split(f"fake ({process.pid})")
    assert pictures
    assert max(len(line) for picture in pictures[1:] for line in picture.splitlines()) <= 30
    for figure in ("5.0 MiB", "1,040", "2,048", "3 foreign_free"):
        assert figure in end.replace("\r\n", "")


def test_a_command_runs_on_hakmem_and_gives_its_status(hakmem: Command) -> None:
    code = "print('libhakmem.so' in open('/proc/self/maps').read(), flush=True); raise SystemExit(7)"
    outcome = hakmem("top", "--interval", "0.1", "--", sys.executable, "-c", code)
    assert outcome.status == 7
    assert outcome.stdout.startswith("True\n")
    assert "ended with exit status 7" in outcome.stdout.splitlines()[-1]


def test_a_program_here_is_run_from_here(
    hakmem: Command, script: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(script('#!/bin/sh\necho "$0"\n').parent)
    outcome = hakmem("top", "--", "./script")
    assert (outcome.status, outcome.stdout.splitlines()[0]) == (0, "./script")


def test_a_command_that_a_signal_kills(hakmem: Command) -> None:
    outcome = hakmem("top", "--", "sh", "-c", "kill -9 $$")
    assert outcome.status == 128 + signal.SIGKILL
    assert "was killed by SIGKILL" in outcome.stdout


def test_what_a_command_writes_stays_above_the_view(hakmem: Command) -> None:
    command = ["sh", "-c", "for i in 1 2 3; do echo line $i; sleep 0.2; done"]
    drawn = Terminal(
        [*hakmem.arguments, "top", "--interval", "0.1", "--", *command], hakmem.environment
    ).finish()
    assert drawn.status == 0
    for number in "123":
        assert f"line {number}" in drawn.text
    assert "ended with exit status 0" in drawn.text


def test_what_a_command_writes_last_comes_before_its_end(hakmem: Command) -> None:
    command = ["sh", "-c", "seq 1 4000; printf 'no end of line'"]
    drawn = Terminal([*hakmem.arguments, "top", "--", *command], hakmem.environment).finish()
    assert drawn.status == 0
    before, _, after = drawn.text.partition("ended with exit status 0")
    for line in ("1", "2000", "3999", "4000", "no end of line"):
        assert f"{line}\r\n" in before
    assert len(after.splitlines()) == 1


def test_a_command_ends_though_what_it_started_goes_on(hakmem: Command) -> None:
    command = ["sh", "-c", "sleep 60 & echo has started $!."]
    drawn = Terminal([*hakmem.arguments, "top", "--", *command], hakmem.environment).finish()
    os.kill(int(drawn.text.split("has started ")[1].split(".")[0]), signal.SIGKILL)
    assert drawn.status == 0
    assert drawn.text.rstrip().endswith("ended with exit status 0; it published no figures before that")


def test_the_largest_process_of_a_command_is_shown(hakmem: Command, tmp_path: Path) -> None:
    command = as_a_command(Program(STATISTICS, lifetime_seconds=ENDS_SOON_S, tidy=True), tmp_path)
    outcome = hakmem("top", "--interval", "0.2", "--", *command)
    assert outcome.status == 3
    assert outcome.stdout.count("fake (") > 2


def test_sigterm_is_passed_on_to_the_command(hakmem: Command) -> None:
    status, rest = hakmem.terminated("top", "--")
    assert status == 5
    assert "caught\n" in rest


@pytest.mark.parametrize(
    ("arguments", "said", "status"),
    [
        ([], "nothing to watch", 1),
        (["--", "hak-no-such-program"], "not found in PATH", 127),
        (["0"], "'0' is not a process number", 1),
    ],
)
def test_what_cannot_be_watched(hakmem: Command, arguments: list[str], said: str, status: int) -> None:
    outcome = hakmem("top", *arguments)
    assert outcome.status == status
    assert said in outcome.error_line()


def test_a_program_that_becomes_another_is_followed(hakmem: Command) -> None:
    """As a wrapper does: the process gets another file."""
    with running(Program(STATISTICS)) as process:
        watching = subprocess.Popen(
            [*hakmem.arguments, "top", str(process.pid), "--interval", "0.1"],
            env=hakmem.environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert watching.stdout is not None
        first = watching.stdout.readline()
        path = live_path(process.pid)
        data = bytearray(path.read_bytes()).replace(b'"fake"', b'"anew"')
        path.with_name(path.name + ".new").write_bytes(data)
        path.with_name(path.name + ".new").rename(path)
        deadline = time.monotonic() + 60
        seen = first
        while "anew" not in seen and time.monotonic() < deadline:
            seen += watching.stdout.readline()
        watching.send_signal(signal.SIGINT)
        watching.communicate(timeout=60)
    assert "fake (" in first
    assert "anew (" in seen
