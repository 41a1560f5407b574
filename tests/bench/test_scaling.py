"""What more threads bring: what is run with how many threads, and what the page makes of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
from hakmem.allocators import Allocator

from bench import scaling
from bench.results import Results, Run, ScalingResult
from bench.runner import Interrupted, Runner
from bench.schedule import Plan
from bench.suite import Scaling, Workload

from .synthetic import failed, results, run
from .test_page import page, rows, section

ALLOCATORS = [Allocator(name, name, "1", None, "here") for name in ("hakmem", "system", "mimalloc3")]
PLAN = Plan(2, 2, 0)


def said(_: str) -> None:
    """Nobody listens."""


def loop(name: str, program: str = "true", *, control: bool = False) -> Scaling:
    return Scaling(name, "Something.", (program, "{threads}", "{share}"), 6400, 64000, control)


@dataclass(frozen=True)
class Counting(Runner):
    """Runs nothing, and notes what would have run."""

    ran: list[tuple[str, ...]] = field(default_factory=list)

    def run(self, workload: Workload, allocator: Allocator, number: int) -> Run:
        if number:
            self.ran.append((allocator.name, *workload.arguments(self.places, full=self.full)))
        return run(number, 1e-8)


def measured(*entries: Scaling, cores: int = 2, full: bool = False) -> tuple[Counting, Results]:
    runner, into = Counting({"threads": str(cores)}, full), results()
    scaling.measure(entries, ALLOCATORS, runner, PLAN, said, into=into)
    return runner, into


def test_every_allocator_runs_with_one_thread_as_many_as_cores_and_many() -> None:
    runner, into = measured(loop("a/1"), loop("b/1", control=True))
    assert [(entry.name, entry.threads, entry.control) for entry in into.scaling] == [
        *(("a/1", threads, False) for threads in (1, 2, 64)),
        *(("b/1", threads, True) for threads in (1, 2, 64)),
    ]
    for entry in into.scaling:
        assert {name: len(runs) for name, runs in entry.runs.items()} == dict.fromkeys(
            ("hakmem", "system", "mimalloc3"), 3
        )
    assert len(runner.ran) == 2 * 3 * 3 * 3


@pytest.mark.parametrize(
    ("cores", "full", "expected"),
    [
        (2, False, {("1", "6400"), ("2", "6400"), ("64", "800")}),
        (2, True, {("1", "64000"), ("2", "64000"), ("64", "8000")}),
        (1, False, {("1", "6400"), ("64", "400")}),
        (64, False, {("1", "6400"), ("64", "6400")}),
        (128, False, {("1", "6400"), ("64", "6400"), ("128", "6400")}),
    ],
)
def test_each_thread_gets_its_share(cores: int, full: bool, expected: set[tuple[str, str]]) -> None:
    runner, _ = measured(loop("a/1"), cores=cores, full=full)
    assert {arguments[2:] for arguments in runner.ran} == expected


def test_what_cannot_run_is_named_once() -> None:
    runner, into = measured(loop("a/1", "hak-no-such"))
    assert [entry.name for entry in into.skipped] == ["a/1"]
    assert not (runner.ran or into.scaling)


def test_an_interrupt_is_passed_on() -> None:
    class Impatient(Runner):
        def run(self, workload: Workload, allocator: Allocator, number: int) -> Run:
            raise Interrupted

    into = results()
    with pytest.raises(Interrupted):
        scaling.measure(
            [loop("a/1")], ALLOCATORS, Impatient({"threads": "2"}, full=False), PLAN, said, into=into
        )
    assert not into.scaling


def scaled(name: str, threads: int, rates: Mapping[str, float], *, control: bool = False) -> ScalingResult:
    """Of allocators, with operations a second in millions; one of three runs is a bad one."""
    made = ScalingResult(name, "time", "It.", "x", threads=threads, control=control)
    for allocator, rate in rates.items():
        made.runs[allocator] = [run(number, (9 if number == 2 else 1) * 1e-6 / rate) for number in (1, 2, 3)]
    return made


@pytest.fixture
def made() -> Results:
    found = results()
    found.scaling = [
        scaled("compute/1", 1, {"hakmem": 100, "system": 100, "mimalloc3": 100}, control=True),
        scaled("compute/1", 2, {"hakmem": 190, "system": 200, "mimalloc3": 180}, control=True),
        scaled("mix/1", 1, {"hakmem": 100, "system": 20, "mimalloc3": 50}),
        scaled("mix/1", 2, {"hakmem": 150, "system": 40, "mimalloc3": 90}),
        scaled("mix/1", 64, {"hakmem": 80, "system": 10, "mimalloc3": 100}),
    ]
    return found


def test_the_page_has_the_gain_and_the_best_peers(made: Results) -> None:
    told = section(page(made), "Scaling")
    two, many, *_ = rows(told, "mix/1")
    fields = ("hakmem", "best", "its", "rate", "fastest", "its rate")
    assert dict(zip(fields, two[2:], strict=True)) == {
        "hakmem": "1.50",
        "best": "glibc 2.36",
        "its": "2.00",
        "rate": "150",
        "fastest": "mimalloc 3.3.2",
        "its rate": "90.0",
    }
    assert many[1:5] == ["64", "0.80", "mimalloc 3.3.2", "2.00"]


def test_the_page_has_all_allocators_and_the_best_in_bold(made: Results) -> None:
    told = section(page(made), "Scaling")
    assert "| mix/1 | 2 | 1.50 | **2.00** | 1.80 | - |" in told
    assert "| mix/1 | 64 | 80.0 | 10.0 | **100** | - |" in told


def test_the_page_tells_the_machine_from_the_allocators(made: Results) -> None:
    told = section(page(made), "Scaling")
    machine, *_ = rows(told, "compute/1")
    assert machine == ["compute/1", "2", "1.80", "1.90", "2.00"]
    # Who did best where nobody allocates is chance.
    assert "| compute/1 | 2 | 1.90 | 2.00 | 1.80 | - |" in told


def test_exchanged_names_give_exchanged_figures(made: Results) -> None:
    for entry in made.scaling:
        entry.runs["hakmem"], entry.runs["mimalloc3"] = entry.runs["mimalloc3"], entry.runs["hakmem"]
    two, many, *_ = rows(section(page(made), "Scaling"), "mix/1")
    assert two[2:] == ["1.80", "glibc 2.36", "2.00", "90.0", "mimalloc 3.3.2", "150"]
    assert many[2:5] == ["2.00", "mimalloc 3.3.2", "0.80"]


def test_a_failure_is_shown_and_in_no_figure(made: Results) -> None:
    made.scaling[4].runs["hakmem"] = [failed(1, "was killed by SIGSEGV")]
    told = section(page(made), "Scaling")
    assert rows(told, "mix/1")[1][1:3] == ["64", "-"]
    assert "- mix/1, threads: 64, on HAKMEM 0.1.0: was killed by SIGSEGV (1 run)" in told


def test_nothing_else_on_the_page_changes(made: Results) -> None:
    told, without = page(made), page(results())
    assert "## Scaling" not in without
    own = "## Scaling\n" + section(told, "Scaling") + "\n"
    assert told.replace(own, "") == without
