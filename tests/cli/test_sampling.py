"""`hakmem profile` has a process sample: for a while, or until it is told to stop."""

import errno
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from .command import Command
from .live_file import Program, await_request, running, sample_statistics
from .test_profile import END, HEAD, requests

STATISTICS = sample_statistics()
PROFILE = f"{HEAD}1: 1000 [1: 1000] @ 0x10\n{END}"


def test_seconds_start_and_stop_sampling_around_it(hakmem: Command, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with running(Program(STATISTICS, {1: PROFILE}, log=str(log))) as process:
        arguments = ("--seconds", "0.1", "--interval", "64K", "-o", tmp_path / "heap")
        assert hakmem("profile", str(process.pid), *arguments).status == 0
    assert requests(log) == ["5 65536", "1 0", "6 0"]


def test_every_kind_is_taken_before_sampling_ends(hakmem: Command, tmp_path: Path) -> None:
    log = tmp_path / "log"
    empty = '{"sites": []}'
    with running(Program(STATISTICS, {2: empty, 4: empty}, log=str(log))) as process:
        for kind in ("fragmentation", "sites"):
            assert hakmem("profile", str(process.pid), "--kind", kind, "--seconds", "0").status == 0
    assert requests(log) == ["5 0", "2 0", "6 0", "5 0", "4 0", "6 0"]


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (Program(STATISTICS, errors={1: errno.ENOSPC}), "no room for its answer"),
        (Program(STATISTICS), "left no file"),
        (Program(STATISTICS, {1: "no profile"}), "the answer of the process"),
        (Program(STATISTICS, {1: f"{HEAD}{END}"}), "has sampled nothing"),
        (Program(STATISTICS, unanswered=[1]), "no answer within 0.3 s"),
    ],
)
def test_sampling_ends_when_there_is_no_profile(
    hakmem: Command, tmp_path: Path, program: Program, said: str
) -> None:
    log, file = tmp_path / "log", tmp_path / "heap"
    with running(replace(program, log=str(log))) as process:
        outcome = hakmem("profile", str(process.pid), "--seconds", "0", "--wait", "0.3", "-o", file)
    assert outcome.status == 1
    assert said in outcome.error_line()
    assert (requests(log)[0], requests(log)[-1]) == ("5 0", "6 0")
    assert not file.exists()


def test_a_process_that_does_not_end_the_sampling_is_named_beside_the_profile(
    hakmem: Command, tmp_path: Path
) -> None:
    file = tmp_path / "heap"
    with running(Program(STATISTICS, {1: PROFILE}, unanswered=[6])) as process:
        outcome = hakmem("profile", str(process.pid), "--seconds", "0", "--wait", "0.3", "-o", file)
    assert outcome.status == 1
    assert f"it still samples: 'hakmem profile {process.pid} --stop' ends that" in outcome.error_line()
    assert file.read_text() == PROFILE


def test_a_process_that_ends_once_it_was_profiled_needs_no_end_of_sampling(
    hakmem: Command, tmp_path: Path
) -> None:
    file = tmp_path / "heap"
    with running(Program(STATISTICS, {1: PROFILE}, ends_at=6)) as process:
        outcome = hakmem("profile", str(process.pid), "--seconds", "0", "-o", file)
    assert (outcome.status, outcome.stderr) == (0, "")
    assert file.read_text() == PROFILE


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("seconds", ["250", "0"])
def test_a_signal_that_ends_the_command_ends_the_sampling(
    hakmem: Command, tmp_path: Path, number: signal.Signals, seconds: str, request: pytest.FixtureRequest
) -> None:
    before = ["5 0"] if seconds == "250" else ["5 0", "1 0"]  # it samples, or has been asked for the profile
    log = tmp_path / "log"
    log.touch()
    inherited = signal.signal(number, signal.SIG_DFL)  # nohup's children ignore SIGHUP
    request.addfinalizer(lambda: signal.signal(number, inherited))
    with running(Program(STATISTICS, unanswered=[1], log=str(log))) as process:
        command = [*hakmem.arguments, "profile", str(process.pid), "--seconds", seconds, "--wait", "250"]
        with subprocess.Popen([*command, "-o", str(tmp_path / "heap")], env=hakmem.environment) as profile:
            while requests(log) != before:
                assert profile.poll() is None
                time.sleep(0.02)
            profile.send_signal(number)
            assert profile.wait(100) == 128 + number
    withdrawn = "0 0"  # in place of what it has not answered
    assert [line for line in requests(log) if line != withdrawn] == [*before, "6 0"]


def test_an_interrupt_while_the_process_begins_to_sample_ends_the_sampling(
    hakmem: Command, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    log.touch()
    with running(Program(STATISTICS, hesitates={5: 0.1}, log=str(log))) as process:
        command = [*hakmem.arguments, "profile", str(process.pid), "--seconds", "250"]
        with subprocess.Popen([*command, "-o", str(tmp_path / "heap")], env=hakmem.environment) as profile:
            await_request(process.pid)
            time.sleep(0.02)  # for the program to take it up; where it does not, there is nothing to end
            profile.send_signal(signal.SIGINT)
            assert profile.wait(100) == 128 + signal.SIGINT
        while requests(log)[-1:] not in (["6 0"], ["0 0"]):
            time.sleep(0.02)
    assert [line for line in requests(log) if line != "0 0"] in (["5 0", "6 0"], [])


def test_seconds_leave_a_process_sampling_that_did_before(hakmem: Command, tmp_path: Path) -> None:
    log = tmp_path / "log"
    file = tmp_path / "heap"
    with running(Program(STATISTICS, {1: PROFILE}, log=str(log), interval=1 << 20)) as process:
        for options in ([], ["--interval", "1M"]):
            assert hakmem("profile", str(process.pid), "--seconds", "0", *options, "-o", file).status == 0
    assert requests(log) == ["5 0", "1 0", "5 0", "1 0"]  # the same interval is no reason to begin anew


def test_seconds_after_start_leave_it_sampling(hakmem: Command, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with running(Program(STATISTICS, {1: PROFILE}, log=str(log))) as process:
        hakmem("profile", str(process.pid), "--start")
        assert hakmem("profile", str(process.pid), "--seconds", "0", "-o", tmp_path / "heap").status == 0
    assert requests(log) == ["5 0", "5 0", "1 0"]


def test_what_began_to_sample_since_it_published_is_left_sampling(hakmem: Command, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with running(Program(STATISTICS, {1: PROFILE}, log=str(log), intervals={5: 1 << 20})) as process:
        assert hakmem("profile", str(process.pid), "--seconds", "0", "-o", tmp_path / "heap").status == 0
    assert requests(log) == ["5 0", "1 0"]


@pytest.mark.parametrize("how", [["--seconds", "0"], ["--start"]])
def test_another_interval_than_that_of_others_is_refused(
    hakmem: Command, tmp_path: Path, how: list[str]
) -> None:
    log = tmp_path / "log"
    log.touch()
    with running(Program(STATISTICS, log=str(log), interval=1 << 20)) as process:
        outcome = hakmem("profile", str(process.pid), *how, "--interval", "64K")
    assert outcome.status == 1
    assert "samples already, once in 1.0 MiB: leave out --interval" in outcome.error_line()
    assert requests(log) == []


def test_a_process_that_does_not_answer_samples_on(hakmem: Command) -> None:
    with running(Program(STATISTICS, interval=1 << 20, unanswered=[6])) as process:
        outcome = hakmem("profile", str(process.pid), "--stop", "--wait", "0.1")
    assert outcome.status == 1
    assert outcome.error_line().endswith("; it samples until then")


@pytest.mark.parametrize(
    "arguments", [["--seconds", "0"], ["--seconds", "0", "--interval", "1M"], ["--start"], ["--stop"]]
)
def test_two_do_not_switch_sampling_at_once(hakmem: Command, tmp_path: Path, arguments: list[str]) -> None:
    log, file = tmp_path / "log", tmp_path / "heap"
    log.touch()
    with running(Program(STATISTICS, {1: PROFILE}, log=str(log))) as process:
        command = [*hakmem.arguments, "profile", str(process.pid)]
        command += ["--seconds", "250", "-o", str(tmp_path / "first")]
        with subprocess.Popen(command, env=hakmem.environment) as first:
            while not requests(log):
                assert first.poll() is None
                time.sleep(0.02)
            outcome = hakmem("profile", str(process.pid), *arguments)
            assert hakmem("profile", str(process.pid), "-o", file).status == 0  # only asks
            first.terminate()
    assert outcome.status == 1
    assert "another 'hakmem profile' has process" in outcome.error_line()
    assert requests(log) == ["5 0", "1 0", "6 0"]


@pytest.mark.parametrize(
    ("options", "then", "what"),
    [
        ([], 96 << 10, "anew, once in 96.0 KiB"),
        (["--interval", "64K"], 128 << 10, "anew, once in 128.0 KiB"),
        ([], 0, "no more"),
    ],
)
def test_sampling_that_others_have_changed_gives_no_profile(
    hakmem: Command, tmp_path: Path, options: list[str], then: int, what: str
) -> None:
    """Nor is it ended."""
    log, file = tmp_path / "log", tmp_path / "heap"
    with running(Program(STATISTICS, {1: PROFILE}, log=str(log), intervals={1: then})) as process:
        outcome = hakmem("profile", str(process.pid), "--seconds", "0", *options, "-o", file)
    assert outcome.status == 1
    assert f"was made to sample {what}, while this command had it sample" in outcome.error_line()
    assert requests(log)[-1] == "1 0"
    assert not file.exists()


def test_an_interval_that_grows_by_itself_is_no_new_beginning(hakmem: Command, tmp_path: Path) -> None:
    log, file = tmp_path / "log", tmp_path / "heap"
    with running(Program(STATISTICS, {1: PROFILE}, log=str(log), intervals={1: 2 << 20})) as process:
        assert hakmem("profile", str(process.pid), "--seconds", "0", "-o", file).status == 0
    assert requests(log) == ["5 0", "1 0", "6 0"]


def test_start_and_stop(hakmem: Command, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with running(Program(STATISTICS, log=str(log))) as process:
        started = hakmem("profile", str(process.pid), "--start", "--interval", "1M")
        stopped = hakmem("profile", str(process.pid), "--stop")
    assert (started.status, stopped.status) == (0, 0)
    assert "samples, once in 1.0 MiB" in started.stdout
    assert "samples no more" in stopped.stdout
    assert requests(log) == [f"5 {1 << 20}", "6 0"]
