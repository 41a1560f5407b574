"""What the programs that measure memory say is so: what is counted, what is left out, and phase by phase."""

import json
import math
from collections.abc import Mapping
from pathlib import Path

import pytest

from .conftest import SmallMalloc
from .test_workloads import PRELOADS, result, run

MEBIBYTE = 1 << 20
# What the same process may differ by from one run to the next: how much of its files is resident.
UNSTEADY = MEBIBYTE // 2

Programs = Mapping[str, Path]
Figures = dict[str, float]

FRAGMENTATION_PHASES = {
    "server-day": {"early": 15, "morning": 60, "noon": 100, "batch": 80, "evening": 40, "night": 12},
    "redis-like": {
        "filled": 60,
        "half_deleted": 30,
        "refilled": 75,
        "half_deleted_again": 37,
        "refilled_larger": 100,
        "drained": 10,
    },
    "handover": {"messages": 50, "pages": 100, "lull": 10, "larger_messages": 100, "idle": 5},
}


def figures_of(programs: Programs, line: str, preload: Path | None = None) -> Figures:
    figures = result(run(programs, line, preload=preload))
    return {name: float(value) for name, value in figures.items() if isinstance(value, int | float)}


def test_memory_usage_counts_the_blocks_and_not_its_table(workload_programs: Programs) -> None:
    base = figures_of(workload_programs, "memory_usage --blocks 0")
    million = figures_of(workload_programs, "memory_usage --blocks 1000000 --size 16")
    assert base["data_bytes"] == 0
    assert million["data_bytes"] == 16_000_000
    # The C library takes 32 bytes for each of these; a table of pointers would add another 8.
    assert million["rss_bytes"] - base["rss_bytes"] == pytest.approx(32_000_000, abs=UNSTEADY)
    assert million["anonymous_bytes"] - base["anonymous_bytes"] == pytest.approx(32_000_000, abs=UNSTEADY)


@PRELOADS
@pytest.mark.parametrize("size", ["100", "10000", "1M"])
def test_memory_usage_has_all_of_the_data_resident(
    workload_programs: Programs, size: str, preload: Path | None
) -> None:
    figures = figures_of(workload_programs, f"memory_usage --blocks 50 --size {size}", preload)
    assert figures["data_bytes"] == 50 * figures["block_bytes"]
    assert figures["data_bytes"] <= figures["anonymous_bytes"] < figures["rss_bytes"]
    assert figures["rss_bytes"] <= figures["peak_rss_bytes"]


@PRELOADS
@pytest.mark.parametrize("threads", [1, 5])
def test_battle_sees_memory_come_and_go(
    workload_programs: Programs, threads: int, preload: Path | None
) -> None:
    line = f"battle --blocks 20000 --size 1000 --threads {threads} --idle-ms 10"
    figures = figures_of(workload_programs, line, preload)
    assert figures["rss_allocated_bytes"] - figures["rss_start_bytes"] >= figures["data_bytes"]
    assert figures["rss_idle_bytes"] <= figures["rss_released_bytes"] + UNSTEADY
    assert figures["rss_released_bytes"] <= figures["rss_freed_bytes"] + UNSTEADY
    assert figures["peak_rss_bytes"] >= figures["rss_allocated_bytes"]
    assert figures["kept_bytes"] == max(0, figures["rss_idle_bytes"] - figures["rss_start_bytes"])


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ('void mi_collect(_Bool force) { say(force ? "forced" : "not"); }', "forced"),
        (
            "int mallctl(char *name, void *a, void *b, void *c, size_t d) { say(name); return 0; }",
            "thread.tcache.flush, arena.4096.purge",
        ),
        ('void MallocExtension_ReleaseFreeMemory(void) { say("released"); }', "released"),
        (
            "void _ZN8tcmalloc15MallocExtension21ReleaseMemoryToSystemEm(size_t bytes) "
            '{ say(bytes == (size_t)-1 ? "all" : "some"); }',
            "all",
        ),
        ('int malloc_trim(size_t pad) { say("trimmed"); return 1; }', "trimmed"),
        (
            'int mallopt(int what, int value) { say(what == -104 ? "purged" : "set"); return 1; }',
            "purged",
        ),
        ('int mallopt(int what, int value) { say("unknown"); return 0; }', "unknown"),
        ("", ""),
    ],
    ids=["mimalloc", "jemalloc", "gperftools", "tcmalloc", "malloc_trim", "scudo", "mallopt", "none"],
)
def test_battle_asks_each_allocator_as_it_wants_to_be_asked(
    workload_programs: Programs, small_malloc: SmallMalloc, function: str, said: str
) -> None:
    """And none by a function of the C library, whose heap is another."""
    line = "battle --blocks 10 --size 100 --idle-ms 0"
    outcome = run(workload_programs, line, preload=small_malloc(function))
    assert outcome.stderr.splitlines() == (said.split(", ") if said else [])
    figures = json.loads(outcome.stdout)
    assert ("rss_released_bytes" in figures) == (said not in ("", "unknown"))
    silent = run(workload_programs, f"{line} --release none", preload=small_malloc(function))
    assert "rss_released_bytes" not in result(silent)


def test_battle_flushes_only_if_asked_to(workload_programs: Programs) -> None:
    """The C library keeps freed blocks of 16 bytes until it is asked to give them back."""
    kept = {
        release: figures_of(
            workload_programs, f"battle --blocks 500000 --size 16 --idle-ms 0 --release {release}"
        )["kept_bytes"]
        for release in ("trim", "none")
    }
    assert kept["trim"] <= UNSTEADY
    assert kept["none"] >= 16_000_000 - UNSTEADY


@PRELOADS
@pytest.mark.parametrize("mode", FRAGMENTATION_PHASES)
def test_fragmentation_reaches_the_target_of_each_phase(
    workload_programs: Programs, mode: str, preload: Path | None
) -> None:
    figures = figures_of(workload_programs, f"fragmentation --mode {mode} --live 32M", preload)
    ratios = []
    for phase, percent in FRAGMENTATION_PHASES[mode].items():
        live, rss = figures[f"{phase}_live_bytes"], figures[f"{phase}_rss_bytes"]
        # The last block freed or added may be one of the largest.
        assert live == pytest.approx(percent / 100 * 32 * MEBIBYTE, abs=MEBIBYTE)
        assert live < rss <= figures["peak_rss_bytes"]
        ratios.append(rss / live)
    assert figures["rss_per_live_most"] == pytest.approx(max(ratios))
    mean = math.prod(ratios) ** (1 / len(ratios))
    assert figures["rss_per_live_mean"] == pytest.approx(mean)


def test_fragmentation_follows_from_its_seed(workload_programs: Programs) -> None:
    def operations(seed: int) -> float:
        return figures_of(workload_programs, f"fragmentation --live 8M --seed {seed}")["operations"]

    assert operations(1) == operations(1)
    assert operations(1) != operations(2)


@PRELOADS
def test_page_faults_are_those_of_growing_and_of_breathing(
    workload_programs: Programs, preload: Path | None
) -> None:
    line = "page_faults --size 1K --heap 8M --breaths"
    grown = figures_of(workload_programs, f"{line} 0", preload)
    assert grown["growth_faults_per_mib"] > 0
    assert grown["breath_faults_per_mib"] == 0
    assert grown["minor_faults"] == pytest.approx(8 * grown["growth_faults_per_mib"])
    breathed = figures_of(workload_programs, f"{line} 5", preload)
    # Half of the heap, five times.
    assert breathed["minor_faults"] == pytest.approx(
        8 * breathed["growth_faults_per_mib"] + 20 * breathed["breath_faults_per_mib"]
    )


@PRELOADS
def test_forks_and_starts_take_faults_of_their_own(workload_programs: Programs, preload: Path | None) -> None:
    forks = figures_of(workload_programs, "fork_heavy --heap 4M --forks 5", preload)
    assert forks["parent_faults_per_fork"] > 0
    assert forks["child_faults_per_fork"] > 0
    # A process that is started maps its program and its libraries: more than a handful of pages.
    assert figures_of(workload_programs, "startup --starts 2", preload)["faults_per_start"] > 20


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (
            "fragmentation --mode handover --threads 3",
            "--threads: give an even number, for each producer a consumer",
        ),
        ("page_faults --heap 1K --size 2K", "--heap: it must hold at least one block of --size"),
        ("rebuild --heap 1K --max 2K", "--heap: it must hold at least one block of --max"),
        ("rebuild --min 2K", "--min 2048 exceeds --max 1000: give a range"),
        ("memory_usage --size 4", "--size 4: give from 8 to 1073741824"),
        ("battle --release later", "--release later: unknown; --help lists the choices"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(
    workload_programs: Programs, line: str, complaint: str
) -> None:
    outcome = run(workload_programs, line)
    assert (outcome.status, outcome.stdout) == (2, "")
    assert outcome.error_line() == f"{line.split(maxsplit=1)[0]}: {complaint}"
