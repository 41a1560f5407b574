"""Runs a program under many settings, those that do well more often, and the best of them once more."""

import math
import signal
import statistics
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from hakmem.allocators import HAKMEM, Allocator
from hakmem.ending import shell_status
from hakmem.errors import HakmemError
from hakmem.measure import Measurement
from hakmem.rounds import Round, StoppedError
from hakmem.runner import Runner, order_of
from hakmem.signals import SignalGuard
from hakmem.tune.bandit import Bandit
from hakmem.tune.policies import REFERENCE, Policy, environment_of, settings_of, together

TRIED_A_ROUND = 2  # policies, beside the settings in force
FINAL_ROUNDS = 8
FINAL_WINS = 7  # by chance, 9 of 256 get there
_NOTABLE = 0.02
# What is better or worse by so much is as good or bad as anything to the bandit.
_REWARD_SPAN = 0.1
_TOGETHER = "together"
_TOGETHER_AFTER = 2 / 3  # of the rounds
_SURE_MATCHES = 3


@dataclass(frozen=True)
class Price:
    """What counts: a geometric mean of time and peak memory, by this weight of time."""

    name: str
    time_weight: float

    def cost(self, time: float, memory: float) -> float:
        return float(time**self.time_weight * memory ** (1 - self.time_weight))


PRICES = {price.name: price for price in (Price("balanced", 0.5), Price("speed", 0.9), Price("memory", 0.1))}


@dataclass(frozen=True)
class Match:
    """A run under a policy and the one under the settings in force of the same round, as ratios."""

    time: float
    memory: float

    def advantage(self, price: Price) -> float:
        """A logarithm: above 0, the policy costs less."""
        return -math.log(price.cost(self.time, self.memory))


def wins_of(matches: Sequence[Match], price: Price) -> int:
    return sum(match.advantage(price) > 0 for match in matches)


def median_advantage(matches: Sequence[Match], price: Price) -> float:
    return statistics.median(match.advantage(price) for match in matches)


def ratios_of(matches: Sequence[Match]) -> tuple[float, float]:
    """Of time and of memory, medians."""
    return (
        statistics.median(match.time for match in matches),
        statistics.median(match.memory for match in matches),
    )


@dataclass
class Contender:
    policy: Policy
    settings: Mapping[str, str]  # of each option, but for what the program itself sets
    matches: list[Match] = field(default_factory=list)
    failed: Round | None = None  # ended otherwise than the program does

    def advantage(self, price: Price) -> float:
        """On average, and less so the fewer matches there are: the best of few is best by luck."""
        return sum(match.advantage(price) for match in self.matches) / (len(self.matches) + 1)

    def is_sure(self, price: Price) -> bool:
        """Whether it has won each time, and mostly by much: a run that something held up is one of few."""
        return (
            len(self.matches) >= _SURE_MATCHES
            and wins_of(self.matches, price) == len(self.matches)
            and median_advantage(self.matches, price) > _NOTABLE
        )


@dataclass
class Tuning:
    price: Price
    reference: Contender
    contenders: list[Contender]
    shown: Round | None = None
    finalist: Contender | None = None
    final: list[Match] = field(default_factory=list)  # runs that had no part in the choice
    interrupted: bool = False

    def found(self) -> bool:
        """Whether the finalist is better, as far as its final says."""
        if len(self.final) < FINAL_ROUNDS or wins_of(self.final, self.price) < FINAL_WINS:
            return False
        return median_advantage(self.final, self.price) > _NOTABLE

    def exit_status(self) -> int:
        return shell_status(self.shown.measurement.status) if self.shown else 0


def contenders_of(policies: Sequence[Policy], library: Path) -> tuple[Contender, list[Contender]]:
    """The settings in force, and those of the policies that are something else; raises if none is."""
    with ThreadPoolExecutor() as pool:  # each is a process
        (in_force, *others) = pool.map(partial(settings_of, library=library), (REFERENCE, *policies))
    reference = Contender(REFERENCE, in_force)
    different: list[Contender] = []
    for policy, settings in zip(policies, others, strict=True):
        if all(settings != other.settings for other in (reference, *different)):
            different.append(Contender(policy, settings))
    if not different:
        names = ", ".join(f"'{policy.name}'" for policy in policies)
        raise HakmemError(f"nothing to try: {names} is what is in force already; try another value")
    return reference, different


def find_settings(
    program: Path,
    arguments: tuple[str, ...],
    library: Path,
    policies: Sequence[Policy],
    price: Price,
    *,
    rounds: int,
    polling: bool = False,
    shown_output: int = 1,
) -> Tuning:
    """`rounds` rounds of the settings in force and two policies each, then the final."""
    reference, contenders = contenders_of(policies, library)
    result = Tuning(price, reference, contenders)
    total = 1 + rounds * (1 + TRIED_A_ROUND) + FINAL_ROUNDS * 2
    with SignalGuard() as guard:
        runner = Runner(
            program, arguments, polling=polling, shown_output=shown_output, total=total, guard=guard
        )
        games = _Games(result, runner, library)
        try:
            _play_all(result, games, rounds)
        except StoppedError:
            result.interrupted = True
        except HakmemError:
            # The terminal interrupts what the settings are asked of, too.
            if not guard.interrupted:
                raise
            result.interrupted = True
    return result


def _play_all(result: Tuning, games: "_Games", rounds: int) -> None:
    games.show()
    bandit: Bandit[str] = Bandit()
    for contender in result.contenders:
        bandit.add(contender.policy.name)
    for number in range(rounds):
        if number == int(rounds * _TOGETHER_AFTER) and (union := _all_that_won(result, games.library)):
            result.contenders.append(union)
            bandit.add(union.policy.name)
        wanted = bandit.choose(TRIED_A_ROUND)
        pulled = [entry for entry in result.contenders if entry.policy.name in wanted]
        for contender, match in games.play(pulled, number):
            if contender.failed:
                bandit.remove(contender.policy.name)
            elif match:
                contender.matches.append(match)
                bandit.note(contender.policy.name, 0.5 + match.advantage(result.price) / (2 * _REWARD_SPAN))
    result.finalist = _best_and_simplest(result)
    for number in range(FINAL_ROUNDS if result.finalist else 0):
        assert result.finalist
        result.final += [match for _, match in games.play([result.finalist], number) if match]


class _Games:
    """Runs of one program; none any more once somebody has asked to stop."""

    def __init__(self, tuning: Tuning, runner: Runner, library: Path) -> None:
        self._tuning = tuning
        self._runner = runner
        self.library = library
        self._allocator = Allocator(HAKMEM, "HAKMEM", "", library, "")

    def show(self) -> None:
        shown = self._run(self._tuning.reference)
        self._tuning.shown = shown
        # A reader that left the first run's output wants no more of them.
        self._tuning.interrupted |= shown.measurement.status == signal.SIGPIPE

    def play(self, against: Sequence[Contender], number: int) -> Iterator[tuple[Contender, Match | None]]:
        """One round: what came of each against the settings in force. Who fails is marked so."""
        assert self._tuning.shown
        usual = self._tuning.shown.measurement.status
        runs: dict[int, Measurement] = {}
        for contender in order_of([self._tuning.reference, *against], number):
            if self._tuning.interrupted or contender.failed:
                continue
            run = self._run(contender)
            if run.measurement.status == usual:
                runs[id(contender)] = run.measurement
            elif not self._tuning.interrupted:
                contender.failed = run
        base = runs.get(id(self._tuning.reference))
        if self._tuning.reference.failed:
            self._tuning.interrupted = True  # nothing to hold anything against
        for contender in against:
            taken = runs.get(id(contender))
            match = (
                Match(taken.wall_seconds / base.wall_seconds, taken.peak_rss / base.peak_rss)
                if base and taken
                else None
            )
            yield contender, match

    def _run(self, contender: Contender) -> Round:
        run = self._runner.run(self._allocator, environment_of(contender.policy), contender.policy.name)
        self._tuning.interrupted |= run.measurement.interrupted
        return run


def _best_and_simplest(tuning: Tuning) -> Contender | None:
    """Of those that are nearly the best, the one with the fewest settings."""
    tried = [entry for entry in tuning.contenders if entry.matches and not entry.failed]
    if not tried:
        return None
    best = max(entry.advantage(tuning.price) for entry in tried)
    good = [entry for entry in tried if entry.advantage(tuning.price) >= best - _NOTABLE]
    return min(good, key=lambda entry: (len(entry.policy.variables), -entry.advantage(tuning.price)))


def _all_that_won(tuning: Tuning, library: Path) -> Contender | None:
    """At once what has won by itself, each time."""
    won = [entry for entry in tuning.contenders if entry.is_sure(tuning.price)]
    won.sort(key=lambda entry: entry.advantage(tuning.price), reverse=True)
    if len(won) < 2:
        return None
    policy = together(_TOGETHER, [entry.policy for entry in won])
    settings = settings_of(policy, library)
    if any(settings == entry.settings for entry in (tuning.reference, *tuning.contenders)):
        return None
    return Contender(policy, settings)
