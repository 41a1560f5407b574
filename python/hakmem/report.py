"""What a comparison of two sides is printed as: tables and sentences made of the figures."""

import statistics
from collections.abc import Callable, Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hakmem.ending import ending
from hakmem.measure import Measurement
from hakmem.rounds import Round
from hakmem.versus import HAKMEM_SIDE, LIBC_SIDE, Comparison

_NOTABLE = 0.03
_MEBIBYTE = 1 << 20

PEAK = "peak RSS"

_Figure = Callable[[Measurement], float]
_ROWS: tuple[tuple[str, _Figure, Callable[[float], str]], ...] = (
    ("wall time", lambda m: m.wall_seconds, lambda value: f"{value:.3f} s"),
    ("CPU time", lambda m: m.cpu_seconds, lambda value: f"{value:.3f} s"),
    (PEAK, lambda m: m.peak_rss, lambda value: f"{value / _MEBIBYTE:.1f} MiB"),
    ("RSS at the end", lambda m: m.end_rss, lambda value: f"{value / _MEBIBYTE:.1f} MiB"),
    ("minor page faults", lambda m: m.minor_faults, lambda value: f"{value:,.0f}"),
    ("major page faults", lambda m: m.major_faults, lambda value: f"{value:,.0f}"),
)


def print_comparison(to: Console, command: str, comparison: Comparison) -> None:
    ours, theirs = (
        [entry.measurement for entry in comparison.side(name)] for name in (HAKMEM_SIDE, LIBC_SIDE)
    )
    to.print()
    if ours and theirs:
        rounds = f"{len(ours)} round{'s' if len(ours) > 1 else ''} each, in turn; medians"
        to.print(Text(f"{command}: {rounds}", style="bold"))
        to.print(_comparison_table(ours, theirs))
        if note := children_note([*ours, *theirs]):
            to.print(f"≥: {note}")
    if comparison.interrupted:
        to.print("Interrupted: no further rounds.")
    _print_statuses(to, comparison)
    if comparison.summary:
        to.print(Text("HAKMEM's own summary of one more round, whose figures do not count", style="bold"))
        to.print(Text(comparison.summary.rstrip("\n")), soft_wrap=True)
    elif ours and not comparison.interrupted:
        to.print("The program left no HAKMEM summary: a signal or _exit ended it.")


def _comparison_table(ours: list[Measurement], theirs: list[Measurement]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    for title in (HAKMEM_SIDE, LIBC_SIDE, f"{HAKMEM_SIDE} / {LIBC_SIDE}"):
        table.add_column(title, justify="right")
    for name, figure, formatted in _ROWS:
        left, right = (statistics.median(map(figure, side)) for side in (ours, theirs))
        rough = name == "RSS at the end" and not all(entry.end_rss_exact for entry in (*ours, *theirs))
        least = [name == PEAK and children_are_hidden(side) for side in (ours, theirs)]
        marks = ["~" if rough else "≥" if at_least else "" for at_least in least]
        ratio = figure_ratio(left, right) if least[0] == least[1] else Text("-")
        table.add_row(name, marks[0] + formatted(left), marks[1] + formatted(right), ratio)
    return table


def children_are_hidden(runs: Sequence[Measurement]) -> bool:
    """Whether the peak is the first process's, though others that it started may have taken more."""
    return any(run.children_peak_at_most is not None for run in runs)


def children_note(runs: Sequence[Measurement]) -> str | None:
    """Of their peak, where children are hidden."""
    if not children_are_hidden(runs):
        return None
    most = max(run.children_peak_at_most or 0 for run in runs)
    return f"of the first process; those that it started took at most {most / _MEBIBYTE:.1f} MiB each."


def figure_ratio(ours: float, theirs: float) -> Text:
    if theirs == 0:
        return Text("1.00" if ours == 0 else "-")
    return ratio_text(ours / theirs)


def ratio_text(ratio: float) -> Text:
    style = "green" if ratio < 1 - _NOTABLE else "red" if ratio > 1 + _NOTABLE else ""
    return Text(f"{ratio:.2f}", style=style)


def _print_statuses(to: Console, comparison: Comparison) -> None:
    if comparison.consistent():
        status = comparison.rounds[0].measurement.status
        if status:
            to.print(f"The program {ending(status)} in every round.")
        return
    to.print(Text("The program did not end alike in all rounds:", style="bold red"))
    groups: dict[tuple[str, int], list[Round]] = {}
    for entry in comparison.all_rounds():
        groups.setdefault((entry.side, entry.measurement.status), []).append(entry)
    for (side, status), entries in groups.items():
        numbers = ", ".join(str(entry.number) for entry in entries)
        to.print(f"  {side}: {ending(status)} in round{'s' if len(entries) > 1 else ''} {numbers}")
        said = next((entry.stderr_end for entry in entries if status and entry.stderr_end), "")
        if said:
            to.print(Text(f"    it said: {said}"), soft_wrap=True)
