"""Programs that were built with a sanitizer, whose runtime stands in for much of libc."""

from __future__ import annotations

from .builder import Builder
from .harness import Runner

# Races are reported where the runtime does not see how blocks come from one thread to another.
REPORTS_NO_RACES = {"TSAN_OPTIONS": "report_bugs=0"}


def test_a_program_with_thread_sanitizer_starts_and_ends(runner: Runner, builder: Builder) -> None:
    program = builder.program("c/thread_storm.c", "-fsanitize=thread", suffix="-tsan")
    finished = runner.run([program, "1000"], env=REPORTS_NO_RACES)
    assert finished.text.strip().isdecimal(), finished
