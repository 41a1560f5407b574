"""bench/suite.toml, and what is said of a suite with mistakes in it."""

import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from hakmem.errors import HakmemError

from bench.suite import KINDS, PLACEHOLDERS, load

ENTRY = """
[[workload]]
name = "mix/small"
kind = "time"
stands_for = "Something."
command = ["{workloads}/mix", "--threads", "{threads}"]
"""

SCALING = """
[[scaling]]
name = "mix/scaling"
stands_for = "Something."
command = ["{workloads}/mix", "--threads", "{threads}", "--operations={share}"]
work = 1000
work_full = 5000
"""

Written = Callable[[str], Path]


@pytest.fixture
def written(tmp_path: Path) -> Written:
    def write(text: str) -> Path:
        path = tmp_path / "suite.toml"
        path.write_text(text)
        return path

    return write


def test_the_suite_of_the_repository_is_sound() -> None:
    suite = load()
    assert {workload.kind for workload in suite.workloads} == set(KINDS)
    families = {workload.family for workload in suite.workloads}
    assert {
        "tiny_hot",
        "random_mixed",
        "larson",
        "xmalloc",
        "memory_usage",
        "battle",
        "fragmentation",
    } <= families
    assert suite.instructions
    for workload in suite.workloads:
        assert workload.stands_for.endswith("."), workload.name
        places = dict.fromkeys(PLACEHOLDERS, "x")
        assert workload.arguments(places, full=True)[: len(workload.command)] == workload.arguments(
            places, full=False
        )


def test_placeholders_and_full_arguments(written: Written) -> None:
    suite = load(written(ENTRY + 'args_full = ["--operations", "9"]'))
    places = {"workloads": "/w", "threads": "2"}
    (workload,) = suite.workloads
    assert workload.arguments(places, full=False) == ("/w/mix", "--threads", "2")
    assert workload.arguments(places, full=True) == ("/w/mix", "--threads", "2", "--operations", "9")


def test_what_is_measured_besides(written: Written) -> None:
    (plain,) = load(written(ENTRY)).workloads
    assert not (plain.contention or plain.sampling)
    (both,) = load(written(ENTRY + "contention = true\nsampling = true")).workloads
    assert both.contention
    assert both.sampling


def test_numbers_of_threads(written: Written) -> None:
    (plain,) = load(written(ENTRY + SCALING)).scaling
    assert not plain.control
    assert [plain.work_of_a_core(full=full) for full in (False, True)] == [1000, 5000]
    assert plain.with_threads(64, 31) == ("{workloads}/mix", "--threads", "64", "--operations=31")
    (control,) = load(written(ENTRY + SCALING + "control = true")).scaling
    assert control.control


def test_the_loops_of_the_repository_have_controls_and_loads() -> None:
    assert {entry.control for entry in load().scaling} == {False, True}


def test_sizes_that_are_told_are_those_of_the_command() -> None:
    told = [
        (match[1], match[2], entry.command)
        for entry in load().workloads
        if "--min" in entry.command and (match := re.search(r"(\d+) to (\d+) KiB", entry.stands_for))
    ]
    assert told
    for least, most, command in told:
        options = dict(pairwise(command))
        assert (options["--min"], options["--max"]) == (f"{least}K", f"{most}K"), command


def test_every_loop_of_several_threads_counts_what_they_wait_for() -> None:
    for workload in load().workloads:
        several = {"{threads}", "--pairs"}.intersection(workload.command)
        assert workload.contention or not several, workload.name


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "no [[workload]] in it"),
        ("[[workload", "not TOML"),
        ("[[thing]]", "unknown table 'thing'"),
        (ENTRY + ENTRY, "workload 'mix/small': field 'name': used 2 times"),
        (ENTRY.replace("name =", "# name ="), "workload number 1: field 'name': missing"),
        (
            ENTRY.replace("mix/small", "Mix small"),
            "workload 'Mix small': field 'name': 'Mix small' is not of",
        ),
        (
            ENTRY.replace('"time"', '"tme"'),
            "workload 'mix/small': field 'kind': 'tme' is not one of time, memory",
        ),
        (ENTRY.replace('"Something."', '""'), "workload 'mix/small': field 'stands_for': is empty"),
        (ENTRY.replace('"Something."', "7"), "workload 'mix/small': field 'stands_for': must be text"),
        (
            ENTRY.replace("{threads}", "{cores}"),
            "workload 'mix/small': field 'command': unknown placeholder {cores}",
        ),
        (ENTRY + "args_full = [1]", "workload 'mix/small': field 'args_full': must be a list of texts"),
        *(
            (
                ENTRY + f"timeout_seconds{full} = {value}",
                f"'mix/small': field 'timeout_seconds{full}': must be a number above 0, and at most 86400",
            )
            for full in ("", "_full")
            for value in ("-1", "0", "nan", "inf", "1e30", "86401", f"1{'0' * 400}", "true", "'60'")
        ),
        ("workload = [1, 2]", "workload number 1: must be a table"),
        (ENTRY.replace("[[workload]]", "scaling = ['a']\n[[workload]]"), "scaling number 1: must be a table"),
        (
            ENTRY + r'args_full = ["a\u0000b"]',
            "workload 'mix/small': field 'args_full': must not have the character NUL",
        ),
        (
            ENTRY + r'needs = ["\u0000"]',
            "workload 'mix/small': field 'needs': must not have the character NUL",
        ),
        (ENTRY + "rounds_most = 0", "workload 'mix/small': field 'rounds_most': must be at least 1"),
        (ENTRY + "sampling = 1", "workload 'mix/small': field 'sampling': must be true or false"),
        (ENTRY + "colour = 1", "workload 'mix/small': field 'colour': unknown; there are name, kind"),
        (
            ENTRY + '[[instructions]]\nname = "pair"\ncommand = ["x"]\noperations = [9, 1]',
            "instructions 'pair': field 'operations': must be two whole numbers",
        ),
        (ENTRY + SCALING + SCALING, "scaling 'mix/scaling': field 'name': used 2 times"),
        (ENTRY + SCALING.replace("work =", "# work ="), "scaling 'mix/scaling': field 'work': missing"),
        (
            ENTRY + SCALING.replace("{share}", "9"),
            "scaling 'mix/scaling': field 'command': {share} is not in it",
        ),
        (
            ENTRY.replace("{threads}", "{share}"),
            "workload 'mix/small': field 'command': unknown placeholder {share}",
        ),
    ],
)
def test_mistakes_are_named(written: Written, text: str, problem: str) -> None:
    file = written(text)
    with pytest.raises(HakmemError) as caught:
        load(file)
    assert str(caught.value).startswith(f"{file}: ")
    assert problem in str(caught.value)


def test_a_suite_of_other_bytes_is_named(tmp_path: Path) -> None:
    file = tmp_path / "suite.toml"
    file.write_bytes(ENTRY.replace("Something.", "Größe").encode("latin-1"))
    with pytest.raises(HakmemError, match=r"suite.toml: not UTF-8: .* in line 5"):
        load(file)


def test_a_missing_suite_is_named(tmp_path: Path) -> None:
    with pytest.raises(HakmemError, match="cannot read the suite"):
        load(tmp_path / "none.toml")


def test_only(written: Written) -> None:
    suite = load(written(ENTRY + ENTRY.replace("mix/small", "pairs/64") + SCALING))
    assert [workload.name for workload in suite.only(["mix*"]).workloads] == ["mix/small"]
    assert [entry.name for entry in suite.only(["*/scaling"]).scaling] == ["mix/scaling"]
    assert not suite.only(["pairs*"]).scaling
    assert suite.only([]) == suite
    with pytest.raises(HakmemError, match=r"no workload matches 'larson' .*there are mix, pairs"):
        suite.only(["mix*", "larson"])
    with pytest.raises(HakmemError, match=r"no workload matches 'larson\*'; there are mix, pairs"):
        suite.only(["larson*"])
