"""bench.peers: what a recipe gives is tried out and cached, and what fails leaves its reason."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hakmem.allocators import find
from hakmem.installed import KINDS
from hakmem.peer_cache import manifests, missing_reasons, peers_folder, store_missing

from bench.peers.builder import Result, build, lacking
from bench.peers.recipe import Product, Recipe
from bench.peers.recipes import RECIPES
from bench.peers.workshop import UnavailableError, Workshop
from tests.cli.command import REPOSITORY, Command
from tests.fake_allocators import cache_fake, compile_fake


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def command() -> Command:
    return Command([sys.executable, "-m", "bench.peers"], {**os.environ, "PYTHONPATH": str(REPOSITORY)})


def fake(
    *traits: str,
    name: str = "snmalloc",
    version: str = "1.0",
    environment: Mapping[str, str] | None = None,
    must_hold: str = "",
) -> Recipe:
    """A recipe that compiles a fake allocator."""

    def make(work: Workshop) -> Product:
        library = compile_fake(work.folder / "libfake.so", *traits)
        return Product(library, "made by a test", version, environment or {}, must_hold)

    return Recipe(name, "fake", make)


def runs(*command: str) -> Recipe:
    def make(work: Workshop) -> Product:
        work.run(*command)
        raise AssertionError("the command was to fail")

    return Recipe("snmalloc", "fake", make)


def result_of(recipe: Recipe) -> Result:
    (result,) = build([recipe])
    return result


def test_recipes_are_of_the_allocators_that_are_known() -> None:
    assert sorted(recipe.name for recipe in RECIPES) == sorted(kind.name for kind in KINDS)


def test_built_peer_is_found() -> None:
    result = result_of(fake(version="7.8"))
    assert result.manifest is not None
    assert result.manifest.verified.startswith("preloaded into a program, it serves the whole malloc family")
    (allocator,), missing = find(["snmalloc"])
    assert not missing
    assert allocator.title == "fake 7.8"
    assert allocator.origin == "made by a test"
    assert allocator.library == peers_folder() / "snmalloc-7.8" / "libfake.so"


def test_what_is_cached_is_not_built_again() -> None:
    recipes = [fake(name="snmalloc"), fake(name="scudo")]
    assert lacking(recipes) == recipes
    list(build(recipes[:1]))
    assert lacking(recipes) == recipes[1:]


def test_a_newer_version_replaces_the_older() -> None:
    for version in ("1.0", "1.1"):
        result_of(fake(version=version))
    assert [folder.name for folder, _ in manifests()] == ["snmalloc-1.1"]


def test_a_library_that_was_deleted_is_built_again() -> None:
    recipe = fake()
    result_of(recipe)
    shutil.rmtree(peers_folder() / "snmalloc-1.0")
    assert lacking([recipe]) == [recipe]


def test_failing_command_is_the_reason_and_is_logged() -> None:
    recipe = runs(
        "sh", "-c", "echo all well; echo 'file.c:3: error: no such thing' >&2; echo Stop. >&2; exit 4"
    )
    result = result_of(recipe)
    assert result.manifest is None
    assert result.reason.startswith("'sh -c ")
    assert "exit status 4" in result.reason
    assert result.reason.endswith("file.c:3: error: no such thing")
    assert result.log is not None
    assert "all well" in result.log.read_text()
    assert "Stop." in result.log.read_text()


def test_reason_is_kept_and_the_build_repeated_until_it_succeeds() -> None:
    recipe = runs("false")
    reason = result_of(recipe).reason
    assert lacking([recipe]) == [recipe]
    assert missing_reasons() == {"snmalloc": reason}
    assert find(["snmalloc"])[1][0].reason == reason
    result_of(fake())
    assert missing_reasons() == {}
    assert find(["snmalloc"])[0]


def test_what_a_recipe_cannot_give_is_not_tried_again() -> None:
    def make(work: Workshop) -> Product:
        raise UnavailableError("there is no release", lasting=True)

    recipe = Recipe("snmalloc", "fake", make)
    assert result_of(recipe).reason == "there is no release"
    assert lacking([recipe]) == []
    assert missing_reasons() == {"snmalloc": "there is no release"}


def test_what_was_built_before_stays_where_a_rebuild_fails() -> None:
    built = result_of(fake()).manifest
    result = result_of(runs("false"))
    assert "exit status 1" in result.reason
    assert result.manifest == built
    assert find(["snmalloc"])[0]


def test_a_failure_does_not_stop_the_others() -> None:
    results = {result.name: result for result in build([runs("false"), fake(name="scudo")])}
    assert results["snmalloc"].manifest is None
    assert results["scudo"].manifest is not None


def test_release_that_is_laid_out_differently_is_a_reason() -> None:
    def make(work: Workshop) -> Product:
        (library,) = work.folder.glob("nothing-like-this")
        return Product(library, "")

    assert "recipe is outdated" in result_of(Recipe("snmalloc", "fake", make)).reason


def test_work_is_cleared_away() -> None:
    result_of(fake())
    result_of(runs("false"))
    assert not (peers_folder() / "work").exists()


class TestVerification:
    """Nothing gets into the cache that does not really serve malloc, as the recipe says it does."""

    @pytest.mark.parametrize(
        ("recipe", "reason"),
        [
            (fake("CRASHES"), "was killed by SIG"),
            (fake("FORWARDS"), "libc serves"),
            (fake("NO_ALIGNED"), "does not serve aligned_alloc"),
            (fake(version=""), "neither it nor its package tells its version"),
            (fake(must_hold="fake_says_no"), "fake_says_no() says no"),
            (fake(must_hold="no_such_function"), "no_such_function"),
        ],
    )
    def test_refused(self, recipe: Recipe, reason: str) -> None:
        assert reason in result_of(recipe).reason
        assert manifests() == []

    def test_library_without_malloc(self) -> None:
        def make(work: Workshop) -> Product:
            library = work.folder / "libempty.so"
            work.run("cc", "-shared", "-x", "c", "/dev/null", "-o", library)
            return Product(library, "", "1.0")

        assert "does not serve malloc" in result_of(Recipe("snmalloc", "fake", make)).reason

    def test_condition_that_holds(self) -> None:
        result = result_of(fake(must_hold="fake_says_yes"))
        assert result.manifest is not None
        assert "fake_says_yes() says yes" in result.manifest.verified

    def test_environment_is_kept(self) -> None:
        wanted = {"GLIBC_TUNABLES": "glibc.pthread.rseq=0"}
        result_of(fake(environment=wanted))
        assert find(["snmalloc"])[0][0].environment == wanted


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path, tmp_path / "log")


def test_flags_of_the_caller_reach_no_build(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CFLAGS", "CXXFLAGS", "LDFLAGS", "MAKEFLAGS", "RUSTFLAGS", "LD_PRELOAD"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("CFLAGS", "-O0")
    listed = workshop.run("env").splitlines()
    assert not [line for line in listed if line.startswith(("CFLAGS=", "MAKEFLAGS=", "LD_PRELOAD="))]
    assert "CFLAGS=-O2" in workshop.run("env", variables={"CFLAGS": "-O2"}).splitlines()


@pytest.mark.parametrize(
    ("use", "hint"),
    [
        (lambda workshop: workshop.crate("anything"), "apt-get install cargo"),
        (lambda workshop: workshop.package("anything"), "here is no apt-cache, apt-get, dpkg-deb"),
    ],
)
def test_missing_tools_are_named_with_their_packages(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, use: Callable[[Workshop], object], hint: str
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UnavailableError, match=hint):
        use(workshop)


def test_command_line_shows_what_is_cached(command: Command, tmp_path: Path) -> None:
    cache_fake(tmp_path, "snmalloc", version="3.2.1")
    outcome = command("--only", "snmalloc")
    assert outcome.status == 0, outcome.stderr
    assert "3.2.1" in outcome.stdout
    assert "made by a test" in outcome.stdout
    assert "peers tried" not in outcome.stdout


def test_command_line_works_where_the_output_knows_few_letters(command: Command, tmp_path: Path) -> None:
    cache_fake(tmp_path, "snmalloc", version="1.0-µ")
    outcome = command("--only", "snmalloc", LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert outcome.status == 0, outcome.stderr
    assert "1.0-?" in outcome.stdout


def test_command_line_builds_what_lacks_and_says_why_it_cannot(command: Command) -> None:
    outcome = command("--only", "snmalloc", PATH="/nowhere")
    assert outcome.status == 0, outcome.stderr
    assert "missing  snmalloc: its build needs c++, cmake, ninja: install that" in outcome.stdout
    assert "peers tried" in command("--only", "snmalloc", PATH="/nowhere").stdout


def test_command_line_builds_what_is_not_to_be_had_if_told_to(command: Command) -> None:
    store_missing("snmalloc", "there is no release", lasting=True)
    assert "peers tried" not in command("--only", "snmalloc", PATH="/nowhere").stdout
    assert "peers tried" in command("--only", "snmalloc", "--rebuild", PATH="/nowhere").stdout


def test_command_line_knows_its_names(command: Command) -> None:
    outcome = command("--only", "nonsense")
    assert outcome.status == 2
    assert "no peer is called 'nonsense'; the names are tcmalloc, jemalloc" in outcome.error_line()


def test_two_builders_take_turns(command: Command, tmp_path: Path) -> None:
    cache_fake(tmp_path, "snmalloc")
    lock = peers_folder() / ".lock"
    with subprocess.Popen(
        ["flock", lock, "sh", "-c", "echo held; read line"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with subprocess.Popen(
            [*command.arguments, "--only", "snmalloc"],
            env=command.environment,
            stdout=subprocess.PIPE,
            text=True,
        ) as second:
            with pytest.raises(subprocess.TimeoutExpired):
                second.wait(1)
            holder.communicate("go\n")
            assert "snmalloc" in second.communicate(timeout=60)[0]
