"""Results, written and read again."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest
from hakmem.errors import HakmemError

from bench.benchmark import keep
from bench.page import write
from bench.results import (
    Contention,
    InstructionCount,
    Missing,
    Results,
    ScalingResult,
    SystemCalls,
    WorkloadResult,
    load,
    save,
    save_csv,
)

from .synthetic import failed, results, run


@pytest.fixture
def full() -> Results:
    """With something in every field."""
    made = results()
    made.missing.append(Missing("rpmalloc", "not in any registry"))
    made.skipped.append(Missing("redis/benchmark", "needs redis-server"))
    made.workloads[0].runs["system"][2] = failed(3, "was killed by SIGSEGV")
    made.workloads[1].runs["hakmem"][0] = run(1, 5e-8, 3, data_bytes=7)
    made.instructions.append(
        InstructionCount("pair", "x", {"hakmem": 31.5}, [Missing("tcmalloc", "crashes")])
    )
    made.system_calls.append(
        SystemCalls("mix/small", {"hakmem": {"mmap": 20}}, [Missing("tcmalloc", "crashes")])
    )
    made.contention.append(Contention("mix/small", 1e6, {"refills": 12}))
    made.contention.append(Contention("mix/large", failure="wrote no statistics"))
    sampled = WorkloadResult("mix/small", "time", "It.", "x")
    sampled.runs = {"off": [run(1, 1e-8)], "on": [run(1, 2e-8, data_bytes=7)]}
    made.sampling.append(sampled)
    scaled = ScalingResult("mix/scaling", "time", "It.", "x", threads=64, control=True)
    scaled.runs = {"hakmem": [run(1, 1e-8)], "system": [failed(1, "was killed by SIGSEGV")]}
    made.scaling.append(scaled)
    return made


def test_what_is_written_is_read(full: Results, tmp_path: Path) -> None:
    first, second = tmp_path / "1.json", tmp_path / "2.json"
    save(full, first)
    again = load(first)
    save(again, second)
    assert first.read_text() == second.read_text()
    assert again.workloads[0].failures("system") == ["was killed by SIGSEGV"]
    assert len(again.workloads[0].good("system")) == 7
    assert again.workloads[1].runs["hakmem"][0].figures == {"data_bytes": 7}
    assert again.instructions == full.instructions
    assert again.missing == full.missing
    assert again.contention == full.contention
    assert again.sampling == full.sampling
    assert again.scaling == full.scaling


def test_times_are_rounded_and_bytes_are_not(full: Results, tmp_path: Path) -> None:
    runs = full.workloads[0].runs["hakmem"]
    runs[0] = replace(runs[0], peak_rss_bytes=123456789.0, wall_seconds=1.23456789)
    save(full, tmp_path / "r.json")
    kept = load(tmp_path / "r.json").workloads[0].runs["hakmem"][0]
    assert kept.peak_rss_bytes == 123456789
    assert kept.wall_seconds == 1.234568


def test_the_page_that_is_made_again_is_the_same(tmp_path: Path) -> None:
    at_the_edge = results({"mix/small": {"hakmem": 10.04999999, "mimalloc3": 12.0}}, noise=0)
    page_file = keep(at_the_edge, tmp_path)
    told = page_file.read_text()
    assert "10.1 ns" in told
    assert write(load(tmp_path / "results.json"), None, tmp_path) == page_file
    assert page_file.read_text() == told


def test_the_schema_is_named(full: Results, tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    save(full, file)
    document = json.loads(file.read_text())
    assert document["schema"] == 1
    file.write_text(json.dumps({**document, "schema": 99}))
    with pytest.raises(HakmemError, match="has schema 99, this version reads 1"):
        load(file)


def test_a_file_from_before_a_section_was_measured_is_read(full: Results, tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    save(full, file)
    document = json.loads(file.read_text())
    del document["contention"], document["sampling"], document["scaling"]
    file.write_text(json.dumps(document))
    old = load(file)
    assert not (old.contention or old.sampling or old.scaling)


def test_only_calm_rounds_count_if_there_are_enough() -> None:
    result = results().workloads[0]
    calm = result.runs["hakmem"]
    busy = [replace(run(number, 9e-8), other_load=0.5) for number in range(9, 12)]
    result.runs["hakmem"] = calm + busy
    assert result.good("hakmem") == calm
    result.runs["hakmem"] = calm[:2] + busy
    assert result.good("hakmem") == calm[:2] + busy


@pytest.mark.parametrize(
    ("text", "problem"),
    [("{", "not JSON"), ("[]", "there is no 'schema'"), ('{"schema": 1}', "damaged"), ("", "not JSON")],
)
def test_other_files_are_refused(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "r.json"
    file.write_text(text)
    with pytest.raises(HakmemError, match=problem):
        load(file)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(HakmemError, match="cannot read the results"):
        load(tmp_path / "none.json")


def test_csv(full: Results, tmp_path: Path) -> None:
    file = tmp_path / "r.csv"
    save_csv(full, file)
    with file.open() as lines:
        rows = list(csv.DictReader(lines))
    assert len(rows) == len(full.workloads) * len(full.allocators)
    row = next(row for row in rows if (row["workload"], row["allocator"]) == ("mix/small", "system"))
    assert row["good_runs"] == "7"
    assert row["failed_runs"] == "1"
    assert row["first_failure"] == "was killed by SIGSEGV"
    assert float(row["time_seconds"]) == pytest.approx(30e-9, rel=0.01)
    times = [row[f"time_{name}seconds"] for name in ("", "lower_quartile_", "median_", "upper_quartile_")]
    assert times == sorted(times, key=float)


def test_an_unwritable_place_is_named(full: Results, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HakmemError, match="cannot write"):
        save(full, tmp_path / "file" / "r.json")
