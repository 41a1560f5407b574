"""`python -m bench`, end to end on a suite that takes a moment, with allocators made for the test."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bench.benchmark import Order, default_minutes
from bench.results import load
from bench.suite import Suite
from tests.c_source import compile_c
from tests.cli.command import REPOSITORY, Command
from tests.fake_allocators import cache_fake

SOURCE = r"""
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
int main(int argc, char **argv) {
    long operations = argc > 2 ? atol(argv[2]) : 20000;
    struct timespec begun, ended;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    for (long i = 0; i < operations; i++) {
        char *volatile block = malloc(24);
        block[0] = 1;
        free(block);
    }
    clock_gettime(CLOCK_MONOTONIC, &ended);
    double seconds = (double)(ended.tv_sec - begun.tv_sec) + (double)(ended.tv_nsec - begun.tv_nsec) * 1e-9;
    printf("{\"workload\": \"loop\", \"operations\": %ld, \"seconds\": %.9f}\n", operations, seconds);
}
"""
SUITE = """
[[workload]]
name = "loop/24"
kind = "time"
stands_for = "A loop."
command = ["{workloads}/loop"]
contention = true
sampling = true

[[workload]]
name = "victim/24"
kind = "time"
stands_for = "The same, in a program that one allocator aborts in."
command = ["{workloads}/victim"]

[[workload]]
name = "absent/1"
kind = "program"
stands_for = "What is not installed."
command = ["hak-none"]
needs = ["hak-none"]

[[scaling]]
name = "loop/scaling"
stands_for = "A loop."
command = ["{workloads}/loop", "--threads={threads}", "{share}"]
work = 1000
work_full = 1000

[[instructions]]
name = "a loop of 24 B"
command = ["{workloads}/loop"]
operations = [1000, 2000]
"""

NOT_UTF_8 = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("build")
    (folder / "bench").mkdir()
    for name in ("loop", "victim"):
        compile_c(SOURCE, folder / "bench" / name, "-O1", "-fno-builtin")
    (folder / "suite.toml").write_text(SUITE)
    return folder


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def bench(build: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HAKMEM_")}
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    environment = {**kept, "XDG_CACHE_HOME": str(cache), "PYTHONPATH": str(REPOSITORY), "COLUMNS": "160"}
    return Command([sys.executable, "-m", "bench"], environment)


def run_options(build: Path, output: Path, *more: str) -> list[str]:
    return [
        "run",
        *("--suite", str(build / "suite.toml"), "--build", str(build), "--output", str(output)),
        *more,
    ]


def test_a_run_writes_results_and_page(bench: Command, build: Path, tmp_path: Path) -> None:
    cache_fake(tmp_path, "mimalloc3", "FORWARDS")
    cache_fake(tmp_path, "jemalloc", "ABORTS")
    names = "hakmem,system,mimalloc3,jemalloc,rpmalloc"
    output = tmp_path / "out"
    outcome = bench(*run_options(build, output, "--rounds", "3", "--allocators", names))
    assert outcome.status == 0, outcome.stderr
    assert outcome.stdout == f"{output}/README.md\n"
    assert {path.name for path in output.iterdir()} == {
        *("README.md", "results.json", "results.csv", "time.svg", "memory.svg")
    }
    told = (output / "README.md").read_text()
    assert "victim/24 on fake jemalloc 1.0: was killed by SIGABRT: fake: heap damaged (2 of 2 runs)" in told
    assert "- **rpmalloc**: neither built for comparison nor installed" in told
    assert "- **absent/1**: needs hak-none, which is not installed" in told
    assert re.search(r"\| a loop of 24 B \| [^|]*\d+\.\d", told)
    assert "each program and each library at least once" in told
    assert "before each run but those of a workload's first round" in told
    found = load(output / "results.json")
    assert [allocator.name for allocator in found.allocators] == ["hakmem", "system", "mimalloc3", "jemalloc"]
    assert len(found.workloads[0].good("hakmem")) == 3
    assert [entry.name for entry in found.contention] == ["loop/24"]
    assert found.contention[0].counters["refills"] > 0
    assert len({entry.threads for entry in found.scaling}) == len(found.scaling)
    assert {1, 64} <= {entry.threads for entry in found.scaling}
    assert all(entry.good("hakmem") for entry in found.scaling)
    (sampled,) = found.sampling
    assert len(sampled.good("off")) == len(sampled.good("on")) > 3
    for title in ("Scaling", "What threads wait for", "What sampling costs"):
        assert f"## {title}" in told
    assert str(REPOSITORY) not in (output / "results.json").read_text()
    assert bench("page", output / "results.json").status == 0
    assert (output / "README.md").read_text() == told


def test_it_works_where_files_are_not_utf_8_by_default(bench: Command, build: Path, tmp_path: Path) -> None:
    suite, output = tmp_path / "suite.toml", tmp_path / "out"
    entry = SUITE.partition('[[workload]]\nname = "victim')[0]
    suite.write_text(entry.replace("A loop.", "Größe in µs."), encoding="utf-8")
    options = ("--suite", suite, "--build", build, "--output", output, "--rounds", "2")
    outcome = bench("run", *options, "--allocators", "hakmem,system", **NOT_UTF_8)
    assert outcome.status == 0, outcome.stderr
    told = (output / "README.md").read_text(encoding="utf-8")
    assert "Größe in µs." in told
    assert bench("page", output / "results.json", **NOT_UTF_8).status == 0
    assert (output / "README.md").read_text(encoding="utf-8") == told


def test_a_second_run_is_compared_with_the_first(bench: Command, build: Path, tmp_path: Path) -> None:
    cache_fake(tmp_path, "mimalloc3", "FORWARDS")
    output = tmp_path / "out"
    for _ in range(2):
        outcome = bench(
            *run_options(
                build, output, "--rounds", "2", "--allocators", "hakmem,mimalloc3", "--only", "loop*"
            )
        )
        assert outcome.status == 0, outcome.stderr
    assert "`make bench ARGS='--rounds 2'`" in (output / "README.md").read_text()
    assert "The run before this one started" in (output / "README.md").read_text()
    agreed = bench("agree", output / "previous.json", output / "results.json")
    assert agreed.status == 0
    assert "loop/24" in agreed.stdout
    assert re.search(r"[01] of 1 differ by less than 5%", agreed.stdout)


def test_swapped_libraries_swap_the_figures(bench: Command, build: Path, tmp_path: Path) -> None:
    """A slow library under one name, then under another: the figures go with the library."""

    def ratio(slow: str, fast: str) -> float:
        cache_fake(tmp_path, slow, "SLEEPS")
        cache_fake(tmp_path, fast, "FORWARDS")
        output = tmp_path / slow
        options = ("--rounds", "3", "--allocators", "mimalloc3,jemalloc", "--only", "loop*")
        outcome = bench(*run_options(build, output, *options))
        assert outcome.status == 0, outcome.stderr
        found = load(output / "results.json").workloads[0]
        slowest, fastest = (min(run.time for run in found.good(name)) for name in (slow, fast))
        return slowest / fastest

    assert ratio("mimalloc3", "jemalloc") > 5
    assert ratio("jemalloc", "mimalloc3") > 5


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["run", "--only", "nothing"], "--only: no workload matches 'nothing'"),
        (["run", "--build", "{build}", "--allocators", "hakmem,fastest"], "no allocator is called 'fastest'"),
        (["run", "--suite", "/none.toml"], "cannot read the suite '/none.toml'"),
        (
            ["run", "--build", "/none", "--output", "{tmp}/out"],
            "no workloads in '/none/bench': run 'make bench'",
        ),
        (["run", "--output", "/dev/null/x"], "cannot make the folder '/dev/null/x'"),
        (["page", "/none.json"], "cannot read the results '/none.json'"),
        (["agree", "/none.json", "/none.json"], "cannot read the results '/none.json'"),
    ],
)
def test_mistakes_are_one_line(
    bench: Command, build: Path, tmp_path: Path, arguments: list[str], problem: str
) -> None:
    places = {"{tmp}": str(tmp_path), "{build}": str(build)}
    outcome = bench(*(re.sub(r"{\w+}", lambda match: places[match[0]], word) for word in arguments))
    assert outcome.status == 1
    assert outcome.error_line().startswith("bench: ")
    assert problem in outcome.error_line()


def test_without_an_allocator_there_is_nothing_to_compare(
    bench: Command, build: Path, tmp_path: Path
) -> None:
    outcome = bench(*run_options(build, tmp_path / "out", "--allocators", "rpmalloc"))
    assert outcome.status == 1
    assert outcome.error_line() == (
        "bench: no allocator can be used here: rpmalloc: neither built for comparison nor installed"
    )


@pytest.mark.parametrize("options", [[], ["--allocators", "hakmem,system"]])
def test_hakmem_is_not_left_out_unasked(
    bench: Command, build: Path, tmp_path: Path, options: list[str]
) -> None:
    library = tmp_path / "my folder" / "libhakmem.so"
    library.parent.mkdir()
    shutil.copy(REPOSITORY / "build/libhakmem.so", library)
    output = tmp_path / "out"
    outcome = bench(*run_options(build, output, "--rounds", "1", *options), HAKMEM_LIBRARY=str(library))
    assert outcome.status == 1
    assert "bench: HAKMEM cannot be used here: " in outcome.error_line()
    assert "copy it elsewhere; to measure others alone, name them with --allocators" in outcome.error_line()
    assert not list(output.iterdir())


def test_runs_that_fail_are_counted(bench: Command, build: Path, tmp_path: Path) -> None:
    cache_fake(tmp_path, "jemalloc", "ABORTS")
    options = ("--rounds", "2", "--allocators", "system,jemalloc", "--only", "*/24")
    outcome = bench(*run_options(build, tmp_path / "out", *options))
    assert outcome.status == 0
    assert "bench: 2 of 8 runs failed, and are in no figure\n" in outcome.stderr


def test_a_run_that_measures_nothing_fails_and_leaves_the_last_one(
    bench: Command, build: Path, tmp_path: Path
) -> None:
    cache_fake(tmp_path, "jemalloc", "ABORTS")
    output = tmp_path / "out"
    output.mkdir()
    (output / "results.json").write_text("earlier")
    options = ("--rounds", "2", "--allocators", "jemalloc", "--only", "victim*")
    outcome = bench(*run_options(build, output, *options))
    assert outcome.status == 1
    last = outcome.stderr.splitlines()[-1]
    assert last.startswith("bench: nothing could be measured: victim/24 on fake jemalloc 1.0: was killed by")
    assert last.endswith("(and 1 more)")
    assert (output / "results.json").read_text() == "earlier"


def test_what_cannot_be_run_here_is_not_a_page(bench: Command, build: Path, tmp_path: Path) -> None:
    outcome = bench(*run_options(build, tmp_path / "out", "--allocators", "system", "--only", "absent*"))
    assert outcome.status == 1
    assert outcome.error_line() == (
        "bench: nothing could be measured: absent/1: needs hak-none, which is not installed"
    )


def test_an_interrupt_keeps_what_was_measured(bench: Command, build: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    options = run_options(build, output, "--rounds", "1000", "--allocators", "system", "--only", "loop*")
    with subprocess.Popen(
        [*bench.arguments, *options], env=bench.environment, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        assert "warming up" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
    assert process.returncode == 130
    assert f"interrupted; what was measured is in '{output}/interrupted.json'" in rest
    assert load(output / "interrupted.json").interrupted
    assert not (output / "results.json").exists()


@pytest.mark.parametrize(
    ("full", "minutes", "rounds", "options"),
    [
        (False, None, None, ""),
        (False, default_minutes(full=False), None, ""),
        (True, default_minutes(full=True), None, ""),
        (False, 15.0, None, "--minutes 15"),
        (True, 0.5, 3, "--minutes 0.5 --rounds 3"),
    ],
)
def test_what_differs_from_the_usual_run_is_kept(
    full: bool, minutes: float | None, rounds: int | None, options: str
) -> None:
    order = Order(Suite((), ()), True, None, full, rounds, minutes, None, Path("build"))
    assert order.options() == options


def test_make_help_and_the_commands_help_say_how_long_it_takes(bench: Command) -> None:
    minutes = f"{default_minutes(full=False):g}"
    help_of_make = Command(["make", "-C", str(REPOSITORY), "help"], os.environ)().stdout
    assert f"docs/benchmarks ({minutes} minutes of comparing" in help_of_make
    assert f"[default: {minutes}; with --full" in " ".join(bench("run", "--help").stdout.split())


def test_help(bench: Command) -> None:
    for command in ([], ["run"], ["page"], ["agree"]):
        outcome = bench(*command, "--help")
        assert outcome.status == 0
        assert "Usage: python -m bench" in outcome.stdout
