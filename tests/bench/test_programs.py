"""The real programs: they run on the allocator that they should, are checked, and leave nothing behind."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.programs.job import Job, run_job
from bench.programs.program import Order, RunFailed

from ..cli.command import REPOSITORY, Command, Outcome

LIBRARY = REPOSITORY / "build/libhakmem.so"
MEBIBYTE = 1 << 20
# Each program with as little work as it takes.
SHORT_RUNS = {
    "cpython": ["--rounds", "1"],
    "redis": ["--requests", "300"],
    "sqlite": ["--entries", "2000"],
    "g++": ["--units", "1"],
    "clang++": ["--units", "1"],
    "rust": ["--lines", "500"],
    "node": ["--requests", "50"],
}
SCRATCH_NAMES = "hakmem-bench-*"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """What programs need of this one; their scratch folders are made in `tmp_path`."""
    kept = {name: os.environ[name] for name in ("HOME", "PATH", "XDG_CACHE_HOME") if name in os.environ}
    return {**kept, "TMPDIR": str(tmp_path), "PYTHONPATH": str(REPOSITORY)}


@pytest.fixture
def programs(environment: dict[str, str]) -> Command:
    return Command([sys.executable, "-m", "bench.programs"], environment)


def figures_of(outcome: Outcome) -> dict[str, object]:
    assert (outcome.status, outcome.stderr) == (0, "")
    (line,) = outcome.stdout.splitlines()
    figures = json.loads(line)
    assert isinstance(figures, dict)
    return figures


@pytest.mark.parametrize("name", SHORT_RUNS)
def test_program_gives_the_same_on_both_allocators(programs: Command, tmp_path: Path, name: str) -> None:
    ours = figures_of(programs(name, *SHORT_RUNS[name], "--verify", LD_PRELOAD=str(LIBRARY)))
    theirs = figures_of(programs(name, *SHORT_RUNS[name]))
    assert ours.keys() == theirs.keys()
    for figure in ("workload", "operations", "checksum"):
        assert ours.get(figure) == theirs.get(figure)
    for figures in (ours, theirs):
        assert figures["workload"] == name
        numbers = {key: value for key, value in figures.items() if isinstance(value, int | float)}
        assert {"operations", "seconds", "cpu_seconds", "minor_faults"} <= numbers.keys()
        assert min(numbers.values()) > 0
        assert MEBIBYTE < numbers["end_rss_bytes"] <= numbers["peak_rss_bytes"] < 1000 * MEBIBYTE
    assert not list(tmp_path.glob(SCRATCH_NAMES))


@pytest.mark.parametrize("name", SHORT_RUNS)
def test_program_must_run_on_the_library_that_is_named(programs: Command, tmp_path: Path, name: str) -> None:
    absent = tmp_path / "libabsent.so"
    outcome = programs(name, *SHORT_RUNS[name], LD_PRELOAD=str(absent))
    assert (outcome.status, outcome.stdout) == (1, "")
    # The dynamic linker complains first.
    assert outcome.stderr.splitlines()[-1].endswith(
        f"does not run on '{absent}', which LD_PRELOAD names: it was not loaded"
    )


@pytest.mark.parametrize(
    ("name", "command", "package"),
    [
        ("redis", "redis-server", "redis-server"),
        ("sqlite", "sqlite3", "sqlite3"),
        ("g++", "g++", "g++"),
        ("clang++", "clang++", "clang"),
        ("rust", "cargo", "cargo"),
        ("node", "node", "nodejs"),
    ],
)
def test_missing_program_is_named_with_its_package(
    programs: Command, tmp_path: Path, name: str, command: str, package: str
) -> None:
    outcome = programs(name, PATH=str(tmp_path))
    assert (outcome.status, outcome.stdout) == (77, "")
    assert outcome.error_line() == (
        f"{name}: {command} is not installed: run bench/programs/setup.sh, or install Debian's {package}"
    )


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "the following arguments are required: PROGRAM"),
        (["sqlite", "--entries", "0"], "give a whole number above 0, not '0'"),
        (["sqlite", "--entries", "many"], "give a whole number above 0, not 'many'"),
        (["sqlite", "--rows", "5"], "unrecognized arguments: --rows 5"),
    ],
)
def test_bad_arguments_are_refused_in_one_line(
    programs: Command, arguments: list[str], complaint: str
) -> None:
    outcome = programs(*arguments)
    assert (outcome.status, outcome.stdout) == (2, "")
    assert complaint in outcome.error_line()


def run_shell(script: str, scratch: Path, *, verify: bool) -> None:
    run_job(Job(command=("/bin/sh", "-c", script), operations=1), Order({}, scratch, verify))


def test_verify_finds_a_result_that_depends_on_the_allocator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_PRELOAD", str(LIBRARY))
    script = 'echo "sum ${LD_PRELOAD:-of libc}"'
    run_shell(script, tmp_path, verify=False)
    with pytest.raises(RunFailed, match="differs from that of the same run on the system's malloc"):
        run_shell(script, tmp_path, verify=True)


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ("echo first >&2; echo last >&2; exit 3", "sh ended with exit status 3: last"),
        ("kill -SEGV $$", "sh was killed by SIGSEGV"),
        ("true", "it left no result"),
    ],
)
def test_program_that_fails_is_a_failure(tmp_path: Path, script: str, complaint: str) -> None:
    with pytest.raises(RunFailed) as failure:
        run_shell(script, tmp_path, verify=False)
    assert str(failure.value) == complaint


def servers_under(folder: Path) -> list[int]:
    """The processes, other than dead ones, whose working folder is below `folder`."""
    found = []
    for link in Path("/proc").glob("[0-9]*/cwd"):
        try:
            if link.resolve(strict=True).is_relative_to(folder):
                found.append(int(link.parent.name))
        except OSError:  # gone, dead, or somebody else's
            continue
    return found


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_stopped_run_leaves_no_server_behind(
    environment: dict[str, str], tmp_path: Path, number: signal.Signals
) -> None:
    command = [sys.executable, "-m", "bench.programs", "redis", "--requests", "100000000"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as runner:
        # The server, and the benchmark once the server is ready.
        wait_until(lambda: len(servers_under(tmp_path)) >= 2)
        runner.send_signal(number)
        complaint = runner.communicate(timeout=60)[1]
    wait_until(lambda: not servers_under(tmp_path))
    if number == signal.SIGTERM:
        assert (runner.returncode, complaint) == (130, "redis: interrupted\n")
        assert not list(tmp_path.glob(SCRATCH_NAMES))


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "still not so after a minute"
        time.sleep(0.02)


def test_setup_says_what_to_install_where_it_may_not(tmp_path: Path) -> None:
    for tool in ("sh", "sort", "tr", "sed", "id"):
        (tmp_path / tool).symlink_to(str(shutil.which(tool)))
    outcome = Command(["/bin/sh", str(REPOSITORY / "bench/programs/setup.sh")], {"PATH": str(tmp_path)})()
    assert (outcome.status, outcome.stdout) == (1, "")
    assert outcome.error_line().endswith(
        "sudo apt-get install cargo clang g++ nodejs redis-server redis-tools rustc sqlite3 util-linux"
    )
