"""The page's memory section, from figures as the memory workloads give them."""

from dataclasses import replace

import pytest

from bench.memory_model import models, usages
from bench.page import memory
from bench.phases import phases
from bench.results import Results, WorkloadResult
from bench.view import View

from .synthetic import MEBIBYTE, results, run
from .test_page import rows, section

BARE = 1.25 * MEBIBYTE
FIXED = {"hakmem": 100_000.0, "system": 50_000.0, "mimalloc3": 3_000_000.0, "jemalloc": 700_000.0}
EACH = {"hakmem": 0.03, "system": 16.0, "mimalloc3": 0.07, "jemalloc": 0.5}


def usage(name: str, blocks: float, size: float) -> WorkloadResult:
    result = WorkloadResult(name, "memory", "Something.", "x")
    for allocator, fixed in FIXED.items():
        extra = fixed + EACH[allocator] * blocks if blocks else fixed * (allocator != "system")
        rss = BARE + blocks * size + extra
        figures = {"blocks": blocks, "block_bytes": size, "data_bytes": blocks * size, "rss_bytes": rss}
        result.runs[allocator] = [run(1, 1e-9, rss / MEBIBYTE, **figures)]
    return result


@pytest.fixture
def made() -> Results:
    result = results()
    result.workloads += [
        usage("memory_usage/0", 0, 16),
        usage("memory_usage/1m-16", 1e6, 16),
        usage("memory_usage/10m-16", 1e7, 16),
        usage("memory_usage/20k-1040", 2e4, 1040),
    ]
    return result


def test_overheads_are_over_the_data_and_the_bare_process(made: Results) -> None:
    found = usages(View(made))
    assert set(found) == {"memory_usage/1m-16", "memory_usage/10m-16", "memory_usage/20k-1040"}
    expected = (FIXED["jemalloc"] + EACH["jemalloc"] * 1e7) / 1.6e8
    assert found["memory_usage/10m-16"]["jemalloc"].overhead == pytest.approx(expected)


def test_the_cost_model_is_fitted_from_a_million_blocks_on(made: Results) -> None:
    (by_allocator,) = models(View(made)).values()
    for name, model in by_allocator.items():
        assert model.fixed_bytes == pytest.approx(FIXED[name], rel=1e-3)
        assert model.per_block_bytes == pytest.approx(EACH[name], rel=1e-3)


def test_the_tables(made: Results) -> None:
    told = "\n".join(memory.lines(View(made)))
    overheads = section(told, "Resident memory over the data").partition("\n### ")[0]
    assert rows(overheads, "memory_usage/10m-16") == [
        ["memory_usage/10m-16", "+0.25 %", "+100 %", "+2.3 %", "+3.6 %"]
    ]
    ((_, *fixed),) = rows(told, "F, blocks of 16 B")
    assert fixed == ["97.7 KiB", "48.8 KiB", "2.86 MiB", "684 KiB"]
    ((_, *each),) = rows(told, "V, blocks of 16 B")
    assert each == ["0.030 B", "16.000 B", "0.070 B", "0.500 B"]


def test_without_the_bare_process_there_is_no_overhead(made: Results) -> None:
    made.workloads = [workload for workload in made.workloads if workload.name != "memory_usage/0"]
    assert usages(View(made)) == {}


def test_what_is_kept_after_all_is_freed(made: Results) -> None:
    result = WorkloadResult("battle/10m", "memory", "Something.", "x")
    kept = {"hakmem": 2.0, "system": 300.0}
    for name, mebibytes in kept.items():
        figures = {"rss_start_bytes": MEBIBYTE, "rss_freed_bytes": 400 * MEBIBYTE}
        result.runs[name] = [run(1, 1e-9, rss_idle_bytes=(1 + mebibytes) * MEBIBYTE, **figures)]
    made.workloads.append(result)
    told = "\n".join(memory.lines(View(made)))
    assert rows(told, "battle/10m, after 2 s without a call")[0][1:] == ["2.00 MiB", "300 MiB", "-", "-"]
    assert rows(told, "battle/10m, at once")[0][1:] == ["399 MiB", "399 MiB", "-", "-"]


@pytest.mark.parametrize(
    ("figure", "row", "told_of_it"),
    [
        ("rss_released_bytes", "once asked for", "mi_collect(true) of mimalloc"),
        ("rss_flushed_bytes", "after malloc_trim", "whose own functions for that were not called"),
    ],
    ids=["now", "older results"],
)
def test_what_is_kept_once_it_is_asked_for(made: Results, figure: str, row: str, told_of_it: str) -> None:
    for name, command in (("asks", "battle --release trim"), ("idle", "battle --release none")):
        result = WorkloadResult(f"battle/{name}", "memory", "Something.", command)
        figures = {"rss_start_bytes": MEBIBYTE, "rss_freed_bytes": 5 * MEBIBYTE, figure: 2 * MEBIBYTE}
        result.runs["hakmem"] = [run(1, 1e-9, rss_idle_bytes=2 * MEBIBYTE, **figures)]
        made.workloads.append(result)
    told = "\n".join(memory.lines(View(made)))
    assert rows(told, f"battle/asks, {row}")[0][1:] == ["1.00 MiB", "-", "-", "-"]
    assert rows(told, "battle/asks, and a while later")
    assert rows(told, "battle/idle, after 2 s without a call")
    assert not rows(told, f"battle/idle, {row}")
    assert told_of_it in told


def test_faults(made: Results) -> None:
    result = WorkloadResult("page_faults/16", "memory", "Something.", "x")
    result.runs["hakmem"] = [run(1, 1e-9, growth_faults_per_mib=16.0, data_bytes=1.0)]
    made.workloads.append(result)
    told = "\n".join(memory.lines(View(made)))
    (row,) = rows(told, "page_faults/16, growth faults per mib")
    assert row[1:] == ["16.0", "-", "-", "-"]


def test_faults_of_whole_runs_on_every_allocator(made: Results) -> None:
    result = WorkloadResult("fill/16", "time", "Something.", "x")
    for name, faults in (("hakmem", (200, 300, 400)), ("system", (50, 51, 52))):
        result.runs[name] = [
            replace(run(number, 1e-9), minor_faults=count) for number, count in enumerate(faults)
        ]
    made.workloads.append(result)
    told = section("\n".join(memory.lines(View(made))), "Page faults")
    assert rows(told, "fill/16") == [["fill/16", "300", "51.0", "-", "-"]]


def test_fragmentation_phases_keep_their_order(made: Results) -> None:
    result = WorkloadResult("fragmentation/day", "memory", "A day.", "x")
    figures = {
        "noon_live_bytes": 100.0,
        "noon_rss_bytes": 120.0,
        "at_night_live_bytes": 10.0,
        "at_night_rss_bytes": 50.0,
    }
    result.runs["hakmem"] = [run(1, 1e-9, **figures)]
    made.workloads.append(result)
    assert [(phase.name, phase.ratio) for phase in phases(result, "hakmem")] == [
        ("noon", 1.2),
        ("at night", 5.0),
    ]
    told = "\n".join(memory.lines(View(made)))
    assert rows(told, "at night")[0][1] == "5.00"
