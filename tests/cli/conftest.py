"""Fixtures for all tests of this folder: the command as `make` installs it, and small programs for it."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ..c_source import compile_c
from .command import REPOSITORY, Command
from .live_file import Program, running, sample_statistics

# Set by whoever runs the tests; they must not reach the commands under test.
_FOREIGN = ("LD_PRELOAD", "MAKEFLAGS", "MAKELEVEL", "MFLAGS", "CMD", "RUNS", "COLUMNS")


@pytest.fixture
def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in _FOREIGN}
    return {name: value for name, value in kept.items() if not name.startswith("HAKMEM_")}


@pytest.fixture
def hakmem(environment: dict[str, str]) -> Command:
    """The command that `make` put into the repository's virtual environment."""
    return Command([str(REPOSITORY / ".venv/bin/hakmem")], environment)


@pytest.fixture
def make(environment: dict[str, str]) -> Command:
    return Command(["make", "--no-print-directory", "-C", str(REPOSITORY)], environment)


@pytest.fixture
def pid() -> Iterator[int]:
    """The number of a process that shows figures."""
    with running(Program(sample_statistics())) as process:
        yield process.pid


@pytest.fixture
def library() -> Path:
    return REPOSITORY / "build/libhakmem.so"


Compile = Callable[..., Path]


@pytest.fixture
def compiled(tmp_path: Path) -> Compile:
    """compiled(source, *flags, name=...) makes a program of C source."""

    def build(source: str, *flags: str, name: str = "program") -> Path:
        return compile_c(source, tmp_path / name, "-O0", *flags)

    return build


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], Path]:
    """script(text) makes an executable file of it."""

    def write(text: str) -> Path:
        path = tmp_path / "script"
        path.write_text(text)
        path.chmod(0o755)
        return path

    return write


@pytest.fixture
def foreign_link(tmp_path: Path) -> Path:
    """A link of another user to a file in which is "kept"; where the tests do not run as root, one of their
    own, which is followed."""
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "kept")
    link.write_text("kept")
    if os.geteuid() == 0:
        os.chown(link, 65534, 65534, follow_symlinks=False)
    return link
