"""Options of the environment, as a user of a real program meets them."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from .builder import Builder
from .conftest import REPOSITORY
from .harness import Finished, Runner, required_program

SMALL_RUN = [
    sys.executable,
    "-c",
    "import json; d = {str(i): list(range(i % 50)) for i in range(20000)}; "
    "s = json.dumps(d); assert json.loads(s) == d; print(len(s))",
]
SET_DECAY_MS = 100
RETAINED_MOST = 1 << 30
INCLUDE = f"-I{REPOSITORY}/include"
ON_MALLOC = {"PYTHONMALLOC": "malloc"}
OPEN_DESCRIPTORS = [sys.executable, "-c", "import os; print(os.listdir('/proc/self/fd'))"]
# What HAKMEM_..._FILE names the file of, and what it needs beside that.
REPORTS: dict[str, dict[str, str]] = {"STATS": {}, "PROF": {"HAKMEM_PROF": "1"}}


def test_forced_libc_gives_the_same_result_and_is_logged(runner: Runner) -> None:
    plain = runner.run_plain(SMALL_RUN, env=ON_MALLOC)
    forced = runner.run(
        SMALL_RUN,
        env={**ON_MALLOC, "HAKMEM_FORCE_LIBC_ALLOC": "1", "HAKMEM_WRAP_DIAG": "1"},
        proven=False,
        may_speak=True,
    )
    assert forced.stdout == plain.stdout, forced
    assert forced.library_lines, f"HAKMEM_WRAP_DIAG=1 logged nothing\n{forced}"
    assert any("libc" in line for line in forced.library_lines), forced


def test_forced_libc_is_asked_about_its_own_heap(runner: Runner, builder: Builder) -> None:
    program = builder.program("c/heap_of_libc.c")
    runner.run([program], env={"HAKMEM_FORCE_LIBC_ALLOC": "1"}, proven=False)


def test_diagnostics_alone_change_no_result(runner: Runner) -> None:
    plain = runner.run_plain(SMALL_RUN, env=ON_MALLOC)
    logged = runner.run(SMALL_RUN, env={**ON_MALLOC, "HAKMEM_WRAP_DIAG": "1"}, may_speak=True)
    assert logged.stdout == plain.stdout, logged


def test_statistics_appear_on_stderr_at_exit(runner: Runner) -> None:
    plain = runner.run_plain(SMALL_RUN, env=ON_MALLOC)
    counted = runner.run(SMALL_RUN, env={**ON_MALLOC, "HAKMEM_STATS": "1"}, proven=False, may_speak=True)
    assert counted.stdout == plain.stdout, counted
    lines = counted.stderr.decode().splitlines()
    assert 3 <= len(lines) <= 80, f"expected one screen of statistics\n{counted}"
    assert "hakmem" in lines[0].lower(), counted


def test_statistics_appear_from_a_program_that_closes_stderr(runner: Runner) -> None:
    # The tools of coreutils close their standard streams in an atexit handler, before libraries end.
    counted = runner.run(
        [required_program("ls"), "/"], env={"HAKMEM_STATS": "1"}, proven=False, may_speak=True
    )
    assert b"hakmem" in counted.stderr.lower(), counted


def test_statistics_appear_from_a_program_that_closes_what_is_not_its_own(runner: Runner) -> None:
    # As daemons do, and others before they become another program.
    counted = runner.run(
        [sys.executable, "-c", "import os; os.closerange(3, 4096)"],
        env={"HAKMEM_STATS": "1"},
        proven=False,
        may_speak=True,
    )
    assert b"hakmem" in counted.stderr.lower(), counted


def test_a_report_to_a_file_opens_nothing_that_the_program_would_see(runner: Runner, tmp_path: Path) -> None:
    plain = runner.run_plain(OPEN_DESCRIPTORS)
    files = {
        **{"HAKMEM_STATS": "1", "HAKMEM_STATS_FILE": str(tmp_path / "stats"), "HAKMEM_STATS_SIGNAL": "12"},
        **{"HAKMEM_PROF": "1", "HAKMEM_PROF_FILE": str(tmp_path / "profile"), "HAKMEM_PROF_SIGNAL": "10"},
    }
    assert runner.run(OPEN_DESCRIPTORS, env=files, proven=False).stdout == plain.stdout


@pytest.mark.parametrize("name", ["nowhere/report", "folder", "pipe", "link", "/dev/full"])
def test_a_file_that_cannot_be_written_is_told_by_a_program_that_closes_stderr(
    runner: Runner, tmp_path: Path, name: str
) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/nowhere/report")
    for kind, settings in REPORTS.items():
        told = runner.run(
            [required_program("seq"), "1", "3"],
            env={**settings, f"HAKMEM_{kind}_FILE": str(tmp_path / name)},
            proven=False,
            may_speak=True,
        )
        assert told.stdout == b"1\n2\n3\n", told
        assert f"HAKMEM_{kind}_FILE".encode() in told.stderr, told
        assert str(tmp_path / name).encode() in told.stderr, told


def test_what_is_to_go_to_stderr_goes_there_from_a_program_that_closes_it(runner: Runner) -> None:
    for kind, settings in REPORTS.items():
        told = runner.run(
            [required_program("seq"), "1", "3"],
            env={**settings, f"HAKMEM_{kind}_FILE": "/dev/stderr"},
            proven=False,
            may_speak=True,
        )
        assert told.stderr.startswith((b"hakmem ", b"heap profile: ")), told
        assert f"HAKMEM_{kind}_FILE".encode() not in told.stderr, told


def test_where_few_descriptors_are_allowed_a_file_that_cannot_be_written_is_told(runner: Runner) -> None:
    command = [required_program("bash"), "-c", "ulimit -n 100; exec seq 1 3"]
    told = runner.run(command, env={"HAKMEM_STATS_FILE": "/nowhere/report"}, proven=False, may_speak=True)
    assert b"HAKMEM_STATS_FILE: /nowhere/report" in told.stderr, told


def test_a_report_to_what_is_no_file_but_takes_all_opens_nothing(runner: Runner) -> None:
    plain = runner.run_plain(OPEN_DESCRIPTORS)
    shown = runner.run(OPEN_DESCRIPTORS, env={"HAKMEM_STATS_FILE": "/dev/null"}, proven=False)
    assert shown.stdout == plain.stdout


@pytest.mark.parametrize(("name", "number"), [("/dev/stdout", 1), ("/dev/stderr", 2), ("log", 2)])
def test_a_report_to_a_stream_of_the_programs_comes_behind_what_is_there(
    runner: Runner, tmp_path: Path, name: str, number: int
) -> None:
    log = tmp_path / "log"
    log.write_text("old\n")
    runner.run(
        [required_program("bash"), "-c", f'exec {number}>>"$0"; exec bash -c "echo new >&{number}"', log],
        env={"HAKMEM_STATS_FILE": str(tmp_path / name)},
        proven=False,
        may_speak=True,
    )
    assert log.read_text().startswith("old\nnew\nhakmem "), log.read_text()


def test_a_name_that_is_too_long_with_the_process_id_is_no_other_file(runner: Runner, tmp_path: Path) -> None:
    folder = tmp_path
    while len(str(folder)) < 1000 - 100:
        folder = folder / ("d" * 90)
    folder.mkdir(parents=True)
    name = str(folder / "f").ljust(1021, "f")  # with "%p" as long as a setting may be
    for kind, settings in REPORTS.items():
        told = runner.run(
            [sys.executable, "-c", "pass"],
            env={**settings, f"HAKMEM_{kind}_FILE": f"{name}%p"},
            proven=False,
            may_speak=True,
        )
        assert f"HAKMEM_{kind}_FILE: {name}".encode() in told.stderr, told
        assert b"File name too long" in told.stderr, told
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("setting", ["STATS=1", "STATS_SIGNAL=9", "PROF_SIGNAL=9", "PROF_LEAKS=1"])
def test_main_begins_with_no_error(runner: Runner, builder: Builder, setting: str) -> None:
    name, value = setting.split("=")
    program = builder.program("c/error_at_start.c")
    runner.run(
        [required_program("bash"), "-c", 'exec "$0" 2>&-', program],
        env={f"HAKMEM_{name}": value},
        proven=False,
        may_speak=True,
    )


@pytest.mark.parametrize("stderr", ["", "2>/dev/null", "2>&-"])
@pytest.mark.parametrize("file", ["/nowhere/report", "/dev/stderr", "/dev/fd/2", "/proc/self/fd/2"])
def test_a_file_of_the_programs_own_in_the_place_of_stderr_stays_as_it_is(
    runner: Runner, tmp_path: Path, file: str, stderr: str
) -> None:
    own = tmp_path / "own"
    takes_its_place = (
        "import os\nfor fd in range(2, 9):\n    try: os.close(fd)\n    except OSError: pass\n"
        f"assert os.open({str(own)!r}, os.O_WRONLY | os.O_CREAT, 0o600) == 2\nos.write(2, b'mine')"
    )
    runner.run(
        [required_program("bash"), "-c", f'exec "$0" -c "$1" {stderr}', sys.executable, takes_its_place],
        env={
            "HAKMEM_STATS_FILE": file,
            "HAKMEM_PROF": "1",
            "HAKMEM_PROF_FILE": file,
        },
        proven=False,
        may_speak=True,
    )
    assert own.read_bytes() == b"mine"


def test_bad_option_value_gives_one_line_and_the_default(runner: Runner) -> None:
    plain = runner.run_plain(SMALL_RUN, env=ON_MALLOC)
    warned = runner.run(SMALL_RUN, env={**ON_MALLOC, "HAKMEM_RETAIN_MIN": "banana"}, may_speak=True)
    assert warned.stdout == plain.stdout, warned
    lines = warned.stderr.decode().splitlines()
    assert len(lines) == 1, f"expected one line on stderr\n{warned}"
    assert "HAKMEM_RETAIN_MIN" in lines[0] and "banana" in lines[0], warned
    assert "64K or 4M, at most 128T" in lines[0], warned


def test_who_takes_the_profile_of_settings_for_one_of_the_heap_is_told_of_the_other(runner: Runner) -> None:
    warned = runner.run(SMALL_RUN, env={**ON_MALLOC, "HAKMEM_PROFILE": "1"}, may_speak=True)
    (line,) = warned.stderr.decode().splitlines()
    assert "HAKMEM_PROFILE=1: expected balanced, speed or memory" in line, warned
    assert "heap profiles: HAKMEM_PROF=1" in line, warned


def test_a_name_too_long_for_a_file_gives_one_line(runner: Runner) -> None:
    warned = runner.run(SMALL_RUN, env={**ON_MALLOC, "HAKMEM_PROF_FILE": "n" * 1024}, may_speak=True)
    (line,) = warned.stderr.decode().splitlines()
    assert "HAKMEM_PROF_FILE=nnn" in line and line.endswith("expected fewer than 1024 characters; ignored")


def test_a_value_of_several_lines_gives_one_line(runner: Runner) -> None:
    value = "8M\nhakmem: all is well\x1b[2J\x7f"
    warned = runner.run(SMALL_RUN, env={**ON_MALLOC, "HAKMEM_RETAIN_MIN": value}, may_speak=True)
    (line,) = warned.stderr.decode().splitlines()
    assert "HAKMEM_RETAIN_MIN=8M?hakmem: all is well?[2J?: expected" in line


@pytest.mark.parametrize("name", ["HAKMEM_RETAIN_MINI", "HAKMEM_retain_min", "HAKMEM_Stats"])
def test_a_misspelt_name_gives_one_line(runner: Runner, name: str) -> None:
    warned = runner.run(SMALL_RUN, env={**ON_MALLOC, name: "1"}, may_speak=True)
    (line,) = warned.stderr.decode().splitlines()
    assert f"environment: {name}: no such option" in line


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGFPE, signal.SIGABRT, signal.SIGKILL])
@pytest.mark.parametrize("kind", REPORTS)
def test_a_signal_that_cannot_be_had_gives_one_line_and_stays_what_it_is(
    runner: Runner, kind: str, number: int
) -> None:
    ended = runner.run(
        [sys.executable, "-c", f"import os; os.kill(os.getpid(), {int(number)})"],
        env={f"HAKMEM_{kind}_SIGNAL": str(int(number))},
        status=-number,
        proven=False,
        may_speak=True,
    )
    (line,) = ended.stderr.decode().splitlines()
    assert f"HAKMEM_{kind}_SIGNAL: this signal cannot be used for that (10, SIGUSR1, can); ignored" in line


def test_one_signal_for_two_things_gives_one_line(runner: Runner) -> None:
    both = {"HAKMEM_STATS_SIGNAL": "10", "HAKMEM_PROF_SIGNAL": "10"}
    warned = runner.run(SMALL_RUN, env={**ON_MALLOC, **both}, may_speak=True)
    (line,) = warned.stderr.decode().splitlines()
    assert "HAKMEM_PROF_SIGNAL: this signal is that of HAKMEM_STATS_SIGNAL; ignored" in line


def test_a_program_with_more_rights_than_its_user_takes_no_settings_of_his(
    runner: Runner, builder: Builder, tmp_path: Path
) -> None:
    wanted = [tmp_path / "statistics", tmp_path / "profile"]
    settings = {
        "HAKMEM_STATS_FILE": str(wanted[0]),
        "HAKMEM_PROF": "1",
        "HAKMEM_PROF_FILE": str(wanted[1]),
        "HAKMEM_RETAIN_MIN": "banana",
    }
    command = [required_program("seq"), "1", "3"]
    runner.run(command, env=settings, proven=False, may_speak=True)
    assert all(path.is_file() for path in wanted)
    for path in wanted:
        path.unlink()
    secure = builder.plugin("c/secure_execution.c")
    runner.run(command, env={**settings, "LD_PRELOAD": f"{secure}:{runner.library}"}, proven=False)
    assert not any(path.exists() for path in wanted)


def options_in(finished: Finished) -> dict[str, tuple[str, str]]:
    """Of each option that the program printed, its value and where it came from."""
    lines = [line.split() for line in finished.text.splitlines()]
    return {name: (value, source) for name, value, source in lines}


def test_what_the_program_sets_while_all_is_kept_stays(runner: Runner, builder: Builder) -> None:
    finished = runner.run([builder.program("c/option_set_while_kept.c")])
    options = options_in(finished)
    assert options["decay_ms"] == (str(SET_DECAY_MS), "api"), finished
    retain_min, source = options["retain_min"]
    assert int(retain_min) <= RETAINED_MOST and source == "default", finished


@pytest.mark.parametrize(
    ("name", "value"), [("HAKMEM_RETAIN_MIN", "2816K"), ("HAKMEM_DECAY_MS", "500"), ("HAKMEM_DECAY_MS", "7")]
)
def test_what_the_user_sets_stays_when_the_program_asks_to_keep_all(
    runner: Runner, builder: Builder, name: str, value: str
) -> None:
    program = builder.program("c/options_of_the_program.c")
    asked: list[str | Path] = [program, "keep", "retain_min", "decay_ms"]
    kept = options_in(runner.run(asked))
    assert kept["retain_min"][1] == kept["decay_ms"][1] == "api", kept
    plain = options_in(runner.run([program, "-", "retain_min", "decay_ms"], env={name: value}))
    assert options_in(runner.run(asked, env={name: value})) == plain


def test_a_program_that_is_preloaded_has_settings_of_its_own(runner: Runner, builder: Builder) -> None:
    sets = '-DPROGRAM_SETS="profile=memory, retain_percent=7"'
    # As many projects build: what is not said to be exported is not.
    flags = ("-rdynamic", "-fvisibility=hidden", INCLUDE, sets)
    program = builder.program("c/options_of_the_program.c", *flags, suffix="_sets")
    asked: list[str | Path] = [program, "-", "profile", "retain_percent", "retain_grace", "reclaim"]
    assert options_in(runner.run(asked)) == {
        "profile": ("memory", "hakmem_conf"),
        "retain_percent": ("7", "hakmem_conf"),
        "retain_grace": ("0", "profile"),
        "reclaim": ("1", "default"),
    }
    of_the_user = {"HAKMEM_PROFILE": "balanced", "HAKMEM_RETAIN_PERCENT": "9"}
    options = options_in(runner.run(asked, env=of_the_user))
    assert options["profile"] == ("balanced", "environment")
    assert options["retain_percent"] == ("9", "environment")
    assert options["retain_grace"][1] == "default"


# The shorter ones, with the zeros behind them, are addresses that a pointer might have.
@pytest.mark.parametrize("text", ["retain_min=8M", "stats=1", "live=0", "prof"])
def test_a_program_may_have_something_else_of_that_name(runner: Runner, builder: Builder, text: str) -> None:
    program = builder.program("c/conf_of_another_kind.c", "-rdynamic", f'-DTEXT="{text}"', suffix=f"_{text}")
    finished = runner.run([program], may_speak=True)
    [line] = finished.library_lines
    assert "hakmem_conf" in line and "const char *" in line, finished


@pytest.mark.parametrize("name", ["PROFILE", "RETAIN_MIN"])
def test_a_bad_value_leaves_what_else_was_set(runner: Runner, builder: Builder, name: str) -> None:
    sets = '-DPROGRAM_SETS="profile=speed"'
    program = builder.program("c/options_of_the_program.c", "-rdynamic", INCLUDE, sets, suffix="_is_fast")
    asked: list[str | Path] = [program, "-", "profile", "retain_min"]
    finished = runner.run(asked, env={f"HAKMEM_{name}": "banana"}, may_speak=True)
    assert options_in(finished) == options_in(runner.run(asked)), finished
    [line] = finished.library_lines
    assert f"HAKMEM_{name}" in line and "banana" in line and line.endswith("; ignored"), finished
