"""What all programs have in common: a name, what they stand for, their options, and how they are run."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from hakmem.errors import HakmemError

Figures = dict[str, int | float | str]

# The conventional status of a test that cannot run here.
EXIT_MISSING = 77


@dataclass(frozen=True)
class Option:
    """A whole number above 0."""

    name: str  # without the dashes
    default: int
    help: str


@dataclass(frozen=True)
class Order:
    """What is asked of a run."""

    options: Mapping[str, int]
    scratch: Path  # an empty folder, removed afterwards
    verify: bool


@dataclass(frozen=True)
class Program:
    name: str
    stands_for: str
    options: tuple[Option, ...]
    run: Callable[[Order], Figures]


class ProgramMissing(HakmemError):
    def __init__(self, command: str, package: str) -> None:
        super().__init__(
            f"{command} is not installed: run bench/programs/setup.sh, or install Debian's {package}",
            EXIT_MISSING,
        )


class RunFailed(HakmemError):
    """The program did not do what it should have done."""
