"""What is asked of a process that ends between two questions."""

import subprocess
from collections.abc import Iterator

import pytest
from hakmem.inside.process import Process, look_up


@pytest.fixture
def child() -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        yield process


def _started(child: "subprocess.Popen[bytes]") -> Process:
    found = look_up(child.pid)
    assert found is not None
    return found


def test_one_that_runs_has_its_memory(child: "subprocess.Popen[bytes]") -> None:
    process = _started(child)
    assert not process.has_let_go_of_its_memory()
    assert not process.ends_within(0)


def test_one_that_has_ended_has_let_go_of_its_memory(child: "subprocess.Popen[bytes]") -> None:
    """Whether or not it was waited for meanwhile."""
    process = _started(child)
    child.kill()
    assert process.ends_within(60)
    assert process.has_let_go_of_its_memory()
    child.wait()
    assert process.ends_within(0)
    assert process.has_let_go_of_its_memory()
