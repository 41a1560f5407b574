"""`hakmem stats`: the figures of a process, for people and for programs."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from tests.live_path import live_path

from .command import REPOSITORY, Command
from .live_file import Program, crashed, running, running_in_container, sample_statistics

STATISTICS = sample_statistics()


def metrics(text: str) -> dict[str, Metric]:
    families = list(text_string_to_metric_families(text))
    found = {family.name: family for family in families}
    assert len(found) == len(families), "a family was given in two pieces"
    return found


def value(family: Metric, **labels: str) -> float:
    (sample,) = (sample for sample in family.samples if labels.items() <= sample.labels.items())
    return float(sample.value)


def test_table_shows_where_the_memory_is(hakmem: Command, pid: int) -> None:
    outcome = hakmem("stats", str(pid))
    assert (outcome.status, outcome.stderr) == (0, "")
    assert outcome.stdout.startswith(f"fake ({pid}), HAKMEM 0.1.0, up 1 min 21 s; figures of ")
    for name, shown in (
        ("live", "5.0 MiB"),
        ("cached", "111.0 KiB"),
        ("free in slabs", "222.0 KiB"),
        ("slab tails", "33.0 KiB"),
        ("retained", "2.0 MiB"),
        ("metadata", "44.0 KiB"),
        ("less: untouched", " 55.0 KiB"),
        ("= resident", "7.0 MiB"),
        ("room", "12.0 MiB"),
        ("room", "left of the 512.0 MiB that its container may use; near the limit: less that is free stays"),
    ):
        assert shown in next(line for line in outcome.stdout.splitlines() if line.strip().startswith(name))
    assert "fall-backs: 3 foreign_free" in outcome.stdout
    assert "heaps: 4 active, 1 abandoned, 0 shared" in outcome.stdout
    assert "options set: stats=1" in outcome.stdout


def test_a_container_without_a_limit_or_not_near_it(hakmem: Command) -> None:
    with running(Program(sample_statistics(container={}))) as process:
        assert "container" not in hakmem("stats", str(process.pid)).stdout
        found = metrics(hakmem("stats", str(process.pid), "--prometheus").stdout)
        assert value(found["hakmem_container_scarce"]) == 0
        assert "hakmem_container_limit_bytes" not in found
    roomy = {"limit_bytes": 512 << 20, "room_bytes": 412 << 20, "age_ms": 90_000, "scarce": False}
    with running(Program(sample_statistics(container=roomy))) as process:
        shown = hakmem("stats", str(process.pid)).stdout
    assert "412.0 MiB" in shown
    assert "left 1 min 30 s ago of the 512.0 MiB" in shown
    assert "near the limit" not in shown


def test_table_shows_size_classes_by_what_they_cost(hakmem: Command, pid: int) -> None:
    lines = hakmem("stats", str(pid)).stdout.splitlines()
    small = next(index for index, line in enumerate(lines) if line.strip().startswith("64 B"))
    large = next(index for index, line in enumerate(lines) if line.strip().startswith("1,040 B exact"))
    assert small < large
    assert "66.7%" in lines[small]  # 2048 of 2048 + 17 + 1007


@pytest.mark.parametrize("columns", ["0", "20"])
def test_tables_keep_their_figures_on_a_narrow_terminal(hakmem: Command, pid: int, columns: str) -> None:
    lines = hakmem("stats", str(pid), COLUMNS=columns).stdout.splitlines()
    (lane,) = (line.split() for line in lines if line.startswith("tiny"))
    assert " ".join(lane) == "tiny 11 4.0 KiB 1.0 KiB 512 B 256 B 8.0 KiB 50.0%"
    (size_class,) = (line for line in lines if line.startswith("64 B"))
    assert "2,048" in size_class


def test_json_is_what_the_library_published(hakmem: Command, pid: int) -> None:
    outcome = hakmem("stats", str(pid), "--json")
    assert outcome.status == 0
    assert json.loads(outcome.stdout) == {**STATISTICS, "pid": pid}


def test_prometheus_has_every_figure(hakmem: Command, pid: int) -> None:
    outcome = hakmem("stats", str(pid), "--prometheus")
    assert outcome.status == 0, outcome.stderr
    found = metrics(outcome.stdout)
    common = {"pid": str(pid), "program": "fake"}
    assert value(found["hakmem_live_bytes"], **common) == 5 << 20
    assert value(found["hakmem_uptime_seconds"], **common) == 81.234
    assert value(found["hakmem_lane_live_bytes"], lane="mid", **common) == 7777
    assert value(found["hakmem_class_live_blocks"], size_class="64", **common) == 2048
    assert value(found["hakmem_heaps"], state="active", **common) == 4
    assert value(found["hakmem_metadata_part_bytes"], part="page_map", **common) == 8192
    assert value(found["hakmem_fallbacks"], reason="foreign_free", **common) == 3
    assert value(found["hakmem_purged_bytes"], **common) == 1 << 20
    assert value(found["hakmem_container_limit_bytes"], **common) == 512 << 20
    assert value(found["hakmem_container_room_bytes"], **common) == 12 << 20
    assert value(found["hakmem_container_scarce"], **common) == 1
    for name, figure in STATISTICS["memory"].items():
        if figure is not None and name != "measured":
            assert value(found[f"hakmem_{name}"], **common) == figure


def test_prometheus_gives_the_kernels_figure_where_the_library_has_none(hakmem: Command, pid: int) -> None:
    found = metrics(hakmem("stats", str(pid), "--prometheus").stdout)
    assert value(found["hakmem_process_resident_bytes"]) > 1 << 20


def test_prometheus_counters_are_there_from_zero_and_named_as_such(hakmem: Command, pid: int) -> None:
    text = hakmem("stats", str(pid), "--prometheus").stdout
    assert f'hakmem_remote_flushes_total{{pid="{pid}",program="fake"}} 0.0\n' in text
    assert "# TYPE hakmem_refills_total counter\n" in text
    assert "# HELP hakmem_refills_total Magazines that ran empty and were filled\n" in text
    for family in metrics(text).values():
        assert family.documentation
        assert family.name.startswith("hakmem_")
        assert family.type in ("gauge", "counter", "histogram")


def test_prometheus_batches_are_a_histogram(hakmem: Command, pid: int) -> None:
    samples = metrics(hakmem("stats", str(pid), "--prometheus").stdout)["hakmem_refill_batch_blocks"].samples
    buckets = {sample.labels["le"]: sample.value for sample in samples if sample.name.endswith("_bucket")}
    assert (buckets["1.0"], buckets["3.0"], buckets["63.0"], buckets["127.0"]) == (1, 3, 3, 100)
    assert buckets["+Inf"] == 100
    (total,) = (sample.value for sample in samples if sample.name.endswith("_sum"))
    assert total == 6400


def test_prometheus_escapes_a_programs_name(hakmem: Command) -> None:
    name = 'a "quoted\\ name\nof two lines'
    with running(Program(sample_statistics(program=name))) as process:
        text = hakmem("stats", str(process.pid), "--prometheus").stdout
    shown = name.replace("\n", "\ufffd")
    assert 'program="a \\"quoted\\\\ name\ufffdof two lines"' in text
    assert value(metrics(text)["hakmem_live_bytes"], program=shown) == 5 << 20


EVERY_VIEW = pytest.mark.parametrize(
    "view", [("stats",), ("top", "--once", "--interval", "0.1"), ("stats", "--prometheus")]
)


@EVERY_VIEW
def test_a_name_in_letters_beyond_ascii(hakmem: Command, view: tuple[str, ...]) -> None:
    """The library writes each byte as the character with its number."""
    published = "café ↯".encode().decode("latin-1")
    with running(Program(sample_statistics(program=published))) as process:
        outcome = hakmem(*view, str(process.pid))
    assert "café ↯" in outcome.stdout


@EVERY_VIEW
def test_a_name_has_no_say_over_the_terminal(hakmem: Command, view: tuple[str, ...]) -> None:
    published = "see\x1b[31m\nred\x7f\xc2\x9b\xff!"
    with running(Program(sample_statistics(program=published, version="1\x1b"))) as process:
        outcome = hakmem(*view, str(process.pid))
    assert "see\ufffd[31m\ufffdred\ufffd\ufffd\ufffd!" in outcome.stdout
    assert "\x1b" not in outcome.stdout


def test_a_file_that_is_not_the_librarys_has_no_say_over_the_terminal(hakmem: Command) -> None:
    with running(Program(sample_statistics(program="\x9b31m"))) as process:
        outcome = hakmem("stats", str(process.pid), "--json")
    assert outcome.stdout.isascii()
    assert json.loads(outcome.stdout)["program"] == "\x9b31m"


@pytest.mark.parametrize("command", ["stats", "top"])
def test_names_that_read_as_markup_are_shown_as_they_are(hakmem: Command, command: str) -> None:
    statistics = sample_statistics(fallbacks={"[/x]": 3}, heaps={"[red]": 4, "[/y]": 1}, program="[/z]")
    with running(Program(statistics)) as process:
        outcome = hakmem(command, *(["--once"] if command == "top" else []), str(process.pid))
    assert outcome.status == 0, outcome.stderr
    assert "3 [/x]" in outcome.stdout
    assert command == "top" or "4 [red], 1 [/y]" in outcome.stdout


def test_measure_asks_the_process_first(hakmem: Command, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with running(Program(STATISTICS, log=str(log))) as process:
        assert hakmem("stats", str(process.pid), "--measure").status == 0
    assert log.read_text() == "7 0\n"


def test_measure_asks_again_where_estimates_came_before_it_had_read(hakmem: Command, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with running(Program(STATISTICS, log=str(log), overtaken=2)) as process:
        outcome = hakmem("stats", str(process.pid), "--measure", "--json")
    assert (outcome.status, outcome.stderr) == (0, "")
    assert json.loads(outcome.stdout)["memory"]["measured"] is True
    assert log.read_text() == "7 0\n" * 3


def test_estimates_are_never_shown_as_measured(hakmem: Command) -> None:
    with running(Program(STATISTICS, overtaken=1000)) as process:
        outcome = hakmem("stats", str(process.pid), "--measure", "--json")
    assert outcome.status == 0
    assert json.loads(outcome.stdout)["memory"]["measured"] is False
    assert "what is resident is estimated here" in outcome.error_line()


@pytest.mark.parametrize("command", ["stats", "top"])
@pytest.mark.parametrize(("then", "said"), [(1 << 40, "shrunk"), (1 << 10, "grown")])
def test_a_process_that_has_changed_since(hakmem: Command, command: str, then: int, said: str) -> None:
    memory = {**STATISTICS["memory"], "process_resident_bytes": then}
    with running(Program(sample_statistics(memory=memory))) as process:
        outcome = hakmem(command, str(process.pid), *(("--once",) if command == "top" else ()))
    assert f"the process has {said} since: now " in outcome.stdout


@pytest.mark.parametrize(("heap", "said"), [(1 << 40, "has shrunk since, or"), (1 << 20, "")])
def test_old_figures_beside_those_of_the_kernel(hakmem: Command, heap: int, said: str) -> None:
    """Where the process did not say how much it had in all."""
    memory = {**STATISTICS["memory"], "heap_resident_bytes": heap}
    with running(Program(sample_statistics(memory=memory), age_ms=60_000)) as process:
        first, second = hakmem("stats", str(process.pid)).stdout.splitlines()[:2]
    assert "figures of 1 min" in first
    assert said in second
    assert second.startswith("the process ") == bool(said)


@pytest.mark.parametrize("command", ["stats", "top"])
def test_resident_and_whole_process_are_explained(hakmem: Command, pid: int, command: str) -> None:
    outcome = hakmem(command, str(pid), *(("--once", "--interval", "0.1") if command == "top" else ()))
    assert "the allocator's memory" in outcome.stdout
    assert "that and all else that is resident: code, stacks, other mappings" in outcome.stdout


def test_a_crashed_process_is_told_of_as_such(hakmem: Command) -> None:
    with crashed(Program(STATISTICS)) as pid:
        outcome = hakmem("stats", str(pid))
        assert (outcome.status, outcome.stderr) == (0, "")
        assert f"fake ({pid})" in outcome.stdout
        assert "it has ended, and left these figures behind" in outcome.stdout
        outcome = hakmem("stats", str(pid), "--prometheus")
        assert outcome.status == 0
        assert "has ended; these are its last figures" in outcome.error_line()
        assert "hakmem_process_resident_bytes" not in metrics(outcome.stdout)


def test_a_process_in_a_container(hakmem: Command, tmp_path: Path) -> None:
    with running_in_container(Program(STATISTICS), tmp_path) as pid:
        outcome = hakmem("stats", str(pid), "--json", "--measure")
        assert outcome.status == 0, outcome.stderr
        assert json.loads(outcome.stdout)["pid"] != pid
        found = metrics(hakmem("stats", str(pid), "--prometheus").stdout)
        assert value(found["hakmem_live_bytes"], pid=str(pid)) == 5 << 20


def test_a_reused_process_number_is_refused(hakmem: Command) -> None:
    with running(Program(STATISTICS, start_ticks=1)) as process:
        outcome = hakmem("stats", str(process.pid))
    assert outcome.status == 1
    assert "is not the one that left" in outcome.error_line()


def test_a_process_that_became_another_program_is_refused(hakmem: Command, tmp_path: Path) -> None:
    source = f"""
import os, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import live_file
live_file._serve(live_file.Program(lifetime_seconds=0))
os.execv({sys.executable!r}, ["python", "-c", "import time; print('became', flush=True); time.sleep(60)"])
"""
    process = subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == ["ready\n", "became\n"]
        outcome = hakmem("stats", str(process.pid))
    finally:
        process.kill()
        process.wait()
        live_path(process.pid).unlink()
    assert outcome.status == 1
    assert "has become another program" in outcome.error_line()


@pytest.mark.parametrize("number", ["0", "-1", "x", "9" * 5000, "1.5"])
def test_what_is_no_process_number(hakmem: Command, number: str) -> None:
    outcome = hakmem("stats", "--", number)
    assert outcome.status == 1
    assert f"'{number}' is not a process number" in outcome.error_line()


def test_a_damaged_file(hakmem: Command) -> None:
    for program, said in (
        (Program(magic="SOMETHIN"), "it does not begin as one"),
        (Program(text="{"), "its text is not JSON"),
        (Program(text="[]"), "its text is not a JSON object"),
        (Program(sample_statistics(schema=99)), "publishes schema 99"),
    ):
        with running(program) as process:
            outcome = hakmem("stats", str(process.pid))
        assert outcome.status == 1
        assert said in outcome.error_line()
    with running(Program(STATISTICS)) as process:
        os.truncate(live_path(process.pid), 4096)
        assert "it is cut off" in hakmem("stats", str(process.pid)).error_line()


def test_two_forms_at_once(hakmem: Command) -> None:
    outcome = hakmem("stats", "1", "--json", "--prometheus")
    assert outcome.status == 1
    assert "choose one" in outcome.error_line()


def test_the_document_names_every_fall_back_as_it_is_published() -> None:
    source = (REPOSITORY / "src/os/report.c").read_text()
    published = [text.replace(" ", "_") for text in re.findall(r"\[FALLBACK_\w+\] = \"([^\"]+)\"", source)]
    document = (REPOSITORY / "docs/statistics.md").read_text()
    reasons = document.split("### `fallbacks`")[1].split("\n#")[0].split("The reasons:")[1]
    assert published
    assert re.findall(r"`(\w+)`", reasons) == published
