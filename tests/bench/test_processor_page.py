"""Processor time on the page: of what keeps more than one processor busy."""

from dataclasses import replace

from bench.results import Results

from .synthetic import results
from .test_page import page, rows, section


def with_busy(made: Results, workload: int, busy: dict[str, float]) -> Results:
    """The processors that each allocator keeps busy in one of the workloads."""
    runs = made.workloads[workload].runs
    for name, processors in busy.items():
        runs[name] = [replace(run, cpu_seconds=run.wall_seconds * processors) for run in runs[name]]
    return made


def test_what_several_threads_take_is_told_beside_the_time_that_passes() -> None:
    made = with_busy(results(noise=0), 1, {"hakmem": 1.5, "mimalloc3": 1.2, "system": 2, "jemalloc": 1})
    told = section(page(made), "Processor time")
    passed, processor = 51 / 41, 51 / 41 * 1.5 / 1.2  # milliseconds of the process
    assert rows(told, "mix/large") == [
        ["mix/large", "mimalloc 3.3.2", f"{passed:.2f}", f"{processor:.2f}", "1.50", "1.20"]
    ]
    assert not rows(told, "mix/small")
    means = [(10 / 12 * processor * 4 / 5) ** (1 / 3), (11 / 13 * passed * 5 / 6) ** (1 / 3)]
    assert f"it comes to {means[0]:.2f} against mimalloc 3.3.2" in told
    assert f"the time that passes meanwhile to {means[1]:.2f} against mimalloc 3.3.2" in told


def test_a_peer_that_is_busy_is_enough() -> None:
    told = section(page(with_busy(results(), 0, {"system": 1.9})), "Processor time")
    assert rows(told, "mix/small")


def test_of_single_threads_nothing_is_told() -> None:
    assert "## Processor time" not in page(results())
    made = with_busy(results(), 0, {"hakmem": 1.9})
    made.workloads[0] = replace(made.workloads[0], kind="memory")
    assert "## Processor time" not in page(made)
