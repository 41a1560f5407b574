"""`hakmem allocators`, and the environment that programs get for each of them."""

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hakmem.allocators import NAMES, Allocator, environment_for
from hakmem.errors import HakmemError
from hakmem.peer_cache import peers_folder
from hakmem.probe import probe

from tests.fake_allocators import cache_fake

from .command import Command


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An empty cache: for this process, and as variables for the command."""
    variables = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    monkeypatch.setenv("XDG_CACHE_HOME", variables["XDG_CACHE_HOME"])
    return variables


@pytest.fixture
def listed(hakmem: Command, cache: dict[str, str]) -> Callable[..., tuple[dict[str, dict[str, str]], ...]]:
    """What the command says as JSON: those that can be used, and those that cannot, by their names."""

    def ask(**variables: str) -> tuple[dict[str, dict[str, str]], ...]:
        outcome = hakmem("allocators", "--json", **cache, **variables)
        assert outcome.status == 0, outcome.stderr
        document = json.loads(outcome.stdout)
        return tuple({entry["name"]: entry for entry in document[key]} for key in ("allocators", "missing"))

    return ask


Listed = Callable[..., tuple[dict[str, dict[str, str]], ...]]


def test_hakmem_and_the_system_are_there_without_any_peer(listed: Listed, library: Path) -> None:
    found, missing = listed()
    assert found["hakmem"]["library"] == str(library)
    assert found["system"]["library"] is None
    assert found["system"]["title"].endswith(found["system"]["version"])
    assert sorted([*found, *missing]) == sorted(NAMES)
    assert missing["snmalloc"]["reason"] == "neither built for comparison nor installed"


# Debian's own is not position-independent, and has entries of its own for malloc and free.
@pytest.mark.parametrize(
    "python", sorted({sys.executable, shutil.which("python3", path="/usr/bin") or sys.executable})
)
def test_who_serves_a_program_is_found_whatever_the_interpreter(
    python: str, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", python)
    assert probe(library, {"LD_PRELOAD": str(library)}).libc_growth == 0
    assert probe(None, {}).libc_growth
    with pytest.raises(HakmemError, match="does not serve malloc"):
        probe(library, {})


def test_table_names_all(hakmem: Command, cache: dict[str, str]) -> None:
    outcome = hakmem("allocators", **cache)
    for name in NAMES:
        assert any(line.strip().startswith(name) for line in outcome.stdout.splitlines()), name


def test_built_peer(listed: Listed, cache: dict[str, str], tmp_path: Path) -> None:
    cache_fake(tmp_path, "snmalloc", version="4.5.6")
    entry = listed()[0]["snmalloc"]
    assert entry["title"] == "fake snmalloc 4.5.6"
    assert entry["origin"] == "made by a test"
    assert Path(entry["library"]) == peers_folder() / "snmalloc-4.5.6" / "libsnmalloc.so"


def test_missing_hakmem_is_no_obstacle(listed: Listed) -> None:
    found, missing = listed(HAKMEM_LIBRARY="/no/such/library.so")
    assert "hakmem" not in found
    assert "/no/such/library.so" in missing["hakmem"]["reason"]


def test_library_of_another_machine(listed: Listed, cache: dict[str, str], tmp_path: Path) -> None:
    cache_fake(tmp_path, "snmalloc")
    (library,) = peers_folder().glob("snmalloc-*/*.so")
    image = bytearray(library.read_bytes())
    image[18:20] = (243).to_bytes(2, "little")  # e_machine: RISC-V
    library.write_bytes(image)
    entry = listed()[1]["snmalloc"]
    assert "does not serve malloc" in entry["reason"]
    assert "cannot be preloaded" in entry["reason"]
    assert entry["library"] == str(library)


@pytest.mark.parametrize(
    ("trait", "reason"),
    [
        ("CRASHES", "was killed by SIG"),
        ("NO_ALIGNED", "does not serve aligned_alloc"),
        ("TALKS", "answer on it cannot be read"),
    ],
)
def test_library_that_does_not_work(
    listed: Listed, cache: dict[str, str], tmp_path: Path, trait: str, reason: str
) -> None:
    cache_fake(tmp_path, "snmalloc", trait)
    assert reason in listed()[1]["snmalloc"]["reason"]


def test_library_that_is_gone(listed: Listed, cache: dict[str, str], tmp_path: Path) -> None:
    cache_fake(tmp_path, "snmalloc")
    (library,) = peers_folder().glob("snmalloc-*/*.so")
    library.unlink()
    assert "snmalloc" in listed()[1]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"name": "snmalloc"}'])
def test_damaged_manifest_counts_as_none(
    listed: Listed, cache: dict[str, str], tmp_path: Path, text: str
) -> None:
    cache_fake(tmp_path, "snmalloc")
    (manifest,) = peers_folder().glob("*/manifest.json")
    manifest.write_text(text)
    assert listed()[1]["snmalloc"]["reason"] == "neither built for comparison nor installed"


def test_manifest_that_needs_an_unknown_variable(
    listed: Listed, cache: dict[str, str], tmp_path: Path
) -> None:
    cache_fake(tmp_path, "snmalloc")
    (manifest,) = peers_folder().glob("*/manifest.json")
    entry = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**entry, "environment": {"STRANGE": "1"}}))
    assert "STRANGE" in listed()[1]["snmalloc"]["reason"]


def test_path_that_cannot_be_preloaded(
    hakmem: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "with space"))
    cache_fake(tmp_path, "snmalloc")
    outcome = hakmem("allocators", XDG_CACHE_HOME=os.environ["XDG_CACHE_HOME"])
    assert "LD_PRELOAD cannot carry a path with a space" in " ".join(outcome.stdout.split())


def _some() -> list[Allocator]:
    tunables = {"GLIBC_TUNABLES": "glibc.pthread.rseq=0"}
    return [
        Allocator("system", "glibc", "2", None, ""),
        Allocator("hakmem", "HAKMEM", "1", Path("/a/libhakmem.so"), ""),
        Allocator("tcmalloc", "tcmalloc", "1", Path("/a/much/longer/path/to/libtcmalloc.so"), "", tunables),
    ]


@pytest.mark.parametrize(
    "base",
    [{}, {"PATH": "/bin", "LD_PRELOAD": "/x/other.so"}, {"GLIBC_TUNABLES": "glibc.malloc.check=0", "A": "b"}],
)
def test_environments_have_the_same_shape(base: dict[str, str]) -> None:
    shapes = {
        tuple((name, len(value)) for name, value in environment_for(allocator, base).items())
        for allocator in _some()
    }
    assert len(shapes) == 1


def test_preloaded_allocators_are_replaced_and_other_libraries_stay() -> None:
    base = {"LD_PRELOAD": "/x/libjemalloc.so.2:/x/other.so /y/libhakmem.so"}
    for allocator in _some():
        entries = [entry for entry in environment_for(allocator, base)["LD_PRELOAD"].split(":") if entry]
        assert entries == [str(path) for path in (allocator.library, "/x/other.so") if path]


def test_tunables_that_the_user_has_set_win() -> None:
    system, _, tcmalloc = _some()
    base = {"GLIBC_TUNABLES": "glibc.malloc.check=3"}
    assert environment_for(tcmalloc, base)["GLIBC_TUNABLES"] == "glibc.pthread.rseq=0:glibc.malloc.check=3"
    assert environment_for(system, base)["GLIBC_TUNABLES"].endswith(":glibc.malloc.check=3")
