"""The page: what a reader is told, and that it is told of every allocator alike."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from bench.page import text, write
from bench.results import InstructionCount, Missing, Results
from bench.view import RSS, TIME, View, mean

from .synthetic import MEMORY, TIMES, failed, results


def page(made: Results, previous: Results | None = None) -> str:
    return text(View(made), View(previous) if previous else None, [])


def rows(page_text: str, first_cell: str) -> list[list[str]]:
    """The cells of every table row that starts with this one, marks for bold taken off."""
    lines = (line.strip("| ").split(" | ") for line in page_text.splitlines() if line.startswith("| "))
    plain = ([cell.replace("**", "") for cell in cells] for cells in lines)
    return [cells for cells in plain if cells[0] == first_cell]


def section(page_text: str, title: str) -> str:
    _, _, rest = page_text.partition(f"## {title}\n")
    assert rest, f"no section {title}"
    return rest.partition("\n## ")[0]


def test_the_summary_has_the_three_means_for_time_and_memory() -> None:
    told = page(results(noise=0))
    time = (10 / 12 * 50 / 40 * 4 / 5) ** (1 / 3)
    memory = (2 / 6 * 20 / 30 * 1.5 / 6) ** (1 / 3)
    assert rows(told, "against mimalloc 3.3.2") == [
        ["against mimalloc 3.3.2", f"{time:.2f}", f"{memory:.2f}"]
    ]
    best = (10 / 12 * 50 / 40 * 4 / 4) ** (1 / 3)
    least = (2 / 1.5 * 20 / 25 * 1.5 / 1.5) ** (1 / 3)
    ((_, *means),) = rows(told, "against the best peer of each workload")
    assert means == [f"{best:.2f}", f"{least:.2f}"]
    assert rows(told, "against glibc 2.36")


def test_the_times_of_workloads_that_measure_memory_are_told_apart() -> None:
    made = results(noise=0)
    made.workloads[1] = replace(made.workloads[1], kind="memory")  # mix/large
    told = page(made)
    assert "| time, of 2 workloads | peak RSS, of 3 workloads |" in told
    ((_, time, _),) = rows(told, "against mimalloc 3.3.2")
    assert time == f"{(10 / 12 * 4 / 5) ** (1 / 2):.2f}"
    assert (
        "1 other workload, mostly first touches of memory and run a few times only, to measure that memory, "
        "has no part in the times; theirs come to 1.25 against mimalloc 3.3.2, 0.56 against glibc 2.36, "
        "1.25 against the best peer." in told
    )
    assert "other workload" not in page(results())


def test_the_best_peer_is_judged_by_other_rounds_than_it_is_chosen_by_as_well() -> None:
    """Else whoever is lucky in one round is the best."""
    names = ["hakmem", "system", "mimalloc3", "jemalloc"]
    made = results({"x/1": dict.fromkeys(names, 10.0)}, {"x/1": dict.fromkeys(names, 1.0)}, noise=0)
    runs = made.workloads[0].runs
    for name, lucky in (("mimalloc3", 1), ("jemalloc", 0)):
        runs[name] = [
            replace(run, seconds=(run.seconds or 0) * (0.5 if run.round % 2 == lucky else 1.25))
            for run in runs[name]
        ]
    view = View(made)
    assert mean(view.verdicts_against_best(TIME)) == pytest.approx(2)
    assert view.mean_against_best_chosen_apart(TIME) == pytest.approx(0.8)
    assert "HAKMEM takes 0.80 of the time and 1.00 of the peak RSS that it takes" in page(made)
    assert view.mean_against_best_chosen_apart(RSS) == 1
    assert "the other way round" not in page(results(rounds=1))


def test_a_peer_that_failed_in_half_of_the_rounds_is_not_chosen_by_the_other_half() -> None:
    made = results(noise=0)
    runs = made.workloads[0].runs["mimalloc3"]  # the best of mix/small
    made.workloads[0].runs["mimalloc3"] = [
        failed(run.round, "it broke") if run.round % 2 else run for run in runs
    ]
    assert View(made).against_best_chosen_apart(made.workloads[0], TIME) == pytest.approx(10 / 15)


@pytest.mark.parametrize(
    ("full", "options", "told"),
    [
        (False, "", "(quick run, `make bench`)"),
        (False, "--minutes 15", "(quick run, `make bench ARGS='--minutes 15'`)"),
        (True, "", "(full run, `make bench-full`)"),
    ],
)
def test_the_page_says_how_long_a_run_it_was(full: bool, options: str, told: str) -> None:
    assert f"10 minutes {told}." in page(replace(results(), full=full, options=options))


def test_each_workload_names_its_best_peer_and_the_verdict() -> None:
    told = section(page(results()), "Workload by workload")
    (small, *_), (large, *_), (pairs, *_) = (rows(told, name) for name in TIMES)
    assert small[2] == "mimalloc 3.3.2"
    assert "wins" in small
    assert large[2] == "mimalloc 3.3.2"
    assert "loses" in large
    assert pairs[2] == "jemalloc 5.3.1"
    assert pairs[6] == "even"


@pytest.mark.parametrize(("noise", "word"), [(0.005, "even"), (0.3, "unclear")])
def test_even_is_only_what_is_known_to_be(noise: float, word: str) -> None:
    """As close together by chance, they might be far apart."""
    made = results(noise=noise)
    mine, theirs = (made.workloads[2].runs[name] for name in ("hakmem", "jemalloc"))
    made.workloads[2].runs["jemalloc"] = [  # as fast, in other rounds
        replace(other, seconds=run.seconds) for other, run in zip(theirs, reversed(mine), strict=True)
    ]
    verdict = View(made).verdict(made.workloads[2], "jemalloc", TIME)
    assert verdict
    assert verdict.ratio.value == 1
    assert verdict.word == word


def test_losses_are_listed_as_wins_are() -> None:
    told = section(page(results(noise=0)), "Losses and wins")
    losses, wins = told.index("**HAKMEM loses, time:**"), told.index("**HAKMEM wins, time:**")
    assert losses < wins
    assert "| mix/large | **1.25** | mimalloc 3.3.2 |" in told[losses:wins]
    assert "| mix/small | **0.83** | mimalloc 3.3.2 |" in told[wins:]


@pytest.mark.parametrize(("one", "other"), [("hakmem", "mimalloc3"), ("hakmem", "jemalloc")])
def test_exchanged_names_give_exchanged_figures(one: str, other: str) -> None:
    """Were one library measured under the other's name, the page must say the same of the library."""
    swap = {one: other, other: one}

    def exchanged(table: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
        return {
            workload: {swap.get(name, name): value for name, value in by_allocator.items()}
            for workload, by_allocator in table.items()
        }

    plain = results(noise=0.04)
    swapped = results(exchanged(TIMES), exchanged(MEMORY), noise=0.04)
    straight, crossed = (
        View(plain),
        View(swapped, subject=other, reference=swap.get("mimalloc3", "mimalloc3")),
    )
    assert mean(straight.verdicts_against_best(TIME)) == mean(crossed.verdicts_against_best(TIME))
    assert mean(straight.verdicts_against_best(RSS)) == mean(crossed.verdicts_against_best(RSS))
    for workload, other_workload in zip(plain.workloads, swapped.workloads, strict=True):
        mine, theirs = straight.against_best(workload, TIME), crossed.against_best(other_workload, TIME)
        assert mine and theirs
        assert (mine.ratio, mine.word) == (theirs.ratio, theirs.word)
        assert swap.get(mine.other, mine.other) == theirs.other
    for name in straight.names:
        assert straight.over_best(name, TIME) == crossed.over_best(swap.get(name, name), TIME)


def test_the_page_of_exchanged_names_has_the_reciprocal() -> None:
    def summary(made: Results) -> float:
        ((_, time, _),) = rows(page(made), "against mimalloc 3.3.2")
        return float(time)

    def exchanged(by_allocator: dict[str, float]) -> dict[str, float]:
        return {**by_allocator, "hakmem": by_allocator["mimalloc3"], "mimalloc3": by_allocator["hakmem"]}

    swapped = results({workload: exchanged(table) for workload, table in TIMES.items()}, noise=0)
    assert summary(results(noise=0)) * summary(swapped) == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize("noise", [0.005, 0.03])
def test_a_slow_down_of_a_tenth_shows(noise: float) -> None:
    before = results(noise=noise, seed=1)
    slower = {workload: {**table, "hakmem": table["hakmem"] * 1.1} for workload, table in TIMES.items()}
    after = results(slower, noise=noise, seed=2)
    after.allocators[0] = type(after.allocators[0])("hakmem", "HAKMEM 0.1.0", "0.1.0", "changed", "another")
    told = page(after, before)
    ((_, was, _),) = rows(page(before), "against mimalloc 3.3.2")
    ((_, now, _),) = rows(told, "against mimalloc 3.3.2")
    assert float(now) / float(was) == pytest.approx(1.1, abs=0.03)
    repeat = section(told, "Does it repeat?")
    assert "HAKMEM 0.1.0 is another build" in repeat
    for workload in TIMES:
        ((_, _, _, change),) = rows(repeat, workload)
        assert float(change.removesuffix(" %")) == pytest.approx(10, abs=4)
    assert rows(section(told, "Workload by workload"), "pairs/64")[0][6] == "loses"


def test_two_runs_that_agree() -> None:
    told = section(page(results(seed=2), results(seed=1)), "Does it repeat?")
    assert "3 of 3 ratios (100%) differ by less than 5%" in told
    assert "It is no repetition" not in told


def test_two_runs_that_do_not() -> None:
    shifted = {**TIMES, "mix/small": {**TIMES["mix/small"], "hakmem": 13.0}}
    told = section(page(results(shifted, seed=2), results(seed=1)), "Does it repeat?")
    assert "2 of 3 ratios (67%) differ by less than 5%" in told
    assert rows(told, "mix/small")


def test_what_is_uncertain_within_a_run_is_listed() -> None:
    assert "known to within ±5% in 3" in page(results())
    told = section(page(results(noise=0.6)), "Does it repeat?")
    assert rows(told, "mix/small")


def test_a_failure_is_shown_and_not_averaged_away() -> None:
    made = results()
    made.workloads[0].runs["hakmem"][1] = failed(2, "was killed by SIGSEGV")
    made.workloads[1].runs["jemalloc"] = [failed(1, "ended with exit status 1: block damaged")]
    told = page(made)
    assert "HAKMEM 0.1.0 failed in 1 workload:** mix/small" in told.partition("## ")[0]
    assert "mix/small on HAKMEM 0.1.0: was killed by SIGSEGV (1 of 8 runs)" in told
    assert "mix/large on jemalloc 5.3.1: ended with exit status 1: block damaged (1 of 1 runs)" in told
    assert any("failed" in cells for cells in rows(told, "mix/large"))


def test_a_busy_machine_is_admitted() -> None:
    made = results()
    assert "not quiet" not in page(made)
    made.other_load = 0.25
    assert "others took 25% of the processors' time" in page(made)


def test_a_workload_that_always_fails_still_has_a_row() -> None:
    made = results()
    made.workloads[0].runs["hakmem"] = [failed(1, "stopped after 60 s")]
    assert rows(section(page(made), "Workload by workload"), "mix/small")[0][1] == "failed"


def test_what_is_missing_is_listed_with_the_reason() -> None:
    made = results()
    made.missing.append(Missing("rpmalloc", "not in any registry"))
    made.skipped.append(Missing("redis/benchmark", "needs redis-server, which is not installed"))
    told = page(made)
    assert "- **rpmalloc**: not in any registry" in told
    assert "- **redis/benchmark**: needs redis-server, which is not installed" in told


def test_without_the_reference_the_page_says_so() -> None:
    without = {
        workload: {name: value for name, value in table.items() if name != "mimalloc3"}
        for workload, table in TIMES.items()
    }
    told = page(results(without))
    assert rows(told, "against mimalloc3") == [["against mimalloc3", "not measured", "not measured"]]
    assert rows(told, "against glibc 2.36")


def test_the_setting_is_named() -> None:
    told = section(page(results()), "How it was measured")
    for fact in (
        "a processor",
        "Linux 6.1",
        "madvise",
        "origin of jemalloc",
        "SHA-256 d-hakmem",
        "as many as",
    ):
        assert fact in told


def test_instructions() -> None:
    made = results()
    counts = {"hakmem": 31.5, "mimalloc3": 40.25}
    made.instructions.append(InstructionCount("pair of 16 B", "x", counts, [Missing("jemalloc", "crashes")]))
    told = section(page(made), "Instructions per operation")
    assert rows(told, "pair of 16 B") == [["pair of 16 B", "31.5", "-", "40.2", "-"]]
    assert "- jemalloc 5.3.1: crashes" in told


def test_the_intervals_say_what_they_are_worth() -> None:
    told = page(results(rounds=4))
    assert "| ratio to it | 80 % interval |  | ratio to mimalloc 3.3.2 | 80 % interval |" in told
    assert "| ratio to it | 85 % interval |" in told  # of memory, whose median it is
    made = results(rounds=15)
    made.workloads[0] = replace(
        made.workloads[0], runs={name: runs[:2] for name, runs in made.workloads[0].runs.items()}
    )
    assert "| ratio to it | 50 to 90 % interval |" in page(made)


@pytest.mark.parametrize(
    ("rounds", "told"), [(1, "1 fastest of 1"), (4, "2 fastest of 4"), (12, "3 fastest of 12")]
)
def test_the_fastest_quarter_is_told_in_runs(rounds: int, told: str) -> None:
    assert f"of two at least (here the {told})." in page(results(rounds=rounds))
    made = results(rounds=rounds)
    assert f"- **rounds that count**: {rounds} of each of the workloads whose" in page(made)
    made.workloads[0].runs["hakmem"] += results(rounds=40).workloads[0].runs["hakmem"][rounds:]
    assert f"{told} where there are fewest, 10 of 40 where there are most)" in page(made)
    assert f": {rounds} to 40 of the workloads whose" in page(made)


def test_a_page_without_times_says_nothing_of_their_rounds() -> None:
    made = results()
    made.workloads = [replace(workload, kind="memory") for workload in made.workloads]
    assert "of two at least. The interval" in page(made)
    assert "rounds that count" not in page(made)


def test_a_single_round_gives_no_verdict() -> None:
    told = section(page(results(rounds=1)), "Workload by workload")
    assert rows(told, "mix/large")[0][4:7] == ["1.25", "-", "unclear"]


def test_the_page_is_plain_markdown(tmp_path: Path) -> None:
    file = write(results(), results(seed=3), tmp_path)
    told = file.read_text()
    for picture in re.findall(r"!\[.*?\]\((.*?)\)", told):
        assert (tmp_path / picture).is_file()
    for line, following in zip(told.splitlines(), told.splitlines()[1:], strict=False):
        if line.startswith("| ") and following.startswith("| "):
            assert line.count(" | ") == following.count(" | "), line
