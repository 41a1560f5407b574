"""`hakmem compare --plot`: the picture of memory over time."""

import json
import signal
import sys
from pathlib import Path

import pytest

from tests.fake_allocators import cache_fake

from .command import Command
from .conftest import Compile

# Holds 50 MiB in a child, for longer than the first looks are apart.
HOLD_IN_A_CHILD = """
import os, time
if os.fork() == 0:
    held = bytearray(50 << 20)
    time.sleep(0.3)
    os._exit(0)
os.wait()
"""


@pytest.fixture
def compare(hakmem: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    cache = str(tmp_path / "cache")
    monkeypatch.setenv("XDG_CACHE_HOME", cache)
    environment = {**hakmem.environment, "XDG_CACHE_HOME": cache, "MPLCONFIGDIR": str(tmp_path)}
    return Command([*hakmem.arguments, "compare", "--runs", "1"], environment)


def test_picture(compare: Command, tmp_path: Path) -> None:
    picture = tmp_path / "rss.png"
    outcome = compare("--allocators", "system,hakmem", "--plot", picture, "sleep", "0.05")
    assert outcome.status == 0, outcome.stderr
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_picture_names_every_allocator(compare: Command, tmp_path: Path) -> None:
    cache_fake(tmp_path, "snmalloc")
    (tmp_path / "matplotlibrc").write_text("svg.fonttype: none\n")
    picture = tmp_path / "rss.svg"
    compare("--allocators", "system,hakmem,snmalloc", "--plot", picture, "sleep", "0.05")
    text = picture.read_text()
    for name in ("glibc", "HAKMEM", "fake snmalloc 1.0", "sleep 0.05"):
        assert name in text, name


def test_memory_of_children_counts(compare: Command, tmp_path: Path) -> None:
    picture = tmp_path / "rss.png"
    outcome = compare(
        *("--allocators", "system,hakmem", "--json", "--plot", picture), sys.executable, "-c", HOLD_IN_A_CHILD
    )
    for entry in json.loads(outcome.stdout)["allocators"]:
        curve = entry["rss_over_time"]
        assert max(curve["rss_bytes"]) > 50 << 20
        assert len(curve["seconds"]) == len(curve["rss_bytes"]) > 3
        assert curve["seconds"] == sorted(curve["seconds"])


def test_failure_in_the_run_for_the_picture_is_said(compare: Command, tmp_path: Path) -> None:
    program = f"echo >> {tmp_path}/n; test $(wc -l < {tmp_path}/n) != 3 || kill -SEGV $$"
    outcome = compare("--allocators", "system", "--plot", tmp_path / "rss.png", "sh", "-c", program)
    assert outcome.status == 128 + signal.SIGSEGV
    assert "was killed by SIGSEGV in the run for the picture" in outcome.stdout


def test_without_matplotlib(compare: Command, tmp_path: Path, compiled: Compile) -> None:
    package = tmp_path / "matplotlib"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError\n")
    outcome = compare("--plot", "rss.png", "true", PYTHONPATH=str(tmp_path))
    assert outcome.status == 1
    assert outcome.stdout == ""
    assert "install matplotlib (" in outcome.error_line()
    assert "-m pip install matplotlib)" in outcome.error_line()


@pytest.mark.parametrize(
    ("path", "complaint"),
    [("rss.nonsense", "must end in one of"), ("no/such/folder/rss.png", "there is no folder")],
)
def test_picture_that_cannot_be_written(compare: Command, path: str, complaint: str) -> None:
    outcome = compare("--plot", path, "echo", "never run")
    assert outcome.status == 1
    assert outcome.stdout == ""
    assert complaint in outcome.error_line()
