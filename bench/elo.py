"""Ratings of whatever meets in pairs, by who does better: Elo's.

A. E. Elo, The Rating of Chessplayers, Past and Present, 1978.
"""

from collections.abc import Hashable, Iterable, Mapping
from typing import Generic, TypeVar

_Player = TypeVar("_Player", bound=Hashable)

START = 1500.0
_SCALE = 400.0  # so much more, and it is ten times as likely to do better
_STEP = 24.0  # at most, in one meeting of all


class Ratings(Generic[_Player]):
    def __init__(self, players: Iterable[_Player]) -> None:
        self.of: dict[_Player, float] = dict.fromkeys(players, START)

    def meet(self, costs: Mapping[_Player, float], even: float) -> None:
        """All of them against each other at once; costs that differ by no more than the part `even` draw."""
        if len(costs) < 2:
            return
        changes = {}
        for player, cost in costs.items():
            others = [(self.of[other], theirs) for other, theirs in costs.items() if other != player]
            surprise = sum(
                _score(cost, theirs, even) - _expected(self.of[player], rating) for rating, theirs in others
            )
            changes[player] = _STEP * surprise / len(others)
        for player, change in changes.items():
            self.of[player] += change


def _expected(rating: float, other: float) -> float:
    return float(1 / (1 + 10 ** ((other - rating) / _SCALE)))


def _score(cost: float, theirs: float, even: float) -> float:
    if max(cost, theirs) <= min(cost, theirs) * (1 + even):
        return 0.5
    return 1.0 if cost < theirs else 0.0
