"""The instructions of a few loops: the same in every run, so that small differences can be told."""

from bench.page.markdown import NONE, bold, digits, heading, paragraph, table
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
            ["loop", *(view.title(name) for name in view.names)], (_row(view, entry) for entry in counted)
        ),
        *_reasons(view, counted),
    ]


def _row(view: View, entry: InstructionCount) -> list[str]:
    least = min(entry.per_operation.values(), default=None)
    cells = [entry.name]
    for name in view.names:
        value = entry.per_operation.get(name)
        text = NONE if value is None else digits(value)
        cells.append(bold(text) if value is not None and value == least else text)
    return cells


def _reasons(view: View, counted: list[InstructionCount]) -> list[str]:
    reasons = dict.fromkeys(
        f"- {view.title(missing.name)}: {missing.reason}" for entry in counted for missing in entry.missing
    )
    return [*paragraph("Not counted:"), *reasons, ""] if reasons else []
