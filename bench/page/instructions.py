"""The instructions of a few loops: the same in every run, so that small differences can be told."""

from bench.page.markdown import digits, heading, not_counted, paragraph, side_by_side, table
from bench.results import InstructionCount
from bench.view import View


def lines(view: View) -> list[str]:
    counted = view.results.instructions
    if not counted:
        return []
    return [
        *heading(2, "Instructions per operation"),
        *paragraph(
            "Counted by valgrind's callgrind, as the difference between a long and a short run, so that",
            "start-up is left out; the loop's own instructions, the same for all, are in. What HAKMEM",
            "publishes by the clock is left out, too. Fewer is better, but says nothing of cache misses.",
        ),
        *table(
            ["loop", *(view.title(name) for name in view.names)],
            (side_by_side(entry.name, view.names, entry.per_operation, digits) for entry in counted),
        ),
        *_reasons(view, counted),
    ]


def _reasons(view: View, counted: list[InstructionCount]) -> list[str]:
    return not_counted(
        f"{view.title(missing.name)}: {missing.reason}" for entry in counted for missing in entry.missing
    )
