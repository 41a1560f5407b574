"""What README.md and docs/performance.md say of the benchmarks is what the page of the benchmarks says."""

import re
from pathlib import Path

import pytest

from bench import memory_model, phases
from bench.estimate import median
from bench.page.markdown import percent, size
from bench.results import load
from bench.view import MEASURES, RSS, TIME, Measure, View, mean

from .test_page import rows, section

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def view() -> View:
    return View(load(ROOT / "docs/benchmarks/results.json"))


@pytest.fixture(scope="module")
def readme() -> str:
    return (ROOT / "README.md").read_text()


@pytest.fixture(scope="module")
def performance() -> str:
    return (ROOT / "docs/performance.md").read_text()


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
    told = re.search(r"No other is as close.*?\)\. ", readme.partition("takes less. ")[2], re.DOTALL)
    assert told is not None
    in_time, _, in_memory = told[0].partition("in memory")
    for text, measure, told_of in ((in_time, MEASURES[0], 3), (in_memory, MEASURES[1], 4)):
        over_best = (view.over_best(name, measure) for name in view.names)
        closest = sorted(value for value in over_best if value is not None)
        assert sorted(re.findall(r"\d\.\d\d", text)) == factors(*closest[:told_of])


def test_how_many_workloads_it_wins_and_loses(view: View, readme: str) -> None:
    time, memory = MEASURES
    told = " ".join(readme.split())
    assert (
        f"it wins {number(view, time, 'wins')} in time and loses {number(view, time, 'loses')} "
        f"({number(view, time, 'unclear')} are not told apart from noise), and "
        f"wins {number(view, memory, 'wins')} in peak memory and loses {number(view, memory, 'loses')}"
    ) in told


def test_the_figures_that_explain_where_it_loses_begin_with_those_of_the_page(
    view: View, performance: str
) -> None:
    best = mean(view.verdicts_against_best(TIME))
    others = (mean(view.verdicts_against(name, TIME)) for name in ("mimalloc3", "system"))
    assert rows(performance, "this one") == [["this one", *factors(best, *others)]]


def test_the_explained_losses_are_those_of_the_page(view: View, performance: str) -> None:
    told = performance.partition("| workload | time | best peer |")[2].partition("\n\n")[0]
    lost = [verdict.ratio.value for verdict in view.verdicts_against_best(TIME) if verdict.word == "loses"]
    found = re.findall(r"^\| [^|]+ \| (\d\.\d\d) \|", told, re.MULTILINE)
    assert found == factors(*sorted(lost, reverse=True))


def test_what_was_asked_of_the_times_and_peaks_and_is(view: View, performance: str) -> None:
    over = [verdict.ratio.value > 1.05 for verdict in view.verdicts_against_best(TIME)]
    (reference,) = factors(mean(view.verdicts_against("mimalloc3", TIME)))
    time, memory = factors(*(mean(view.verdicts_against_best(measure)) for measure in (TIME, RSS)))
    assert is_beside(performance, "time, of the best of eight others in each workload") == time
    assert is_beside(performance, "workloads that take more than 1.05 of the best's time") == (
        f"{sum(over)} of {len(over)}"
    )
    assert is_beside(performance, "time, of mimalloc 3's") == reference
    assert is_beside(performance, "peak memory, of the best's") == memory


@pytest.mark.parametrize(
    ("what", "workload"),
    [
        ("1 million blocks of 16 B, over their data", "1m-16"),
        ("10 million blocks of 16 B", "10m-16"),
        ("200,000 blocks of 100 B", "200k-100"),
        ("20,000 blocks of 1040 B", "20k-1040"),
        ("20,000 blocks of 2100 B", "20k-2100"),
        ("20,000 blocks of 10,000 B", "20k-10000"),
        ("20,000 blocks of 40,000 B", "20k-40000"),
    ],
)
def test_what_was_asked_of_memory_over_the_data_and_is(
    view: View, performance: str, what: str, workload: str
) -> None:
    usage = memory_model.usages(view)[f"memory_usage/{workload}"][view.subject]
    assert is_beside(performance, what) == percent(usage.overhead)


def test_what_was_asked_of_the_cost_of_a_block_and_is(view: View, performance: str) -> None:
    model = memory_model.models(view)[16][view.subject]
    assert is_beside(performance, "what the allocator takes once, blocks of 16 B") == size(model.fixed_bytes)
    assert is_beside(performance, "what it takes for each block of 16 B") == f"{model.per_block_bytes:.3f} B"


@pytest.mark.parametrize(
    ("what", "workload"),
    [
        ("left of 10 million blocks of 16 B, 2 s after they were freed", "battle/10m-16-idle"),
        ("left of 20,000 blocks of 10,000 B, 2 s after they were freed", "battle/20k-10000-idle"),
    ],
)
def test_what_was_asked_of_what_is_left_and_is(
    view: View, performance: str, what: str, workload: str
) -> None:
    (battle,) = (entry for entry in phases.battles(view) if entry.name == workload)
    left = phases.over_start(battle, view.subject, "idle")
    assert left is not None
    assert is_beside(performance, what) == size(left)


def test_what_was_asked_of_fragmentation_and_is(view: View, performance: str) -> None:
    least = []
    for workload in phases.fragmentation(view):
        ratios = [[phase.ratio for phase in phases.phases(workload, name)] for name in view.names]
        own = ratios[view.names.index(view.subject)]
        least += [ratio == min(of_all) for ratio, of_all in zip(own, zip(*ratios, strict=True), strict=True)]
    what = "ends of phases at which none holds less of what is live (fragmentation)"
    assert is_beside(performance, what) == f"{sum(least)} of {len(least)}"


@pytest.mark.parametrize(
    ("what", "workload", "threads"),
    [
        ("two threads over one, 8192 small blocks in each", "random_mixed/scaling-8k", (1, 2)),
        ("two threads over one, 16 buffers of 8 to 32 KiB in each", "mid_mt/scaling-16", (1, 2)),
        ("64 threads over two, 8192 small blocks in each", "random_mixed/scaling-8k", (2, 64)),
        ("64 threads over two, 16 buffers of 8 to 32 KiB in each", "mid_mt/scaling-16", (2, 64)),
    ],
)
def test_what_was_asked_of_more_threads_and_is(
    view: View, performance: str, what: str, workload: str, threads: tuple[int, int]
) -> None:
    rates = {
        result.threads: median([1 / run.time for run in result.good(view.subject)])
        for result in view.results.scaling
        if result.name == workload
    }
    fewer, more = threads
    assert [is_beside(performance, what)] == factors(rates[more] / rates[fewer])


def number(view: View, measure: Measure, word: str) -> int:
    return sum(verdict.word == word for verdict in view.verdicts_against_best(measure))


def is_beside(performance: str, what: str) -> str:
    """The last cell of a row of the table of what was asked."""
    ((*_, found),) = rows(section(performance, "What was asked, and what is"), what)
    return found
