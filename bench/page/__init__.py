"""The page that a run's results become: docs/benchmarks/README.md, with its pictures."""

from pathlib import Path

from bench.page import (
    allocators,
    contention,
    instructions,
    losses,
    memory,
    processor,
    repeat,
    sampling,
    scaling,
    setting,
    summary,
    system_calls,
    workloads,
)
from bench.page.markdown import heading, picture
from bench.plots import PLOTS, draw
from bench.results import Results, write_atomically
from bench.view import View

PAGE = "README.md"


def write(results: Results, previous: Results | None, folder: Path) -> Path:
    """Writes page and pictures into `folder`, and says where the page is."""
    view = View(results)
    pictures = draw(view, folder)
    file = folder / PAGE
    write_atomically(file, text(view, View(previous) if previous else None, pictures))
    return file


def text(view: View, previous: View | None, pictures: list[str]) -> str:
    parts = [
        *heading(1, f"{view.short} beside other allocators"),
        *summary.lines(view),
        *losses.lines(view),
        *_pictures(pictures, ("time", "memory")),
        *allocators.lines(view),
        *workloads.lines(view),
        *memory.lines(view),
        *_pictures(pictures, ("usage", "fragmentation")),
        *system_calls.lines(view),
        *instructions.lines(view),
        *scaling.lines(view),
        *processor.lines(view),
        *contention.lines(view),
        *sampling.lines(view),
        *repeat.lines(view, previous),
        *setting.lines(view),
    ]
    return "\n".join(parts).rstrip() + "\n"


def _pictures(drawn: list[str], wanted: tuple[str, ...]) -> list[str]:
    return [
        line for name in wanted if name in drawn for line in picture(PLOTS[name].caption, PLOTS[name].file)
    ]
