"""The workload programs: they run, check their blocks, and say in one line what is wrong."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from ..cli.command import REPOSITORY, Command, Outcome
from .conftest import BrokenMalloc, SmallMalloc


def program_of(line: str) -> str:
    return line.partition(" ")[0]


# Each program with arguments for a run of a moment, and the operations that these ask for.
SHORT_RUNS: list[tuple[str, int]] = [
    ("tiny_hot --pattern pair --size 8 --operations 3000", 3000),
    ("tiny_hot --pattern lifo --size 13 --live 10 --operations 3000", 3000),
    ("tiny_hot --pattern fifo --size 128 --live 10 --operations 3000", 3000),
    ("tiny_hot --pattern random --size 500 --live 10 --operations 3000", 3000),
    ("tiny_hot --pattern interleaved --size 1K --live 11 --operations 3000", 3003),
    ("random_mixed --slots 300 --threads 1 --operations 10000", 10000),
    ("random_mixed --slots 300 --threads 3 --operations 10000", 30000),
    ("mid_mt --slots 16 --threads 3 --operations 1000", 3000),
    ("large_churn --slots 8 --operations 100", 100),
    ("large_churn --min 5M --max 25M --slots 3 --touch all --operations 4", 4),
    ("huge_realloc --from 1M --to 8M --growth 100 --rounds 2", 6),
    ("huge_realloc --from 1M --to 8M --growth 0 --step 1M", 7),
    ("growing_buffers --threads 2 --buffers 10 --to 2K --step 100 --steps 1000", 2000),
    ("larson --slots 200 --threads 3 --generations 5 --operations 1000", 15000),
    ("xmalloc --min 8 --max 300 --pairs 2 --batch 64 --depth 2 --operations 6400", 12800),
    ("rptest --threads 3 --rounds 50 --replaced 20 --slots 100", 3000),
    ("rptest --threads 1 --rounds 50 --replaced 20 --slots 100 --cross 1", 1000),
    ("mstress --threads 3 --phases 12 --operations 2000", 72000),
    ("documents --threads 2 --nodes 500 --documents 3", 3000),
    ("documents --threads 3 --dropped-by creator --nodes 500 --documents 2", 3000),
    ("lists --threads 2 --nodes 500 --lists 3", 3000),
    ("zeroed --slots 100 --threads 3 --operations 300", 900),
    ("aligned --slots 100 --threads 3 --operations 1000", 3000),
    ("containers --threads 2 --elements 200 --rounds 3", 6000),
    ("containers --container queue --elements 1 --rounds 3", 3),
    ("fill --blocks 1000 --min 8 --max 2000", 1000),
    ("thread_churn --threads 2 --generations 10 --blocks 100", 2000),
    ("cache_scratch --threads 3 --operations 200", 600),
    ("cache_thrash --threads 3 --operations 200", 600),
    ("memory_usage --blocks 2000", 2000),
    ("battle --blocks 2000 --threads 2 --idle-ms 1", 4000),
    ("fragmentation --mode server-day --live 2M", 11077),
    ("fragmentation --mode redis-like --live 2M", 13318),
    ("fragmentation --mode handover --live 2M", 8976),
    ("startup --starts 3", 3),
    ("fork_heavy --heap 1M --forks 3", 3),
    ("page_faults --heap 1M", 20480),
    ("rebuild --heap 1M --rounds 3 --order none", 3144),
    ("compute --threads 3 --operations 1000", 3000),
    ("compute --threads 3 --memory 1M --operations 1000", 3000),
]
WITHOUT_BLOCKS = "compute"
PROGRAMS = sorted({program_of(line) for line, _ in SHORT_RUNS})

LIBRARY = REPOSITORY / "build/libhakmem.so"
PRELOADS = pytest.mark.parametrize("preload", [None, LIBRARY], ids=["libc", "hakmem"])


def run(programs: Mapping[str, Path], line: str, *more: str, preload: Path | None = None) -> Outcome:
    name, *arguments = line.split()
    environment = {} if preload is None else {"LD_PRELOAD": str(preload)}
    return Command([str(programs[name])], environment)(*arguments, *more)


def result(outcome: Outcome) -> dict[str, object]:
    """The JSON object of a run that went well."""
    assert (outcome.status, outcome.stderr) == (0, "")
    (line,) = outcome.stdout.splitlines()
    figures = json.loads(line)
    assert isinstance(figures, dict)
    return figures


def test_every_program_is_in_these_tests(workload_programs: Mapping[str, Path]) -> None:
    assert sorted(workload_programs) == PROGRAMS


@PRELOADS
@pytest.mark.parametrize("checks", ["plain", "verify"])
@pytest.mark.parametrize(("line", "operations"), SHORT_RUNS)
def test_runs_and_reports(
    workload_programs: Mapping[str, Path], line: str, operations: int, checks: str, preload: Path | None
) -> None:
    more = ["--verify"] if checks == "verify" else []
    figures = result(run(workload_programs, line, *more, preload=preload))
    assert figures["workload"] == program_of(line)
    assert figures["operations"] == operations
    seconds = figures["seconds"]
    assert isinstance(seconds, float)
    assert seconds > 0


@pytest.mark.parametrize("line", [line for line, _ in SHORT_RUNS if program_of(line) != WITHOUT_BLOCKS])
def test_verify_finds_a_planted_damage(workload_programs: Mapping[str, Path], line: str) -> None:
    outcome = run(workload_programs, line, "--verify", "--plant-damage")
    assert outcome.status == 1
    assert outcome.stdout == ""
    # One that forks may find damage in more than one process.
    assert outcome.stderr.startswith(f"{program_of(line)}: damaged block: ")


@pytest.mark.parametrize(
    ("offset", "message"),
    [(0, "tiny_hot: damaged block"), (16, "tiny_hot: damaged block"), (1, "tiny_hot: misaligned block")],
    ids=["handed out twice", "overlapping", "misaligned"],
)
def test_verify_finds_what_a_broken_malloc_does(
    workload_programs: Mapping[str, Path], broken_malloc: BrokenMalloc, offset: int, message: str
) -> None:
    outcome = run(
        workload_programs,
        "tiny_hot --pattern fifo --size 1000 --live 10 --operations 100 --verify",
        preload=broken_malloc(size=1000, offset=offset),
    )
    assert outcome.status == 1
    assert outcome.error_line().startswith(message)


DIRTY_CALLOC = """
    void *calloc(size_t count, size_t size) {
        char *block = memset(malloc(count * size), 0, count * size);
        block[count * size / 2] = count * size > 1000;
        return block;
    }"""
CROOKED_ALIGNED_ALLOC = """
    void *aligned_alloc(size_t alignment, size_t size) {
        return (char *)malloc(size + alignment) + 8;
    }"""


@pytest.mark.parametrize("checks", ["", " --verify"], ids=["plain", "verify"])
@pytest.mark.parametrize(
    ("line", "source", "complaint"),
    [
        ("zeroed --slots 10 --operations 100", DIRTY_CALLOC, "damaged block: "),
        ("aligned --slots 10 --operations 100", CROOKED_ALIGNED_ALLOC, "misaligned block: "),
    ],
    ids=["calloc", "aligned_alloc"],
)
def test_what_calloc_and_aligned_alloc_promise_is_looked_at(
    workload_programs: Mapping[str, Path],
    small_malloc: SmallMalloc,
    *,
    line: str,
    source: str,
    complaint: str,
    checks: str,
) -> None:
    outcome = run(workload_programs, line + checks, preload=small_malloc(source))
    assert (outcome.status, outcome.stdout) == (1, "")
    assert outcome.error_line().startswith(f"{program_of(line)}: {complaint}")


def test_cxx_containers_call_new_and_sized_delete(
    workload_programs: Mapping[str, Path], small_malloc: SmallMalloc
) -> None:
    library = small_malloc(
        'void _ZdlPvm(void *block, size_t size) { (void)block; (void)size; say("sized"); _exit(3); }'
    )
    outcome = run(workload_programs, "containers --container tree --elements 10", preload=library)
    assert (outcome.status, outcome.stderr) == (3, "sized\n")


@pytest.mark.parametrize("name", PROGRAMS)
def test_help_says_what_the_workload_stands_for(workload_programs: Mapping[str, Path], name: str) -> None:
    outcome = run(workload_programs, name, "--help")
    assert (outcome.status, outcome.stderr) == (0, "")
    usage, stands_for, options = outcome.stdout.split("\n\n")[:3]
    assert usage == f"Usage: {name} [--option value]..."
    assert stands_for
    lines = {text.split()[0]: text for text in options.splitlines()}
    assert {"--seed", "--verify", "--help"} < lines.keys()
    without_default = {option for option, text in lines.items() if "(default " not in text}
    assert without_default == {"--verify", "--help"}


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("tiny_hot --pattern sideways", "--pattern sideways: unknown; --help lists the choices"),
        ("tiny_hot --size 4", "--size 4: give from 8 to 1048576"),
        ("tiny_hot --size 12X", "--size 12X: give bytes, as in 4096 or 64K"),
        ("tiny_hot --size -16", "--size -16: give bytes, as in 4096 or 64K"),
        ("tiny_hot --size=", "--size : give bytes, as in 4096 or 64K"),
        ("tiny_hot --size 17179869184G", "--size 17179869184G: give bytes, as in 4096 or 64K"),
        ("tiny_hot --live 1K", "--live 1K: give a whole number"),
        ("tiny_hot --seed 18446744073709551616", "--seed 18446744073709551616: give a whole number"),
        ("tiny_hot --size", "--size: its value is missing"),
        ("tiny_hot --verify=yes", "--verify takes no value"),
        ("tiny_hot --frobnicate", "--frobnicate: no such option; --help lists them"),
        ("tiny_hot 64", "64: not an option; --help lists them"),
        ("tiny_hot --plant-damage", "--plant-damage: only --verify would see it; give both"),
        ("random_mixed --min 65 --max 64", "--min 65 exceeds --max 64: give a range"),
        ("larson --min 65 --max 64", "--min 65 exceeds --max 64: give a range"),
        ("xmalloc --min 65 --max 64", "--min 65 exceeds --max 64: give a range"),
        ("rptest --min 65 --max 64", "--min 65 exceeds --max 64: give a range"),
        ("zeroed --min 65 --max 64", "--min 65 exceeds --max 64: give a range"),
        ("fill --min 65 --max 64", "--min 65 exceeds --max 64: give a range"),
        ("growing_buffers --to 1K --step 2K", "--step 2048 exceeds --to 1024: give buffers room for a step"),
        ("huge_realloc --from 2K --to 1K", "--from 2048 exceeds --to 1024: give the smaller one first"),
        (
            "huge_realloc --from 64 --growth 1",
            "--growth and --step are too small for a block of 64 bytes to grow: raise one",
        ),
    ],
)
def test_bad_arguments_are_refused_in_one_line(
    workload_programs: Mapping[str, Path], line: str, complaint: str
) -> None:
    outcome = run(workload_programs, line)
    assert (outcome.status, outcome.stdout) == (2, "")
    assert outcome.error_line() == f"{program_of(line)}: {complaint}"


def test_of_an_option_given_twice_the_last_counts(workload_programs: Mapping[str, Path]) -> None:
    line = "tiny_hot --size 2K --operations 10"
    figures = result(run(workload_programs, line, "--operations=30", "--size", "1M"))
    assert (figures["operations"], figures["size_bytes"]) == (30, 1 << 20)


def test_memory_that_is_not_to_be_had_ends_the_run(workload_programs: Mapping[str, Path]) -> None:
    limited = ["sh", "-c", 'ulimit -v 1000000 && exec "$0" "$@"', str(workload_programs["huge_realloc"])]
    outcome = Command(limited, {})("--to", "4G")
    assert outcome.status == 1
    assert outcome.error_line().startswith("huge_realloc: out of memory: ")


def test_a_result_that_cannot_be_written_is_a_failure(workload_programs: Mapping[str, Path]) -> None:
    full = ["sh", "-c", 'exec "$0" "$@" >/dev/full', str(workload_programs["tiny_hot"])]
    outcome = Command(full, {})("--operations", "10")
    assert outcome.status == 1
    assert outcome.error_line() == "tiny_hot: the result cannot be written: No space left on device"
