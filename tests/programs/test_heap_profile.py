"""Heap profiles of real programs, read with the tools that users read them with."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .builder import Builder
from .harness import Finished, Runner, required_program

LEAKED_MB = 20.0
PASSED_MB = 200.0
LATER_MB = 20.0
# 64 KiB between samples: 305 samples of the leak, so that five standard deviations are 29 %.
INTERVAL = {"HAKMEM_PROF_INTERVAL": "64K"}
TOLERANCE = 0.30
FILES = {"HAKMEM_PROF_FILE": "profile.%p.%n"}
PROFILED = {"HAKMEM_PROF": "1", **INTERVAL, **FILES}
MB_PER_UNIT = {"B": 1e-6, "kB": 1.024e-3, "MB": 1.048576, "GB": 1073.741824}


def go() -> str:
    # Go's own packages put it where no PATH leads.
    return shutil.which("go", path="/usr/local/go/bin") or required_program("go")


def profiles_of(finished: Finished, directory: Path) -> list[Path]:
    """The files that the program left, in the order of their numbers."""
    return sorted(
        directory.glob(f"profile.{finished.pid}.*"), key=lambda path: int(path.suffix.removeprefix("."))
    )


def top(program: Path, profile: Path, *, cumulative: bool = False) -> dict[str, float]:
    """What `go tool pprof -top` says: MB by function, largest first."""
    index = ["-sample_index=alloc_space"] if cumulative else ["-sample_index=inuse_space"]
    command = [go(), "tool", "pprof", "-top", "-nodecount=100", *index, str(program), str(profile)]
    run = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PPROF_TMPDIR": str(profile.parent)},
    )
    assert run.returncode == 0, f"{command}\n{run.stdout}{run.stderr}"
    table: dict[str, float] = {}
    for line in run.stdout.splitlines():
        match = re.fullmatch(r" *([0-9.]+)([kMG]?B)? +\S+ +\S+ +\S+ +\S+ +(.+)", line)
        if match:
            table[match[3]] = float(match[1]) * MB_PER_UNIT.get(match[2], 0)
    assert table, run.stdout
    return table


@pytest.fixture
def planted(builder: Builder) -> Path:
    return builder.program("c/planted_profile.c")


def test_pprof_shows_the_planted_leak_on_top(runner: Runner, planted: Path, tmp_path: Path) -> None:
    finished = runner.run([planted], env=PROFILED)
    (profile,) = profiles_of(finished, tmp_path)
    live = top(planted, profile)
    assert next(iter(live)) == "planted_leak", live
    assert live["planted_leak"] == pytest.approx(LEAKED_MB, rel=TOLERANCE)
    assert live.get("passing_by", 0) == 0, live


def test_pprof_shows_what_was_allocated_in_all(runner: Runner, planted: Path, tmp_path: Path) -> None:
    finished = runner.run([planted], env=PROFILED)
    (profile,) = profiles_of(finished, tmp_path)
    allocated = top(planted, profile, cumulative=True)
    assert next(iter(allocated)) == "passing_by", allocated
    assert allocated["passing_by"] == pytest.approx(PASSED_MB, rel=TOLERANCE / 3)
    assert allocated["planted_leak"] == pytest.approx(LEAKED_MB, rel=TOLERANCE)


def test_nothing_is_written_unless_asked_for(runner: Runner, planted: Path, tmp_path: Path) -> None:
    for unasked in ({}, {"HAKMEM_PROF": "1", "HAKMEM_PROF_AT_EXIT": "0"}, {"HAKMEM_PROF_AT_EXIT": "1"}):
        finished = runner.run([planted], env={**FILES, **unasked})
        assert profiles_of(finished, tmp_path) == []


def test_a_signal_writes_a_profile_at_once(runner: Runner, planted: Path, tmp_path: Path) -> None:
    finished = runner.run(
        [planted, "signal"], env={**PROFILED, "HAKMEM_PROF_SIGNAL": "12", "HAKMEM_PROF_AT_EXIT": "0"}
    )
    profiles = profiles_of(finished, tmp_path)
    assert [path.suffix for path in profiles] == [".0", ".1"]
    assert next(iter(top(planted, profiles[0]))) == "planted_leak"


def test_a_new_peak_writes_a_profile(runner: Runner, planted: Path, tmp_path: Path) -> None:
    finished = runner.run([planted, "peak"], env={**INTERVAL, **FILES, "HAKMEM_PROF_PEAK": "1"})
    profiles = profiles_of(finished, tmp_path)
    assert len(profiles) >= 2, "one when a second was over, and one at exit"
    last = top(planted, profiles[-1])
    assert last["planted_leak"] == pytest.approx(LEAKED_MB, rel=TOLERANCE)
    assert "later_peak" in last


def test_a_peak_after_which_nothing_is_allocated_is_written_at_exit(
    runner: Runner, planted: Path, tmp_path: Path
) -> None:
    finished = runner.run([planted], env={**INTERVAL, **FILES, "HAKMEM_PROF_PEAK": "1"})
    live = top(planted, profiles_of(finished, tmp_path)[-1])
    assert live["planted_leak"] == pytest.approx(LEAKED_MB, rel=TOLERANCE)


def test_a_peak_that_was_held_is_written_when_it_falls(runner: Runner, planted: Path, tmp_path: Path) -> None:
    finished = runner.run([planted, "held"], env={**INTERVAL, **FILES, "HAKMEM_PROF_PEAK": "1"})
    live = top(planted, profiles_of(finished, tmp_path)[0])
    assert live["planted_leak"] == pytest.approx(LEAKED_MB, rel=TOLERANCE)
    assert live["later_peak"] == pytest.approx(LATER_MB, rel=TOLERANCE)


def test_a_program_started_by_exec_leaves_the_files_of_the_one_before(
    runner: Runner, planted: Path, tmp_path: Path
) -> None:
    finished = runner.run([planted, "exec"], env={**PROFILED, "HAKMEM_PROF_SIGNAL": "12"})
    profiles = profiles_of(finished, tmp_path)
    assert [path.suffix for path in profiles] == [".0", ".1"]


@pytest.mark.parametrize(("kind", "what"), [("pie", ""), ("no-pie", ""), ("pie", "hidden")])
def test_the_leak_report_names_the_call(runner: Runner, builder: Builder, kind: str, what: str) -> None:
    bound = "-Wl,-z,now"  # what binds symbols later would read what is hidden
    planted = builder.program("c/planted_profile.c", f"-f{kind}", f"-{kind}", bound, suffix=f".{kind}")
    finished = runner.run([planted, what], env={**INTERVAL, "HAKMEM_PROF_LEAKS": "1"}, may_speak=True)
    report = finished.stderr.decode()
    assert finished.library_lines, finished
    match = re.search(
        r"\n1\. about ([0-9.]+) MiB in \d+ blocks \(\d+ samples\)\n +0x\S+  (\S+)\+(0x\S+)", report
    )
    assert match, report
    assert float(match[1]) * 1.048576 == pytest.approx(LEAKED_MB, rel=TOLERANCE)
    assert Path(match[2]).name == planted.name
    where = subprocess.run(
        [required_program("addr2line"), "-f", "-e", match[2], match[3]],
        capture_output=True,
        text=True,
        check=True,
    )
    assert where.stdout.splitlines()[0] == "planted_leak", where.stdout


def test_a_file_that_cannot_be_written_is_one_line(runner: Runner, planted: Path) -> None:
    finished = runner.run([planted], env={**PROFILED, "HAKMEM_PROF_FILE": "/nowhere/%p"}, may_speak=True)
    assert len(finished.library_lines) == 1, finished
    assert f"/nowhere/{finished.pid}" in finished.library_lines[0], finished


def test_programs_that_are_sampled_throughout_give_the_same_result(runner: Runner, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-c",
        "import json, threading\n"
        "d = {str(i): list(range(i % 50)) for i in range(5000)}\n"
        "s = json.dumps(d)\n"
        "ts = [threading.Thread(target=json.loads, args=(s,)) for _ in range(4)]\n"
        "[t.start() for t in ts]; [t.join() for t in ts]\n"
        "assert json.loads(s) == d; print(len(s))",
    ]
    finished = runner.same_output(
        command, env={"PYTHONMALLOC": "malloc", "HAKMEM_PROF": "1", "HAKMEM_PROF_INTERVAL": "1", **FILES}
    )
    (profile,) = profiles_of(finished, tmp_path)
    assert profile.stat().st_size > 0
