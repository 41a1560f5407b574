"""What sampling costs: how the two variants are run, and that the page keeps them apart from the peers."""

import re
from pathlib import Path

import pytest
from hakmem.allocators import HAKMEM, Allocator

from bench import sampling
from bench.results import Results, Run, WorkloadResult
from bench.runner import Interrupted, Runner
from bench.sampling import OFF, ON
from bench.schedule import Plan
from bench.suite import Workload

from .synthetic import failed, results, run
from .test_page import page, rows, section

PLAN = Plan(2, 2, 0)
ALLOCATOR = Allocator(HAKMEM, "HAKMEM", "1", None, "here")
SHOWS_THE_SETTING = r"""
    settings="\"prof\": $HAKMEM_PROF, \"at_exit\": $HAKMEM_PROF_AT_EXIT"
    echo "{\"operations\": 10, \"seconds\": 1, $settings}"
"""


def said(_: str) -> None:
    """Nobody listens."""


def workload(name: str, commands: str = SHOWS_THE_SETTING, *, sampled: bool = True) -> Workload:
    return Workload(name, "time", "Something.", ("sh", "-c", commands), sampling=sampled)


def with_sampling(cost: float, *, noise: float = 0.002) -> Results:
    """Of one workload, in which sampling makes each operation slower by this share."""
    made = results()
    measured = WorkloadResult("larson/mid", "time", "It.", "x")
    for variant, nanoseconds in ((OFF, 10.0), (ON, 10.0 * (1 + cost))):
        measured.runs[variant] = [
            run(number, nanoseconds * 1e-9 * (1 + noise * (number * 7 % 5))) for number in range(1, 13)
        ]
    made.sampling = [measured]
    return made


def test_both_variants_run_in_each_round_and_differ_in_sampling_alone() -> None:
    found = sampling.measure(
        [workload("a/1"), workload("b/1", sampled=False)], ALLOCATOR, Runner({}, full=False), PLAN, said
    )
    (measured,) = found
    assert measured.name == "a/1"
    off, on = (measured.good(variant) for variant in (OFF, ON))
    assert [entry.round for entry in off] == [entry.round for entry in on]
    assert len(off) >= PLAN.rounds
    assert {entry.figures["prof"] for entry in off} == {0}
    assert {entry.figures["prof"] for entry in on} == {1}
    # A profile that is written at exit would be measured, and left lying about.
    assert {entry.figures["at_exit"] for entry in off + on} == {0}


def test_no_workload_no_runs() -> None:
    unwanted = [workload("b/1", "exit 3", sampled=False)]
    assert sampling.measure(unwanted, ALLOCATOR, Runner({}, full=False), PLAN, said) == []


def test_an_interrupt_is_passed_on() -> None:
    class Impatient(Runner):
        def run(self, workload: Workload, allocator: Allocator, number: int) -> Run:
            raise Interrupted

    with pytest.raises(Interrupted):
        sampling.measure([workload("a/1")], ALLOCATOR, Impatient({}, full=False), PLAN, said)


def test_the_page_has_the_change_and_its_interval() -> None:
    told = section(page(with_sampling(0.1)), "What sampling costs")
    ((_, off, on, change, interval, rounds, memory),) = rows(told, "larson/mid")
    assert (off, on, change, rounds, memory) == ("10.0 ns", "11.0 ns", "+10.0 %", "12", "+0.00 %")
    low, high = (float(end.removesuffix(" %")) for end in interval.split(" to "))
    assert 9 < low <= 10 <= high < 11
    assert "geometric mean of the changes is +10.0 %" in told


def test_the_page_says_how_often_noise_makes_as_many_rows_look_like_a_cost() -> None:
    told = section(page(with_sampling(0.1)), "What sampling costs")
    assert "Without 0 % in the interval: larson/mid (1 of 1 row)" in told
    (share,) = re.findall(r"([0-9]+) % interval", told)
    assert f"in {100 - int(share)} of 100 tables like this one" in told
    assert "noise alone" not in section(page(with_sampling(0)), "What sampling costs")


def test_a_failure_is_shown() -> None:
    made = with_sampling(0)
    made.sampling[0].runs[ON] = [failed(1, "was killed by SIGSEGV")]
    told = section(page(made), "What sampling costs")
    assert rows(told, "larson/mid")[0][2:5] == ["-", "-", "-"]
    assert "- larson/mid, sampling on: was killed by SIGSEGV (1 run)" in told


def test_nothing_else_on_the_page_changes(tmp_path: Path) -> None:
    told, without = page(with_sampling(0.5)), page(results())
    assert "What sampling costs" not in without
    own = "## What sampling costs\n" + section(told, "What sampling costs") + "\n"
    assert told.replace(own, "") == without
