"""`hakmem ps`: which processes run on HAKMEM, and which have left figures behind."""

import json
import os
import pwd
import time
from pathlib import Path

import pytest

from tests.live_path import live_path

from .command import Command, Outcome
from .live_file import HEADER, Program, crashed, running, running_in_container, sample_statistics

SMALL = Program(sample_statistics(program="small"))


def line_of(outcome: Outcome, pid: int) -> list[str]:
    (line,) = (line for line in outcome.stdout.splitlines() if line.split()[0] == str(pid))
    return line.split()


def test_each_has_a_line_with_what_it_takes(hakmem: Command) -> None:
    with running(SMALL) as process:
        outcome = hakmem("ps")
    assert outcome.status == 0
    cells = line_of(outcome, process.pid)
    assert cells[1:5] == ["5.0", "MiB", "7.0", "MiB"]
    assert cells[6] in ("MiB", "KiB")
    assert cells[-2:] == [pwd.getpwuid(os.geteuid()).pw_name, "small"]


def test_figures_that_the_process_has_outlived_are_told_apart(hakmem: Command) -> None:
    statistics = sample_statistics(program="shrunk")
    statistics["memory"]["heap_resident_bytes"] = 3 << 40
    with running(Program(statistics)) as process:
        cells = line_of(hakmem("ps"), process.pid)
    assert cells[1:7] == ["then", "5.0", "MiB", "then", "3.0", "TiB"]


def test_who_takes_most_comes_first(hakmem: Command) -> None:
    with running(SMALL), running(SMALL):
        entries = json.loads(hakmem("ps", "--json").stdout)
    sizes = [entry["process_resident_bytes"] for entry in entries]
    assert len(sizes) >= 2
    assert sizes == sorted(sizes, reverse=True)


def test_json(hakmem: Command) -> None:
    with running(SMALL) as process:
        entries = json.loads(hakmem("ps", "--json").stdout)
        (entry,) = (entry for entry in entries if entry["pid"] == process.pid)
    assert (entry["program"], entry["ended"]) == ("small", False)
    assert (entry["live_bytes"], entry["heap_resident_bytes"]) == (5 << 20, 7 << 20)
    assert entry["process_resident_bytes"] > 1 << 20


def test_those_that_have_ended_are_apart(hakmem: Command) -> None:
    with crashed(SMALL) as pid, running(SMALL) as process:
        ended = hakmem("ps", "--ended")
        assert "ended" in line_of(ended, pid)
        assert "small" in line_of(ended, pid)
        numbers = [entry["pid"] for entry in json.loads(hakmem("ps", "--ended", "--json").stdout)]
        assert process.pid not in numbers
        assert pid not in [entry["pid"] for entry in json.loads(hakmem("ps", "--json").stdout)]


def test_one_that_ended_normally_and_could_not_remove_its_file_has_left_nothing(hakmem: Command) -> None:
    with crashed(SMALL) as pid:
        with live_path(pid).open("rb+") as file:
            file.seek(112)
            file.write(b"\1")
        assert pid not in [entry["pid"] for entry in json.loads(hakmem("ps", "--ended", "--json").stdout)]
        assert f"there is no process {pid}" in hakmem("stats", str(pid)).error_line()


def test_a_number_that_was_given_to_another_process_is_of_one_that_has_ended(hakmem: Command) -> None:
    with running(Program(sample_statistics(program="before"), start_ticks=1)) as process:
        assert "before" in line_of(hakmem("ps", "--ended"), process.pid)
        assert process.pid not in [entry["pid"] for entry in json.loads(hakmem("ps", "--json").stdout)]


def test_what_is_damaged_hides_no_other(hakmem: Command) -> None:
    with running(Program(text="{")) as damaged, running(Program(magic="SOMETHIN")), running(SMALL) as process:
        live_path(0).write_bytes(b"")  # of nobody, and empty
        outcome = hakmem("ps")
        ended = hakmem("ps", "--ended")
        live_path(0).unlink()
    assert outcome.status == 0
    assert line_of(outcome, process.pid)
    assert f"'{live_path(damaged.pid)}'" in outcome.stderr
    assert ended.status == 0


@pytest.mark.parametrize(
    "text",
    [
        '{"schema":1,"memory":{"live_bytes":1' + "0" * 4000 + "}}",
        '{"schema":1,"a":' + "[" * 30000 + "]" * 30000 + "}",
        '{"schema":1,"a":' + "[" * 400 + "]" * 400 + "}",
        '{"schema":"\\u001b]0;title\\u0007\\nhakmem: all is well"}',
    ],
    ids=["large", "deep", "less_deep", "escapes"],
)
def test_what_anybody_may_publish_ends_no_list(hakmem: Command, text: str) -> None:
    with running(Program(text=text)) as other, running(SMALL) as process:
        outcome = hakmem("ps")
    assert outcome.status == 0
    assert line_of(outcome, process.pid)
    assert "\x1b" not in outcome.stdout + outcome.stderr
    for line in outcome.stderr.splitlines():
        assert line.startswith("hakmem: process ")
    assert str(other.pid) in outcome.stdout + outcome.stderr


def test_a_sparse_file_is_not_read_as_a_whole(hakmem: Command) -> None:
    number = 4194305  # no process can have it
    path = live_path(number)
    now_ms = int(time.time() * 1000)  # what seems to be an hour old, any program may remove meanwhile
    with path.open("wb") as file:
        file.write(HEADER.pack(b"HAKLIVE1", number, 0xFFFFFFFF, 1, 0, 2 << 30, 0, 1, now_ms, *[0] * 8))
        file.truncate(3 << 30)
    try:
        outcome = hakmem("ps", "--ended")
    finally:
        path.unlink()
    assert outcome.status == 0
    assert "its header is damaged" in outcome.stderr


def test_a_process_in_a_container(hakmem: Command, tmp_path: Path) -> None:
    with running_in_container(SMALL, tmp_path) as pid:
        assert "small" in line_of(hakmem("ps"), pid)
