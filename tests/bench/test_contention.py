"""What threads wait for: whose statistics are read, and what the page makes of them."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hakmem.allocators import HAKMEM, Allocator
from hakmem.library import find_library

from bench import contention
from bench.results import Contention
from bench.runner import Runner
from bench.suite import Workload

from .synthetic import results
from .test_page import page, rows, section

LINE = '{"operations": 2000000, "seconds": 0.5}'

Counted = Callable[[str], Contention]


@pytest.fixture
def counted() -> Counted:
    """counted("shell commands"): what is counted in a workload that is these commands."""

    def count(commands: str) -> Contention:
        found = contention.count([workload(commands)], allocator(None), Runner({}, full=False), said)
        return found[0]

    return count


def said(_: str) -> None:
    """Nobody listens."""


def allocator(library: Path | None) -> Allocator:
    return Allocator(HAKMEM, "HAKMEM", "1", library, "here")


def workload(commands: str, *, contention: bool = True) -> Workload:
    return Workload("a/1", "time", "Something.", ("sh", "-c", commands), contention=contention)


def statistics(**counters: int) -> str:
    text = ", ".join(f'"{name}": {value}' for name, value in counters.items())
    return f'{{"schema": 1, "counters": {{{text}}}}}'


def write(number: int, text: str) -> str:
    return f"""echo '{text}' >"$HAKMEM_STATS_FILE.{number}";"""


def test_the_counters_of_all_processes_are_added(counted: Counted) -> None:
    found = counted(
        write(1, statistics(refills=3, purges=1)) + write(2, statistics(refills=4)) + f"echo '{LINE}'"
    )
    assert found == Contention("a/1", 2e6, {"refills": 7, "purges": 1})


@pytest.mark.parametrize(
    ("commands", "failure"),
    [
        (f"echo '{LINE}'", "wrote no statistics"),
        (write(1, "no JSON") + f"echo '{LINE}'", "wrote statistics that cannot be read"),
        (write(1, '{"schema": 1}') + f"echo '{LINE}'", "wrote statistics that cannot be read"),
        ("exit 3", "ended with exit status 3"),
    ],
)
def test_what_cannot_be_counted_has_a_reason(counted: Counted, commands: str, failure: str) -> None:
    found = counted(commands)
    assert found.failure
    assert found.failure.startswith(failure)
    assert not found.counters


def test_only_workloads_that_ask_for_it_are_run() -> None:
    others = [
        workload("exit 3", contention=False),
        Workload("b/1", "time", "It.", ("none",), contention=True),
    ]
    assert contention.count(others, allocator(None), Runner({}, full=False), said) == []


def test_the_librarys_own_statistics(workload_programs: dict[str, Path]) -> None:
    real = Workload(
        "xmalloc/64",
        "time",
        "It.",
        (str(workload_programs["xmalloc"]), "--operations", "200000"),
        contention=True,
    )
    (found,) = contention.count([real], allocator(find_library()), Runner({}, full=False), said)
    assert found.failure is None
    assert found.operations >= 200_000
    # One thread frees what the other has allocated.
    assert found.counters["remote_freed_blocks"] > 100_000
    assert found.counters["refills"] > 0


def test_the_page_has_rates_for_a_million_operations() -> None:
    made = results()
    counters = {"arena_lock_waits": 3, "slabs_created": 10, "slabs_released": 6, "large_allocs": 4}
    made.contention = [
        Contention("larson/mid", 2e6, counters),
        Contention("rust/ledger", failure="wrote no statistics"),
    ]
    told = section(page(made), "What threads wait for")
    ((_, waits, others, slabs, *rest),) = rows(told, "larson/mid")
    assert (waits, others, slabs) == ("1.50", "0", "10.0")
    assert set(rest) == {"0"}
    assert not rows(told, "rust/ledger")
    assert "- rust/ledger: wrote no statistics" in told


def test_what_the_arena_is_not_asked_for_counts_as_none_of_its_slabs() -> None:
    made = results()
    kept = {"large_allocs": 10, "large_frees": 10, "large_kept": 8, "slabs_created": 1}
    stocks = {
        "refills": 9,
        "flushes": 7,
        "refills_stock": 5,
        "flushes_stocked": 4,
        "refills_partial_slab": 1,
    }
    made.contention = [Contention("larson/mid", 1e6, {**kept, **stocks})]
    ((_, _, _, slabs, _, locks, batches, *_),) = rows(
        section(page(made), "What threads wait for"), "larson/mid"
    )
    assert (slabs, locks, batches) == ("5.00", "10.0", "7.00")


def test_blocks_that_come_back_are_counted_one_by_one_and_parcels_as_a_whole() -> None:
    made = results()
    counters = {
        "flushes": 2,
        "flushed_blocks": 100,
        "stock_returned_blocks": 50,
        "remote_flushes": 3,
        "remote_parcels": 2,
        "remote_freed_blocks": 700,
    }
    made.contention = [Contention("xmalloc/64", 1e6, counters)]
    ((*_, batches, blocks, remote, parcels),) = rows(
        section(page(made), "What threads wait for"), "xmalloc/64"
    )
    assert (batches, blocks, remote, parcels) == ("5.00", "150", "3.00", "2.00")


def test_without_counters_there_is_no_section() -> None:
    assert "What threads wait for" not in page(results())
