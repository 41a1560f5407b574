"""Each misuse ends its process with SIGABRT and one line that names it."""

from __future__ import annotations

import re
import signal

import pytest

from .builder import Builder
from .harness import Runner

LINE = re.compile(r"hakmem: (?P<kind>[a-z ]+)\b.*: pointer 0x[0-9a-f]+")
HANDLED = "handled by the program"
DOUBLE_FREE = "double free"
INVALID_FREE = "invalid free"
# Once a run of slabs is given back, nothing tells a second free of it from a free of a stray pointer.
EITHER = f"{DOUBLE_FREE}|double or invalid free"

EXPECTED_KINDS = {
    "double_free_tiny": DOUBLE_FREE,
    "double_free_mid": DOUBLE_FREE,
    "double_free_large": EITHER,
    "double_free_huge": EITHER,
    "double_free_found_by_traffic": DOUBLE_FREE,
    "double_free_by_another_thread": DOUBLE_FREE,
    "double_free_by_a_thread_that_sleeps": DOUBLE_FREE,
    "found_while_a_handler_reports": DOUBLE_FREE,
    "found_while_a_handler_returns": DOUBLE_FREE,
    "free_inside_tiny": INVALID_FREE,
    "free_inside_tiny_by_a_byte": INVALID_FREE,
    "free_inside_mid": INVALID_FREE,
    "free_inside_large": INVALID_FREE,
    "free_inside_large_by_16": INVALID_FREE,
    "free_inside_large_at_end": INVALID_FREE,
    "free_inside_huge": INVALID_FREE,
    "free_inside_huge_by_16": INVALID_FREE,
    "realloc_inside_tiny": "invalid (free|realloc)",
    "realloc_inside_large": "invalid (free|realloc)",
    "realloc_inside_huge": "invalid (free|realloc)",
    "free_on_stack": INVALID_FREE,
    "free_of_nothing_without_descriptors": INVALID_FREE,
    "free_in_a_mapping": INVALID_FREE,
    "free_global": INVALID_FREE,
    "free_of_code": INVALID_FREE,
}


def test_a_child_of_a_handler_aborts_as_its_parent_does(runner: Runner, builder: Builder) -> None:
    finished = runner.run(
        [builder.program("c/misuse.c"), "found_in_a_child_of_a_handler"],
        status=-signal.SIGABRT,
        proven=False,
        may_speak=True,
    )
    parent, child, *handled = finished.stderr.decode(errors="replace").splitlines()
    assert LINE.match(parent) and LINE.match(child), finished
    assert handled == [HANDLED] * 2, finished


@pytest.mark.parametrize("misuse", sorted(EXPECTED_KINDS))
def test_misuse_aborts_with_one_line(runner: Runner, builder: Builder, misuse: str) -> None:
    finished = runner.run(
        [builder.program("c/misuse.c"), misuse], status=-signal.SIGABRT, proven=False, may_speak=True
    )
    lines = finished.stderr.decode(errors="replace").splitlines()
    handled = [HANDLED] if misuse == "found_while_a_handler_reports" else []
    assert lines[1:] == handled, f"expected one line on stderr, and what a handler says\n{finished}"
    match = LINE.match(lines[0])
    assert match and re.fullmatch(EXPECTED_KINDS[misuse], match["kind"]), (
        f"expected 'hakmem: {EXPECTED_KINDS[misuse]}: pointer 0x…'\n{finished}"
    )
