"""`hakmem compare`: the program under every allocator, and what is said of each."""

import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fake_allocators import cache_fake

from .command import Command, Outcome
from .conftest import Compile

# A line for each run: the name of the allocator.
NOTE_SIDE = """
import re, sys
found = re.search(r"lib(hakmem|snmalloc|scudo|tcmalloc)[.]so", open("/proc/self/maps").read())
print(found[1] if found else "system", file=open(sys.argv[1], "a"))
"""

MANY_BLOCKS = """
#include <stdlib.h>
int main(void) {
    for (int i = 0; i < 1000; i++)
        if (!malloc(100))
            return 1;
    return 0;
}
"""


@pytest.fixture
def compare(hakmem: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """The command with an empty cache, which `cache_fake` fills."""
    cache = str(tmp_path / "cache")
    monkeypatch.setenv("XDG_CACHE_HOME", cache)
    return Command([*hakmem.arguments, "compare"], {**hakmem.environment, "XDG_CACHE_HOME": cache})


def sides(outcome: Outcome) -> dict[str, Any]:
    return {entry["name"]: entry for entry in json.loads(outcome.stdout)["allocators"]}


def test_python_script_where_no_peer_was_built(compare: Command, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("print(sum(len(str(i)) for i in range(20000)))")
    outcome = compare("--runs", "1", "--", "python3", script)
    assert outcome.status == 0, outcome.stderr
    assert outcome.stdout.startswith("88890\n")
    assert outcome.stdout.count("88890") == 1
    for start in ("HAKMEM", "glibc"):
        rows = [line for line in outcome.stdout.splitlines() if line.lstrip().startswith(start)]
        assert len(rows) == 2, start  # speed and memory
    assert "Not on this machine: " in outcome.stdout


def test_every_figure_has_a_median_a_ratio_and_a_spread(compare: Command) -> None:
    outcome = compare("--runs", "2", "--allocators", "system,hakmem", "--json", "--", "true")
    found = sides(outcome)
    keys = {
        "wall_seconds",
        "cpu_seconds",
        "context_switches",
        "peak_rss_bytes",
        "end_rss_bytes",
        "page_faults",
    }
    for entry in found.values():
        assert entry["median"].keys() == entry["ratio"].keys() == entry["spread"].keys() == keys
        assert entry["median"]["peak_rss_bytes"] > 0
        assert entry["median"]["page_faults"] > 0
    assert set(found["system"]["ratio"].values()) <= {1.0, None}


def test_allocators_take_turns_in_changing_order(compare: Command, tmp_path: Path) -> None:
    cache_fake(tmp_path, "snmalloc")
    notes = tmp_path / "notes"
    names = "hakmem,system,snmalloc"
    outcome = compare("--runs", "3", "--allocators", names, sys.executable, "-c", NOTE_SIDE, notes)
    assert outcome.status == 0, outcome.stderr
    shown, *rest = notes.read_text().split()
    assert shown == "system"
    rounds = [rest[0:3], rest[3:6], rest[6:9]]
    assert all(sorted(order) == sorted(names.split(",")) for order in rounds)
    assert len({order[0] for order in rounds}) == 3


def test_the_first_named_is_the_reference_where_the_system_is_not_compared(
    compare: Command, tmp_path: Path
) -> None:
    cache_fake(tmp_path, "snmalloc")
    outcome = compare("--runs", "1", "--allocators", "snmalloc,hakmem", "--json", "true")
    document = json.loads(outcome.stdout)
    assert document["reference"] == "snmalloc"
    assert [entry["name"] for entry in document["allocators"]] == ["snmalloc", "hakmem"]


def test_an_allocator_that_stalls_shows_in_the_context_switches(
    compare: Command, compiled: Compile, tmp_path: Path
) -> None:
    cache_fake(tmp_path, "snmalloc", "SLEEPS")
    outcome = compare("--runs", "1", "--allocators", "system,snmalloc", "--json", compiled(MANY_BLOCKS))
    found = sides(outcome)
    assert found["snmalloc"]["median"]["context_switches"] >= 1000
    assert found["system"]["median"]["context_switches"] < 1000


def test_an_allocator_that_wastes_shows_in_memory_and_faults(
    compare: Command, compiled: Compile, tmp_path: Path
) -> None:
    cache_fake(tmp_path, "snmalloc", "WASTES=65536")
    outcome = compare("--runs", "1", "--allocators", "system,snmalloc", "--json", compiled(MANY_BLOCKS))
    wasteful = sides(outcome)["snmalloc"]["median"]
    assert wasteful["peak_rss_bytes"] >= 1000 * 65536
    assert wasteful["end_rss_bytes"] >= 1000 * 65536
    assert wasteful["page_faults"] > 100


def test_a_peak_without_children_is_marked_and_not_compared_with_one_that_has_them(
    compare: Command, compiled: Compile, tmp_path: Path
) -> None:
    cache_fake(tmp_path, "snmalloc", "WASTES=65536")
    command = ["sh", "-c", f"'{compiled(MANY_BLOCKS)}'; true"]
    run = ["--runs", "1", "--allocators", "system,snmalloc"]
    outcome = compare(*run, *command)
    _, wasteful = (line.split() for line in outcome.stdout.splitlines() if line.startswith(" fake snmalloc"))
    assert wasteful[5] == "-"  # behind the name, the version, the peak and its unit
    assert outcome.stdout.count("≥") == 2
    found = sides(compare(*run, "--json", *command))
    system, snmalloc = (found[name]["runs"][0] for name in ("system", "snmalloc"))
    assert system["peak_rss_bytes"] < system["children_peak_rss_at_most_bytes"] < 1000 * 65536
    assert snmalloc["peak_rss_bytes"] > 1000 * 65536
    assert snmalloc["children_peak_rss_at_most_bytes"] is None


def test_the_same_library_under_two_names_has_the_same_figures(
    compare: Command, compiled: Compile, tmp_path: Path
) -> None:
    for name in ("snmalloc", "tcmalloc"):
        cache_fake(tmp_path, name, "WASTES=65536")
    outcome = compare(
        "--runs", "3", "--allocators", "snmalloc,system,tcmalloc", "--json", compiled(MANY_BLOCKS)
    )
    first, second = (sides(outcome)[name]["median"] for name in ("snmalloc", "tcmalloc"))
    for figure in ("peak_rss_bytes", "end_rss_bytes", "page_faults"):
        assert first[figure] == pytest.approx(second[figure], rel=0.01), figure


class TestFailures:
    """What fails under one allocator is said, with its own row, and counts in no median."""

    @pytest.fixture
    def victim(self, compiled: Compile, tmp_path: Path) -> Path:
        cache_fake(tmp_path, "snmalloc", "ABORTS")
        return compiled(MANY_BLOCKS, name="victim")

    def test_table(self, compare: Command, victim: Path) -> None:
        outcome = compare("--runs", "2", "--allocators", "system,snmalloc", victim)
        assert outcome.status == 128 + signal.SIGABRT
        (row,) = (line for line in outcome.stdout.splitlines() if line.rstrip().endswith("SIGABRT in 2 of 2"))
        assert row.split()[:4] == ["fake", "snmalloc", "1.0", "-"]
        assert "fake snmalloc 1.0: was killed by SIGABRT in 2 of 2 runs" in outcome.stdout
        assert "it said: fake: heap damaged" in outcome.stdout

    def test_json(self, compare: Command, victim: Path) -> None:
        outcome = compare("--runs", "2", "--allocators", "system,snmalloc", "--json", victim)
        document = json.loads(outcome.stdout)
        assert document["exit_status"] == outcome.status == 128 + signal.SIGABRT
        entry = sides(outcome)["snmalloc"]
        assert entry["failed_runs"] == 2
        assert entry["median"] is None
        assert [run["signal"] for run in entry["runs"]] == ["SIGABRT"] * 2
        assert sides(outcome)["system"]["median"] is not None

    def test_the_reference_itself(self, compare: Command, victim: Path) -> None:
        outcome = compare("--runs", "1", "--allocators", "snmalloc,hakmem", victim)
        assert outcome.status == 128 + signal.SIGABRT
        assert "SIGABRT in the first run, whose figures do not count" in outcome.stdout
        assert "SIGABRT in 1 of 1" in outcome.stdout

    def test_one_run_of_several(self, compare: Command, tmp_path: Path) -> None:
        program = f"echo >> {tmp_path}/n; test $(wc -l < {tmp_path}/n) != 3 || exit 7"
        outcome = compare("--runs", "2", "--allocators", "system", "--json", "sh", "-c", program)
        assert outcome.status == 7
        entry = sides(outcome)["system"]
        assert [run["exit_status"] for run in entry["runs"]] == [0, 7]
        assert entry["failed_runs"] == 1
        assert entry["median"]["wall_seconds"] == entry["runs"][0]["wall_seconds"]

    def test_a_program_that_always_ends_so(self, compare: Command) -> None:
        outcome = compare("--runs", "1", "--allocators", "system,hakmem", "sh", "-c", "exit 3")
        assert outcome.status == 3
        assert "ended with exit status 3 in every run" in outcome.stdout
        assert "MiB" in outcome.stdout


def test_what_cannot_be_used_is_listed_with_its_reason(compare: Command, tmp_path: Path) -> None:
    cache_fake(tmp_path, "snmalloc", "CRASHES")
    outcome = compare("--runs", "1", "true")
    assert outcome.status == 0
    (line,) = (line for line in outcome.stdout.splitlines() if line.startswith("snmalloc cannot be used"))
    assert "was killed by SIG" in line


@pytest.mark.parametrize("name", ["libc", "glibc"])
def test_the_systems_allocator_by_its_other_names(compare: Command, name: str) -> None:
    outcome = compare("--runs", "1", "--allocators", f"hakmem,{name}", "true")
    assert outcome.status == 0, outcome.stderr
    assert "glibc" in outcome.stdout


def test_unknown_allocator(compare: Command) -> None:
    outcome = compare("--allocators", "hakmem,nonsense", "true")
    assert outcome.status == 1
    assert outcome.stdout == ""
    line = outcome.error_line()
    assert "no allocator is called 'nonsense'" in line
    assert "hakmem, system, mimalloc3" in line


def test_named_allocator_that_is_not_here(compare: Command) -> None:
    outcome = compare("--allocators", "hakmem,snmalloc", "true")
    assert outcome.status == 1
    assert outcome.error_line().startswith("hakmem: 'snmalloc' cannot be used here: neither built")


def test_no_command(compare: Command) -> None:
    outcome = compare("--runs", "1")
    assert outcome.status == 127
    assert "no command given" in outcome.error_line()


def test_command_not_found(compare: Command) -> None:
    outcome = compare("hak-no-such-program")
    assert outcome.status == 127
    assert "hak-no-such-program" in outcome.error_line()


def test_static_program(compare: Command, compiled: Compile) -> None:
    outcome = compare(compiled("int main(void) { return 0; }", "-static"))
    assert outcome.status == 126
    assert "statically linked" in outcome.error_line()


def test_program_that_drops_the_preload(compare: Command) -> None:
    outcome = compare("--allocators", "system,hakmem", "--runs", "1", "env", "-u", "LD_PRELOAD", "true")
    assert outcome.status == 126
    assert "drops LD_PRELOAD" in outcome.error_line()


def test_json_has_standard_output_to_itself(compare: Command) -> None:
    outcome = compare("--runs", "1", "--allocators", "system", "--json", "echo", "from the program")
    assert json.loads(outcome.stdout)["command"] == ["echo", "from the program"]
    assert outcome.stderr == "from the program\n"


def test_report_to_a_file_leaves_the_output_alone(compare: Command, tmp_path: Path) -> None:
    report = tmp_path / "report"
    outcome = compare("--runs", "1", "--allocators", "system", "--report", report, "echo", "only this")
    assert outcome.stdout == "only this\n"
    assert "peak RSS" in report.read_text()


def test_every_run_reads_the_same_input(compare: Command, tmp_path: Path) -> None:
    copies = tmp_path / "copies"
    copies.mkdir()
    outcome = compare(
        "--runs", "1", "--allocators", "system,hakmem", "sh", "-c", f"cat > {copies}/$$", stdin="a\nb\n"
    )
    assert outcome.status == 0
    assert [path.read_text() for path in copies.iterdir()] == ["a\nb\n"] * 3


@pytest.mark.parametrize("tracing", [[], ["--polling"]], ids=["tracing", "polling"])
def test_a_signal_to_the_command_reaches_the_program(compare: Command, tracing: list[str]) -> None:
    status, rest = compare.terminated("--allocators", "system,hakmem", *tracing)
    assert rest.startswith("caught\n")
    assert "Interrupted: no further runs." in rest
    assert status == 5


def test_an_interrupt_between_two_runs_ends_them_and_loses_none(hakmem: Command, tmp_path: Path) -> None:
    runs = f"echo run >> {tmp_path}/runs"
    arguments = ("--runs", "3", "--allocators", "system,hakmem", "sh", "-c", runs)
    outcome = hakmem.interrupted("compare", *arguments)
    assert (outcome.status, outcome.stderr) == (0, "")
    assert "1 run on each allocator" in outcome.stdout
    assert "Interrupted: no further runs." in outcome.stdout
    assert (tmp_path / "runs").read_text() == "run\n" * 2


def test_polled_memory_is_marked_approximate(compare: Command) -> None:
    outcome = compare("--polling", "--runs", "1", "--allocators", "system", "sleep", "0.1")
    assert "~: the last memory seen" in outcome.stdout


def test_tables_fit_a_narrow_terminal(compare: Command, tmp_path: Path) -> None:
    cache_fake(tmp_path, "snmalloc", version="of a rather long name")
    outcome = compare("--runs", "2", "--allocators", "system,hakmem,snmalloc", "true", COLUMNS="80")
    assert max(map(len, outcome.stdout.splitlines())) <= 80
