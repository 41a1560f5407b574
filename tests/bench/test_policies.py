"""Settings over the whole suite: each run has its own, how they are rated, and what hindsight is worth."""

import json
import os
import random
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hakmem.allocators import HAKMEM, find
from hakmem.tune.policies import POLICIES, REFERENCE
from hakmem.tune.search import PRICES

from bench import policies
from bench.elo import START, Ratings
from bench.results import Results, WorkloadResult
from bench.runner import Runner
from bench.session import Progress
from bench.suite import Workload
from tests.cli.command import Command, Outcome

from .synthetic import failed, results, run

NAMES = [policy.name for policy in (REFERENCE, *POLICIES)]
EVENLY = dict.fromkeys(NAMES, 10.0)


def said(_: Progress) -> None:
    """Nobody listens."""


def measured(times: Mapping[str, float], memory: Mapping[str, float], name: str = "a/1") -> WorkloadResult:
    found = WorkloadResult(name, "time", "Something.", "x")
    for policy in NAMES:
        draw = random.Random(policy)
        found.runs[policy] = [
            run(number, times[policy] * 1e-9 * draw.uniform(0.999, 1.001), memory[policy])
            for number in range(1, 5)
        ]
    return found


def of(*workloads: WorkloadResult) -> Results:
    return replace(results({"x/1": {HAKMEM: 1.0}}, {"x/1": {HAKMEM: 1.0}}), workloads=list(workloads))


def test_each_run_has_the_settings_of_its_policy() -> None:
    shows = (
        "import json, os; own = {name.lower(): int(value) for name, value in os.environ.items() "
        "if name.startswith('HAKMEM_') and value.isdigit()}; "
        "print(json.dumps({'operations': 1, 'seconds': 1, 'count': len(os.environ), "
        "'bytes': len(str(os.environ)), **own}))"
    )
    workload = Workload("a/1", "time", "Something.", (sys.executable, "-c", shows))
    (hakmem,), _ = find([HAKMEM])
    found = policies.measure([workload], hakmem, Runner({}, full=False), 2, said)
    (result,) = found.workloads
    figures = {name: [dict(entry.figures) for entry in result.good(name)] for name in NAMES}
    assert all(len(runs) == 2 for runs in figures.values())
    sizes = {(run.pop("count"), run.pop("bytes")) for runs in figures.values() for run in runs}
    assert len(sizes) == 1
    assert figures[REFERENCE.name] == [{}, {}]
    assert figures["slow-decay"] == [{"hakmem_decay_ms": 5000}] * 2
    assert figures["small-pages"] == [{"hakmem_huge_pages": 0}] * 2


def test_what_takes_less_is_rated_higher_by_the_price_that_counts_it() -> None:
    times = {**EVENLY, "speed": 8.0, "memory": 14.0}
    memory = {**EVENLY, "speed": 15.0, "memory": 5.0}
    table = policies.standings(of(measured(times, memory), measured(times, memory, "b/1")))
    by_name = {standing.name: standing for standing in table}
    assert max(table, key=lambda standing: standing.ratings["speed"]).name == "speed"
    assert max(table, key=lambda standing: standing.ratings["memory"]).name == "memory"
    assert min(table, key=lambda standing: standing.ratings["memory"]).name == "speed"
    assert by_name["speed"].time == pytest.approx(0.8, rel=0.01)
    assert by_name["memory"].memory == pytest.approx(0.5)
    assert table == sorted(table, key=lambda standing: -standing.ratings["balanced"])


def test_hindsight_is_judged_by_other_runs_than_it_is_chosen_by() -> None:
    lucky = measured({**EVENLY, "keep-64M": 7.0}, EVENLY)
    for name in ("speed", "no-grace"):  # in the odd rounds only
        lucky.runs[name] = [
            replace(entry, seconds=(entry.seconds or 0) * (0.1 if entry.round % 2 else 1.3))
            for entry in lucky.runs[name]
        ]
    ((workload, name, gain),) = policies.hindsight(of(lucky), PRICES["speed"])
    assert (workload, name) == ("a/1", "speed")
    assert gain > 1.2
    ((_, name, gain),) = policies.hindsight(
        of(measured({**EVENLY, "keep-64M": 7.0}, EVENLY)), PRICES["speed"]
    )
    assert name == "keep-64M"
    assert gain == pytest.approx(0.7**0.9, rel=0.01)


def test_a_policy_that_fails_is_in_no_figure() -> None:
    broken = measured(EVENLY, EVENLY)
    broken.runs["memory"] = [failed(number, "it broke") for number in range(1, 5)]
    table = {standing.name: standing for standing in policies.standings(of(broken))}
    assert table["memory"].time is None
    assert table["memory"].ratings["balanced"] == START


def test_of_what_has_no_speed_memory_counts_alone() -> None:
    times, memory = {**EVENLY, "speed": 1.0}, {**EVENLY, "memory": 9.0}
    usage = replace(measured(times, memory), kind="memory")
    table = policies.standings(of(usage))
    assert {standing.time for standing in table} == {None}
    assert table[0].name == "memory"


def ranked(folder: Path, command: str, rounds: int) -> Outcome:
    """The command of a suite that has one workload, which is run by a shell."""
    (folder / "bench").mkdir()
    suite = folder / "suite.toml"
    about = "name = 'loop/1'\nkind = 'time'\nstands_for = 'A loop.'"
    suite.write_text(f"[[workload]]\n{about}\ncommand = ['sh', '-c', '''{command}''']\n")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("HAKMEM_")}
    bench = Command([sys.executable, "-m", "bench", "policies"], inherited)
    return bench("--rounds", str(rounds), "--build", folder, "--suite", suite)


LINE = json.dumps({"operations": 1, "seconds": 1})


def test_command(tmp_path: Path) -> None:
    outcome = ranked(tmp_path, f"echo '{LINE}'", rounds=2)
    assert outcome.status == 0, outcome.stderr
    for name in NAMES:
        assert name in outcome.stdout
    assert "For memory, what is best for each workload costs" in outcome.stdout


@pytest.mark.parametrize(("stopped_at", "told"), [(1, "after 0 rounds"), (2, "after 1 round of")])
def test_an_interrupted_one_says_so(tmp_path: Path, stopped_at: int, told: str) -> None:
    """The workload itself sends the interrupt, in the first run of this round."""
    ran = tmp_path / "ran"
    number = 1 + len(NAMES) * stopped_at  # each has run once to warm up
    script = f"echo >> {ran}; test $(wc -l < {ran}) != {number} || kill -INT $PPID; echo '{LINE}'"
    outcome = ranked(tmp_path, script, rounds=4)
    assert outcome.status == 130, outcome.stderr
    assert outcome.stdout.startswith(f"Interrupted {told}")
    assert (REFERENCE.name in outcome.stdout) == (stopped_at > 1)


class TestElo:
    def test_points_are_only_handed_on(self) -> None:
        ratings = Ratings("abc")
        ratings.meet({"a": 1.0, "b": 2.0, "c": 3.0}, 0.02)
        assert ratings.of["a"] > START > ratings.of["c"]
        assert sum(ratings.of.values()) == pytest.approx(3 * START)

    def test_equals_stay_equal(self) -> None:
        ratings = Ratings("ab")
        ratings.meet({"a": 1.0, "b": 1.01}, 0.02)
        ratings.meet({"a": 1.0}, 0.02)
        assert set(ratings.of.values()) == {START}

    def test_a_win_that_was_expected_brings_less(self) -> None:
        ratings = Ratings("ab")
        gains = []
        for _ in range(50):
            before = ratings.of["a"]
            ratings.meet({"a": 1.0, "b": 2.0}, 0.02)
            gains.append(ratings.of["a"] - before)
        assert gains == sorted(gains, reverse=True)

    def test_who_does_better_three_times_in_four_is_rated_191_higher(self) -> None:
        ratings = Ratings("ab")
        draw = random.Random(3)
        differences = []
        for _ in range(20000):
            a_wins = draw.random() < 0.75
            ratings.meet({"a": 1.0 if a_wins else 2.0, "b": 2.0 if a_wins else 1.0}, 0.02)
            differences.append(ratings.of["a"] - ratings.of["b"])
        settled = differences[1000:]
        assert sum(settled) / len(settled) == pytest.approx(191, abs=12)
