"""Fixtures for all tests of this folder: the library, the runner, the builder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from .builder import Builder
from .harness import Runner

SOURCES = Path(__file__).parent
REPOSITORY = SOURCES.parent.parent


@pytest.fixture(scope="session")
def library() -> Path:
    """The library under test: HAKMEM_LIBRARY, else build/libhakmem.so of this repository."""
    named = os.environ.get("HAKMEM_LIBRARY")
    path = Path(named).resolve() if named else REPOSITORY / "build" / "libhakmem.so"
    if not path.is_file():
        origin = "HAKMEM_LIBRARY names it" if named else "HAKMEM_LIBRARY is not set"
        pytest.fail(
            f"no library at {path} ({origin}): build it with "
            "'cmake -S . -B build -G Ninja && ninja -C build' "
            "or set HAKMEM_LIBRARY to the path of a libhakmem.so"
        )
    return path


@pytest.fixture
def runner(library: Path, tmp_path: Path) -> Runner:
    return Runner(library, tmp_path)


@pytest.fixture(scope="session")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Builder:
    """Compiles the test programs of this folder, each once a session, without the preload."""
    return Builder(SOURCES, tmp_path_factory.mktemp("programs"))
