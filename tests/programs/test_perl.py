"""perl: nested data, regular expressions, sorting, fork and threads."""

from __future__ import annotations

from pathlib import Path

from .harness import Runner, required_program

SCRIPT = Path(__file__).parent / "data" / "workload.pl"


def test_perl_gives_the_same_output(runner: Runner) -> None:
    # Hash order is random in each perl process unless it is seeded.
    finished = runner.same_output([required_program("perl"), SCRIPT], env={"PERL_HASH_SEED": "0"})
    assert finished.text.count("child ") == 6, finished
