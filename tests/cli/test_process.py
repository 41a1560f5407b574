"""What is asked of a process that ends between two questions."""

import errno
import importlib
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from hakmem.errors import HakmemError
from hakmem.inside.live_file import Kind
from hakmem.inside.process import Process, look_up
from hakmem.inside.target import Target

from .command import REPOSITORY, Command
from .live_file import ENDS_SOON_S, Program, running, sample_statistics

# The command, where the kernel or a sandbox refuses to tell of the end of processes.
UNTOLD = """
import errno, os, hakmem.cli
def refuse(pid, flags=0):
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
os.pidfd_open = refuse
hakmem.cli.main()
"""


@pytest.fixture(params=[None, errno.EPERM, errno.ENOSYS])
def _told(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(pid: int) -> int:
        raise OSError(request.param, os.strerror(request.param))

    if request.param:
        monkeypatch.setattr(os, "pidfd_open", refuse)


@pytest.fixture
def untold(hakmem: Command) -> Command:
    return Command([str(REPOSITORY / ".venv/bin/python"), "-c", UNTOLD], hakmem.environment)


@pytest.fixture
def child() -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        yield process


def _started(child: "subprocess.Popen[bytes]") -> Process:
    found = look_up(child.pid)
    assert found is not None
    return found


@pytest.mark.usefixtures("_told")
def test_one_that_runs_has_its_memory(child: "subprocess.Popen[bytes]") -> None:
    process = _started(child)
    assert not process.has_let_go_of_its_memory()
    assert not process.ends_within(0)


@pytest.mark.usefixtures("_told")
def test_one_that_has_ended_has_let_go_of_its_memory(child: "subprocess.Popen[bytes]") -> None:
    """Whether or not it was waited for meanwhile."""
    process = _started(child)
    child.kill()
    assert process.ends_within(60)
    assert process.has_let_go_of_its_memory()
    child.wait()
    assert process.ends_within(0)
    assert process.has_let_go_of_its_memory()


def test_the_end_is_seen_where_nobody_tells_of_it(untold: Command) -> None:
    with running(Program(sample_statistics(), lifetime_seconds=ENDS_SOON_S, tidy=True)) as process:
        outcome = untold("top", "--interval", "0.1", str(process.pid))
    assert (outcome.status, outcome.stderr) == (0, "")
    assert "has ended" in outcome.stdout.splitlines()[-1]
    outcome = untold("top", "--interval", "0.1", "--", sys.executable, "-c", "raise SystemExit(7)")
    assert (outcome.status, outcome.stderr) == (7, "")
    outcome = untold("versus", "--polling", "--runs", "1", "sh", "-c", "exit 7")
    assert (outcome.status, outcome.stderr) == (7, "")


def test_one_that_ends_once_it_has_collected_has_not_given_all_back(monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("hakmem.commands.collect")
    with running(Program(sample_statistics())) as process:

        def ask(target: Target, kind: Kind, wait: float) -> None:
            process.kill()
            process.wait()

        monkeypatch.setattr(module, "ask", ask)
        with pytest.raises(HakmemError, match=f"process {process.pid} .* has ended since it answered"):
            module.collect.callback(pid=process.pid, wait=1.0)
