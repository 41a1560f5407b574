"""What the README says of the benchmarks is what the page beside them says."""

import re
from pathlib import Path

import pytest

from bench.results import load
from bench.view import MEASURES, View, mean

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def view() -> View:
    return View(load(ROOT / "docs/benchmarks/results.json"))


@pytest.fixture(scope="module")
def readme() -> str:
    return (ROOT / "README.md").read_text()


def factors(*values: float | None) -> list[str]:
    return [f"{value:.2f}" for value in values if value is not None]


@pytest.mark.parametrize("name", ["mimalloc3", "mimalloc2", "system"])
def test_the_figures_beside_each_other_allocator(view: View, readme: str, name: str) -> None:
    title = re.sub(r"^(mimalloc \d+).*", r"\1", view.title(name))
    means = factors(*(mean(view.verdicts_against(name, measure)) for measure in MEASURES))
    assert f"| {title} | {' | '.join(means)} |" in readme


def test_the_figures_beside_the_best(view: View, readme: str) -> None:
    means = factors(*(mean(view.verdicts_against_best(measure)) for measure in MEASURES))
    assert f"in each workload another one | {' | '.join(means)} |" in readme


def test_how_many_workloads_they_are_of(view: View, readme: str) -> None:
    time, memory = (len(view.workloads(measure)) for measure in MEASURES)
    assert f"Geometric means of {time} workloads for time and of {memory} for memory" in readme


def test_how_close_each_allocator_comes_to_the_best(view: View, readme: str) -> None:
    told = re.search(r"^No other is as close.*?\)\. ", readme.partition("takes less. ")[2], re.DOTALL)
    assert told is not None
    in_time, _, in_memory = told[0].partition("in memory")
    for text, measure, told_of in ((in_time, MEASURES[0], 3), (in_memory, MEASURES[1], 4)):
        over_best = (view.over_best(name, measure) for name in view.names)
        closest = sorted(value for value in over_best if value is not None)
        assert sorted(re.findall(r"\d\.\d\d", text)) == factors(*closest[:told_of])
