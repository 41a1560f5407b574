"""A session: who runs when, how often, and what of it is kept."""

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from hakmem.allocators import SYSTEM, Allocator

from bench.results import Results
from bench.runner import Interrupted, Runner
from bench.schedule import Plan
from bench.session import Progress, Session, order
from bench.suite import Workload, load

from .synthetic import failed, results, run

NAMES = ("hakmem", "system", "mimalloc3")


def allocators() -> list[Allocator]:
    return [Allocator(name, name, "1", None, "here") for name in NAMES]


def workload(name: str, kind: str = "time", needs: tuple[str, ...] = ()) -> Workload:
    """Those of one family are of one program."""
    return Workload(name, kind, "Something.", ("true", name.partition("/")[0], f"--{name}"), needs=needs)


@pytest.fixture(autouse=True)
def quiet_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """What else runs here decides which runs count: in these tests, nothing does."""
    monkeypatch.setattr("bench.load.OtherLoad.share", lambda _: 0.0)


@pytest.fixture
def empty() -> Results:
    made = results()
    made.workloads.clear()
    return made


class Scripted(Runner):
    """Runs nothing, notes who would have run, and gives what `outcome` says."""

    def __init__(
        self, outcome: Callable[[str, str, int], object] = lambda workload, name, number: None
    ) -> None:
        super().__init__({}, full=False)
        self.ran: list[tuple[str, str, int]] = []
        self.outcome = outcome

    def run(self, workload, allocator, number):  # type: ignore[no-untyped-def] # as in Runner
        self.ran.append((workload.name, allocator.name, number))
        reason = self.outcome(workload.name, allocator.name, number)
        return failed(number, str(reason)) if reason else run(number, 1e-8)

    def __setattr__(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)


def measure(runner: Runner, workloads: list[Workload], into: Results, plan: Plan) -> list[Progress]:
    said: list[Progress] = []
    Session(runner, allocators(), plan, said.append).measure(workloads, into)
    return said


def test_every_round_has_every_allocator_once(empty: Results) -> None:
    runner = Scripted()
    measure(runner, [workload("a/1"), workload("b/1")], empty, Plan(4, 4, 0))
    measured = [entry for entry in runner.ran if entry[2]]
    rounds = [measured[start : start + 3] for start in range(0, len(measured), 3)]
    assert all(len({(entry[0], entry[2]) for entry in entries}) == 1 for entries in rounds)
    assert all({entry[1] for entry in entries} == set(NAMES) for entries in rounds)
    assert [entries[0][0] for entries in rounds[:4]] == ["a/1", "b/1", "a/1", "b/1"]
    assert {len(found) for result in empty.workloads for found in result.runs.values()} == {4}


def test_the_warm_up_is_not_measured_and_has_everyone(empty: Results) -> None:
    runner = Scripted()
    measure(runner, [workload("a/1"), workload("a/2"), workload("b/1")], empty, Plan(1, 1, 0))
    warm = [entry for entry in runner.ran if entry[2] == 0]
    assert runner.ran[: len(warm)] == warm
    assert {entry[1] for entry in warm} == set(NAMES)
    assert {entry[0].partition("/")[0] for entry in warm} == {"a", "b"}
    assert all(run.round > 0 for result in empty.workloads for runs in result.runs.values() for run in runs)


def test_every_program_of_the_suite_is_warmed_up(empty: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two compilers are two programs, though they are one family."""
    monkeypatch.setattr(Runner, "problem", lambda *_: None)
    runner, suite = Scripted(), load().workloads
    measure(runner, list(suite), empty, Plan(1, 1, 0))
    warm = {entry[0] for entry in runner.ran if entry[2] == 0}
    assert {"compile/g++", "compile/clang++"} <= warm
    assert {name.partition("/")[0] for name in warm} == {entry.family for entry in suite}
    assert len(warm) < len(suite) / 2


def test_what_is_made_ready_is_what_the_rounds_before_took(
    empty: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready: list[float] = []
    monkeypatch.setattr("bench.session.make_ready", ready.append)
    measure(Scripted(), [workload("a/1")], empty, Plan(2, 2, 0))
    assert ready == [0] * len(NAMES) + [1 << 20] * len(NAMES)


def test_the_order_differs_by_round_and_is_the_same_in_every_session() -> None:
    orders = [tuple(order("mix/small", number, 9)) for number in range(1, 60)]
    assert all(sorted(entry) == list(range(9)) for entry in orders)
    assert orders == [tuple(order("mix/small", number, 9)) for number in range(1, 60)]
    assert len(set(orders)) == len(orders)


def test_no_allocator_has_a_favourite_place_or_predecessor() -> None:
    firsts: Counter[int] = Counter()
    pairs: Counter[tuple[int, int]] = Counter()
    for number in range(900):
        entry = order("mix/small", number, 9)
        firsts[entry[0]] += 1
        pairs.update(pairwise(entry))
    assert all(60 < firsts[index] < 140 for index in range(9))
    assert all(60 < count < 140 for count in pairs.values())


def test_names_do_not_change_the_order() -> None:
    """It is drawn for places in the list of allocators, of which it knows only the number."""
    runner, other = Scripted(), Scripted()
    for each, names in ((runner, NAMES), (other, tuple(reversed(NAMES)))):
        made = results()
        made.workloads.clear()
        entries = [Allocator(name, name, "1", None, "here") for name in names]
        Session(each, entries, Plan(3, 3, 0), lambda progress: None).measure([workload("a/1")], made)
    places = [NAMES.index(entry[1]) for entry in runner.ran]
    assert places == [len(NAMES) - 1 - NAMES.index(entry[1]) for entry in other.ran]


def test_failures_are_kept_and_the_hopeless_not_run_again(empty: Results) -> None:
    runner = Scripted(lambda workload, name, number: "was killed" if name == "system" and number else None)
    measure(runner, [workload("a/1")], empty, Plan(6, 6, 0))
    (result,) = empty.workloads
    assert result.failures("system") == ["was killed"] * 2
    assert len(result.good("hakmem")) == 6


def test_one_failure_among_good_runs_does_not_end_them(empty: Results) -> None:
    runner = Scripted(lambda workload, name, number: "x" if name == "hakmem" and number in (2, 3) else None)
    measure(runner, [workload("a/1")], empty, Plan(6, 6, 0))
    (result,) = empty.workloads
    assert [run.round for run in result.good("hakmem")] == [1, 4, 5, 6]


def test_what_cannot_run_is_named(empty: Results) -> None:
    measure(Scripted(), [workload("a/1"), workload("b/1", needs=("hak-none",))], empty, Plan(1, 1, 0))
    assert [(entry.name, entry.reason) for entry in empty.skipped] == [
        ("b/1", "needs hak-none, which is not installed")
    ]
    assert [result.name for result in empty.workloads] == ["a/1"]


def test_an_interrupted_round_leaves_nothing_half_done(empty: Results) -> None:
    def outcome(name: str, allocator: str, number: int) -> None:
        if number == 3 and allocator == "mimalloc3":
            raise Interrupted

    measure(Scripted(outcome), [workload("a/1")], empty, Plan(9, 9, 0))
    assert empty.interrupted
    (result,) = empty.workloads
    assert {name: len(runs) for name, runs in result.runs.items()} == dict.fromkeys(NAMES, 2)


def test_progress_ends_near_the_whole(empty: Results) -> None:
    said = measure(Scripted(), [workload("a/1"), workload("b/1")], empty, Plan(5, 5, 0))
    shares = [progress.share for progress in said]
    assert shares == sorted(shares)
    assert said[-1].seconds_left is not None


def test_a_real_run(empty: Results, tmp_path: Path) -> None:
    line = '{"operations": 10, "seconds": 0.01}'
    real = Workload("a/1", "time", "Something.", ("sh", "-c", f"echo '{line}'"))
    entries = [Allocator(SYSTEM, "glibc", "1", None, "here")]
    Session(Runner({}, full=False), entries, Plan(2, 2, 0), lambda progress: None).measure([real], empty)
    assert [run.time for run in empty.workloads[0].good(SYSTEM)] == [0.001, 0.001]
