"""`hakmem stats`: where the figures go, once or again and again, and what is there in the end."""

import fcntl
import json
import os
import signal
import stat
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from .command import Command
from .live_file import ENDS_SOON_S, Program, running, sample_statistics

STATISTICS = sample_statistics()


@contextmanager
def watching(hakmem: Command, pid: int, *options: str) -> Iterator["subprocess.Popen[str]"]:
    command = [*hakmem.arguments, "stats", str(pid), *options]
    with subprocess.Popen(command, env=hakmem.environment, stderr=subprocess.PIPE, text=True) as watch:
        try:
            yield watch
        finally:
            watch.terminate()


def await_there(watch: "subprocess.Popen[str]", place: Path) -> None:
    while not place.exists():
        assert watch.poll() is None
        time.sleep(0.02)


def test_output_replaces_the_file_as_a_whole(hakmem: Command, pid: int, tmp_path: Path) -> None:
    file = tmp_path / "hakmem.prom"
    file.write_text("before")
    before = file.stat().st_ino
    file.chmod(0o640)
    outcome = hakmem("stats", str(pid), "--prometheus", "--output", file)
    assert (outcome.status, outcome.stdout) == (0, "")
    assert list(text_string_to_metric_families(file.read_text()))
    assert file.stat().st_ino != before
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert [path.name for path in tmp_path.iterdir()] == ["hakmem.prom"]


def test_a_new_output_may_be_read_by_who_the_umask_lets(hakmem: Command, pid: int, tmp_path: Path) -> None:
    file = tmp_path / "hakmem.prom"
    hakmem("stats", str(pid), "--prometheus", "--output", file)
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(file.stat().st_mode) == 0o666 & ~mask


def test_output_through_a_link_and_into_a_device(hakmem: Command, pid: int, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "file")
    assert hakmem("stats", str(pid), "--json", "-o", link).status == 0
    assert link.is_symlink()
    assert json.loads((tmp_path / "file").read_text())["pid"] == pid
    assert hakmem("stats", str(pid), "--json", "-o", "/dev/null").status == 0
    assert Path("/dev/null").is_char_device()


def test_no_output_goes_where_a_link_of_another_user_leads(
    hakmem: Command, pid: int, foreign_link: Path
) -> None:
    outcome = hakmem("stats", str(pid), "-o", foreign_link)
    refused = os.geteuid() == 0
    assert outcome.status == int(refused)
    assert (foreign_link.read_text() == "kept") == refused
    assert (f"hakmem: cannot write '{foreign_link}': the link is another user's" in outcome.stderr) == refused


def test_output_to_what_standard_output_is_goes_there(hakmem: Command, pid: int, tmp_path: Path) -> None:
    place = tmp_path / "all"
    place.write_text("what was there before\n")
    with place.open("a") as output:
        for name in ("/dev/stdout", place):
            command = [*hakmem.arguments, "stats", str(pid), "--json", "-o", str(name)]
            subprocess.run(command, stdout=output, env=hakmem.environment, check=True)
    lines = place.read_text().splitlines()
    assert lines[0] == "what was there before"
    assert [json.loads(line)["pid"] for line in lines[1:]] == [pid, pid]


def test_output_without_a_name(hakmem: Command, pid: int) -> None:
    outcome = hakmem("stats", str(pid), "-o", "")
    assert outcome.status == 2
    assert "the name of the file is empty" in outcome.stderr


def test_output_into_a_file_of_a_folder_that_is_closed(hakmem: Command, pid: int, tmp_path: Path) -> None:
    place = tmp_path / "closed" / "file"
    place.parent.mkdir()
    place.write_text("old")
    place.parent.chmod(0o500)
    # Root may write anywhere, but for this.
    wrapper = ["setpriv", "--bounding-set=-dac_override"] if os.geteuid() == 0 else []
    command = Command([*wrapper, *hakmem.arguments], hakmem.environment)
    outcome = command("stats", str(pid), "-o", place)
    assert (outcome.status, outcome.stderr) == (0, "")
    assert place.read_text().startswith("fake")


def test_an_interrupt_ends_it_without_a_word(hakmem: Command, pid: int, tmp_path: Path) -> None:
    place = tmp_path / "figures"
    command = [*hakmem.arguments, "stats", str(pid), "--watch", "250", "-o", str(place)]
    inherited = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        watch = subprocess.Popen(command, env=hakmem.environment, stderr=subprocess.PIPE, text=True)
    finally:
        signal.signal(signal.SIGINT, inherited)
    await_there(watch, place)
    watch.send_signal(signal.SIGINT)
    assert watch.communicate(timeout=100)[1] == ""
    assert watch.returncode == 128 + signal.SIGINT


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_watch_that_is_stopped_leaves_a_collector_no_figures(
    hakmem: Command, pid: int, tmp_path: Path, number: signal.Signals
) -> None:
    place = tmp_path / "hakmem.prom"
    command = [*hakmem.arguments, "stats", str(pid), "--prometheus", "--watch", "250", "-o", str(place)]
    inherited = signal.signal(number, signal.SIG_DFL)  # nohup has SIGHUP ignored
    try:
        watch = subprocess.Popen(command, env=hakmem.environment, stderr=subprocess.PIPE, text=True)
    finally:
        signal.signal(number, inherited)
    await_there(watch, place)
    watch.send_signal(number)
    assert f"'{place}' is removed" in watch.communicate(timeout=100)[1]
    assert watch.returncode == 128 + number
    assert not place.exists()


def test_a_watch_goes_on_when_the_process_answers_again(hakmem: Command, pid: int, tmp_path: Path) -> None:
    place = tmp_path / "hakmem.prom"
    options = ["--measure", "--wait", "2", "--watch", "0.1", "-o", str(place)]
    with watching(hakmem, pid, "--prometheus", *options) as watch:
        await_there(watch, place)
        os.kill(pid, signal.SIGSTOP)
        said = [watch.stderr.readline() for _ in range(2)] if watch.stderr else []
        assert "no answer within 2 s" in said[0]
        assert f"'{place}' is removed" in said[1]
        assert not place.exists()
        os.kill(pid, signal.SIGCONT)
        await_there(watch, place)
        assert list(text_string_to_metric_families(place.read_text()))


def test_a_watch_goes_on_when_it_can_write_again(hakmem: Command, pid: int, tmp_path: Path) -> None:
    place = tmp_path / "folder" / "figures"
    place.parent.mkdir()
    with watching(hakmem, pid, "--json", "--watch", "0.1", "-o", str(place)) as watch:
        await_there(watch, place)
        place.parent.rename(tmp_path / "before")
        assert watch.stderr
        assert "cannot write" in watch.stderr.readline()
        place.parent.mkdir()
        await_there(watch, place)
        assert json.loads(place.read_text())["pid"] == pid


def test_a_watch_removes_nothing_where_a_link_of_another_user_leads(
    hakmem: Command, pid: int, foreign_link: Path
) -> None:
    os.chown(foreign_link, os.geteuid(), -1, follow_symlinks=False)
    with watching(hakmem, pid, "--prometheus", "--watch", "250", "-o", str(foreign_link)) as watch:
        while foreign_link.read_text() == "kept":
            assert watch.poll() is None
            time.sleep(0.02)
        refused = os.geteuid() == 0
        if refused:
            os.chown(foreign_link, 65534, -1, follow_symlinks=False)
        watch.terminate()
        said = watch.communicate(timeout=100)[1]
    assert ("cannot remove" in said) == refused
    assert ("the link is another user's" in said) == refused
    assert foreign_link.exists() == refused


def test_output_into_a_folder_that_is_not_there(hakmem: Command, pid: int, tmp_path: Path) -> None:
    outcome = hakmem("stats", str(pid), "-o", tmp_path / "no" / "file")
    assert outcome.status == 1
    assert "cannot write" in outcome.error_line()


@pytest.mark.parametrize("ending_seconds", [0.0, 0.3])
def test_watch_goes_on_until_the_process_ends(hakmem: Command, ending_seconds: float) -> None:
    program = Program(STATISTICS, lifetime_seconds=ENDS_SOON_S, tidy=True, ending_seconds=ending_seconds)
    with running(program) as process:
        outcome = hakmem("stats", str(process.pid), "--json", "--watch", "0.1")
    assert outcome.status == 0
    documents = [json.loads(line) for line in outcome.stdout.splitlines()]
    assert len(documents) > 2
    assert outcome.error_line().endswith("has ended")


@pytest.mark.parametrize("tidy", [True, False])
def test_a_collector_finds_no_figures_of_a_process_that_has_ended(
    hakmem: Command, tmp_path: Path, *, tidy: bool
) -> None:
    file = tmp_path / "hakmem.prom"
    with running(Program(STATISTICS, lifetime_seconds=ENDS_SOON_S, tidy=tidy)) as process:
        outcome = hakmem("stats", str(process.pid), "--prometheus", "--watch", "0.1", "-o", file)
    assert outcome.status == 0, outcome
    assert f"'{file}' is removed" in outcome.stderr
    assert not file.exists()


def test_a_collectors_file_may_be_a_link(hakmem: Command, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "file")
    with running(Program(STATISTICS, lifetime_seconds=ENDS_SOON_S, tidy=True)) as process:
        arguments = ("--prometheus", "--watch", "0.1", "-o", tmp_path / "link")
        outcome = hakmem("stats", str(process.pid), *arguments)
    assert outcome.status == 0, outcome
    assert not (tmp_path / "file").exists()
    assert (tmp_path / "link").is_symlink()


def test_a_watch_that_never_began_removes_nothing(hakmem: Command, tmp_path: Path) -> None:
    file = tmp_path / "of_another"
    file.write_text("before\n")
    outcome = hakmem("stats", "4194305", "--prometheus", "--watch", "0.1", "-o", file)
    assert outcome.status == 1
    assert "there is no process 4194305" in outcome.error_line()
    assert file.read_text() == "before\n"


def test_a_file_of_a_folder_that_is_closed_is_emptied_at_the_end(hakmem: Command, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    file = folder / "hakmem.prom"
    file.touch()
    folder.chmod(0o555)
    drop = ("setpriv", "--bounding-set=-dac_override,-dac_read_search") if os.geteuid() == 0 else ()
    watcher = Command([*drop, *hakmem.arguments], hakmem.environment)
    with running(Program(STATISTICS, lifetime_seconds=ENDS_SOON_S, tidy=True)) as process:
        outcome = watcher("stats", str(process.pid), "--prometheus", "--watch", "0.1", "-o", file)
    folder.chmod(0o755)
    assert outcome.status == 0, outcome
    assert "is emptied" in outcome.stderr
    assert file.read_text() == ""


def test_what_is_no_file_stays_at_the_end(hakmem: Command, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, 1 << 20)  # nobody reads
    with running(Program(STATISTICS, lifetime_seconds=ENDS_SOON_S, tidy=True)) as process:
        outcome = hakmem("stats", str(process.pid), "--prometheus", "--watch", "0.5", "-o", pipe)
    os.close(reader)
    assert outcome.status == 0, outcome
    assert pipe.is_fifo()


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_without_a_standard_stream(hakmem: Command, pid: int, tmp_path: Path, closed: str) -> None:
    file = tmp_path / "statistics"
    for arguments in (["stats", str(pid)], ["stats", str(pid), "-o", str(file)], ["options"]):
        done = subprocess.run(
            ["sh", "-c", f'exec "$@" {closed}', "sh", *hakmem.arguments, *arguments],
            env=hakmem.environment,
            capture_output=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, b""), arguments
    assert "memory" in file.read_text()
