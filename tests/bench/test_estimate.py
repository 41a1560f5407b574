"""Medians, ratios and their certainty."""

import math
import random

import pytest

from bench.estimate import Estimate, best, fastest_quarter, geometric_mean, holds, median, ratio, uncertainty


def noisy(value: float, count: int, noise: float, seed: int) -> list[float]:
    draw = random.Random(seed)
    return [value * draw.lognormvariate(0, noise) for _ in range(count)]


def test_the_fastest_quarter() -> None:
    assert fastest_quarter([9, 1, 2, 9, 9, 9, 9, 3, 9, 9, 9, 9]) == 2
    assert fastest_quarter([5, 9, 7]) == 6  # two at least
    assert fastest_quarter([5]) == 5


@pytest.mark.parametrize("estimate", [fastest_quarter, median])
def test_exchanged_sides_give_the_reciprocal(estimate: Estimate) -> None:
    pairs = list(zip(noisy(1, 10, 0.1, 1), noisy(2, 10, 0.1, 2), strict=True))
    there, back = ratio(pairs, estimate), ratio([(right, left) for left, right in pairs], estimate)
    assert there and back
    assert there.value == pytest.approx(1 / back.value)
    assert there.low == pytest.approx(1 / back.high)
    assert there.high == pytest.approx(1 / back.low)


@pytest.mark.parametrize("estimate", [fastest_quarter, median])
@pytest.mark.parametrize("seed", range(20))
def test_a_slow_down_of_a_tenth_is_seen_through_noise(seed: int, estimate: Estimate) -> None:
    pairs = list(zip(noisy(1.1, 12, 0.03, seed), noisy(1, 12, 0.03, seed + 100), strict=True))
    found = ratio(pairs, estimate)
    assert found
    assert found.low > 1
    assert found.value == pytest.approx(1.1, rel=0.05)


def test_the_interval_holds_the_truth_nearly_always() -> None:
    hits = 0
    for seed in range(200):
        pairs = zip(noisy(1, 15, 0.05, seed), noisy(1, 15, 0.05, 1000 + seed), strict=True)
        found = ratio(list(pairs), fastest_quarter)
        assert found
        hits += found.low <= 1 <= found.high
    assert hits >= 180


@pytest.mark.parametrize("rounds", [2, 4, 6])
@pytest.mark.parametrize("estimate", [fastest_quarter, median])
def test_how_often_the_interval_of_few_rounds_holds_the_truth_is_known(
    rounds: int, estimate: Estimate
) -> None:
    hits = 0
    for seed in range(300):
        pairs = zip(noisy(1, rounds, 0.1, seed), noisy(1, rounds, 0.1, 1000 + seed), strict=True)
        found = ratio(list(pairs), estimate)
        assert found
        hits += found.low <= 1 <= found.high
    assert holds(rounds, estimate) == pytest.approx(hits / 3, abs=6)


def test_one_round_makes_nothing_certain() -> None:
    found = ratio([(2.0, 1.0)], median)
    assert found
    assert found.value == 2.0
    assert found.low <= 1 < found.high
    assert found.uncertainty == math.inf


def test_no_rounds_make_no_ratio() -> None:
    assert ratio([], median) is None


def test_a_wild_round_moves_the_ratio_little() -> None:
    calm = [(1.0 + index / 1000, 1.0) for index in range(9)]
    for estimate in (fastest_quarter, median):
        found = ratio([*calm, (50.0, 1.0)], estimate)
        assert found
        assert found.value == pytest.approx(1.0, abs=0.01)


def test_disturbed_runs_do_not_change_the_ratio_of_times() -> None:
    draw = random.Random(1)
    pairs = [
        (1.2 * (1 + draw.choice((0, 0, 0.8))), 1.0 * (1 + draw.choice((0, 0.5, 1.0)))) for _ in range(16)
    ]
    found = ratio(pairs, fastest_quarter)
    assert found
    assert found.value == pytest.approx(1.2)


def test_more_rounds_and_less_noise_make_certain() -> None:
    few, many, wild = noisy(1, 6, 0.01, 1), noisy(1, 40, 0.01, 1), noisy(1, 6, 0.2, 1)
    for estimate in (fastest_quarter, median):
        assert uncertainty(many, estimate) < uncertainty(few, estimate) < uncertainty(wild, estimate)
    assert uncertainty([1.0, 1.0], median) == math.inf


def test_geometric_mean() -> None:
    assert geometric_mean([2.0, 0.5]) == pytest.approx(1.0)
    assert geometric_mean([]) is None


def test_best() -> None:
    figures = {"a": 3.0, "b": None, "c": 1.0}
    assert best(figures, figures.get) == "c"
    assert best(["b"], figures.get) is None
