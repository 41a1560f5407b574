"""Who gets the next round."""

import math
from collections import Counter

from bench.schedule import Plan, Schedule
from bench.suite import Workload


def workload(name: str, kind: str = "time", rounds_most: int | None = None) -> Workload:
    return Workload(name, kind, "Something.", ("x",), rounds_most=rounds_most)


def rounds(schedule: Schedule, uncertainties: dict[str, float], seconds: float = 1) -> list[str]:
    """The workloads in the order in which they get their rounds, each of which takes `seconds`."""
    order: list[str] = []
    while chosen := schedule.next(len(order) * seconds):
        entry, number = chosen
        order.append(entry.name)
        assert number == order.count(entry.name)
        schedule.done(entry, seconds, uncertainties[entry.name])
    return order


def test_all_in_turn_first() -> None:
    schedule = Schedule([workload("a"), workload("b")], Plan(3, 1, 0))
    assert rounds(schedule, {"a": 1, "b": 0}) == ["a", "b", "a", "b", "a", "b"]


def test_the_time_left_goes_to_the_uncertain() -> None:
    schedule = Schedule([workload("sure"), workload("unsure")], Plan(2, 1, 9))
    counts = Counter(rounds(schedule, {"sure": 0.001, "unsure": 0.2}))
    assert counts == {"sure": 2, "unsure": 7}


def test_it_is_shared_by_what_a_round_brings() -> None:
    """Four times as uncertain: four times the rounds."""
    schedule = Schedule([workload("a"), workload("b"), workload("c"), workload("d")], Plan(2, 1, 80))
    counts = Counter(rounds(schedule, {"a": 0.8, "b": 0.2, "c": 0.2, "d": 0.2}))
    assert abs(counts["a"] - 4 * counts["b"]) <= 4
    assert sum(counts.values()) == 80


def test_it_ends_early_when_all_is_certain() -> None:
    schedule = Schedule([workload("a"), workload("b")], Plan(2, 1, 1000))
    assert len(rounds(schedule, {"a": 0.001, "b": 0.001})) == 4


def test_none_takes_all_the_time() -> None:
    names = [f"w{number}" for number in range(9)]
    schedule = Schedule([workload(name) for name in ("wild", *names)], Plan(1, 1, 100))
    counts = Counter(rounds(schedule, {"wild": math.inf, **dict.fromkeys(names, 0.1)}))
    assert counts["wild"] == 40
    assert sum(counts.values()) == 100


def test_the_least_is_run_even_without_time() -> None:
    schedule = Schedule([workload("a")], Plan(4, 1, 2))
    assert len(rounds(schedule, {"a": 1}, seconds=10)) == 4


def test_memory_gets_rounds_of_its_own() -> None:
    entries = [workload("time"), workload("memory", "memory"), workload("slow", "memory", rounds_most=1)]
    counts = Counter(
        rounds(Schedule(entries, Plan(4, 2, 30)), dict.fromkeys(("time", "memory", "slow"), 1.0))
    )
    assert counts["memory"] == 2
    assert counts["slow"] == 1
    assert counts["time"] > 4


def test_the_share_done_grows_to_the_whole() -> None:
    schedule = Schedule([workload("a"), workload("b")], Plan(3, 1, 10))
    shares = []
    elapsed = 0.0
    while chosen := schedule.next(elapsed):
        elapsed += 1
        schedule.done(chosen[0], 1, 0.1)
        shares.append(schedule.share_done(elapsed))
    assert shares == sorted(shares)
    assert shares[-1] == 1
