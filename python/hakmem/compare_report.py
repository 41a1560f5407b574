"""What `hakmem compare` and `hakmem allocators` print."""

import os
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hakmem.allocators import Allocator, Missing
from hakmem.compare import Side, Survey
from hakmem.ending import ending, signal_name
from hakmem.measure import Measurement
from hakmem.report import PEAK, children_are_hidden, children_note, figure_ratio
from hakmem.rounds import Round

_MEBIBYTE = 1 << 20
_SHORT_SECONDS = 0.1


@dataclass(frozen=True)
class _Figure:
    title: str
    key: str  # in JSON
    of: Callable[[Measurement], float]
    shown: Callable[[float], str]


def _seconds(value: float) -> str:
    return f"{value:.3f} s" if value >= _SHORT_SECONDS else f"{value * 1000:.2f} ms"


def _size(value: float) -> str:
    return f"{value / _MEBIBYTE:.1f} MiB"


def _count(value: float) -> str:
    return f"{value:,.0f}"


_SPEED = (
    _Figure("time", "wall_seconds", lambda m: m.wall_seconds, _seconds),
    _Figure("CPU", "cpu_seconds", lambda m: m.cpu_seconds, _seconds),
    _Figure(
        "switches",
        "context_switches",
        lambda m: m.voluntary_switches + m.involuntary_switches,
        _count,
    ),
)
_MEMORY = (
    _Figure(PEAK, "peak_rss_bytes", lambda m: m.peak_rss, _size),
    _Figure("RSS at exit", "end_rss_bytes", lambda m: m.end_rss, _size),
    _Figure("faults", "page_faults", lambda m: m.minor_faults + m.major_faults, _count),
)


def print_survey(to: Console, command: str, survey: Survey) -> None:
    to.print()
    runs = max((len(side.runs) for side in survey.sides), default=0)
    if runs:
        rounds = f"{runs} run{'s' if runs > 1 else ''} on each allocator, in turn; medians"
        to.print(Text(f"{command}: {rounds}", style="bold"))
        to.print(_table(survey, _SPEED, with_endings=True))
        to.print(_table(survey, _MEMORY))
        to.print(
            f"ratio: to {survey.reference.allocator.title}. ±: half the range of the runs. "
            "switches: context switches. faults: page faults."
        )
        if any(not entry.end_rss_exact for side in survey.sides for entry in survey.figures_of(side)):
            to.print("~: the last memory seen, not exactly that at the exit.")
        if note := children_note([entry for side in survey.sides for entry in survey.figures_of(side)]):
            to.print(f"≥: {note}")
    if survey.interrupted:
        to.print("Interrupted: no further runs.")
    _print_endings(to, survey)
    _print_missing(to, survey.missing)


def survey_document(command: Sequence[str], survey: Survey) -> dict[str, Any]:
    """All of it, for programs."""
    return {
        "command": list(command),
        "reference": survey.reference.allocator.name,
        "interrupted": survey.interrupted,
        "exit_status": survey.exit_status(),
        "shown_run": _run_entry(survey.shown) if survey.shown else None,
        "allocators": [_side_entry(side, survey) for side in survey.sides],
        "missing": [missing_entry(entry) for entry in survey.missing],
    }


def allocators_table(found: Sequence[Allocator], missing: Sequence[Missing]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in ("Name", "Allocator", "From"):
        table.add_column(title, overflow="fold", no_wrap=title == "Name")
    for allocator in found:
        table.add_row(allocator.name, Text(allocator.title), Text(allocator.origin))
    for entry in missing:
        table.add_row(entry.name, Text("-"), Text(_reason(entry), style="yellow"))
    return table


def allocator_entry(allocator: Allocator) -> dict[str, Any]:
    return {
        "name": allocator.name,
        "title": allocator.title,
        "version": allocator.version,
        "library": str(allocator.library) if allocator.library else None,
        "environment": dict(allocator.environment),
        "origin": allocator.origin,
    }


def missing_entry(entry: Missing) -> dict[str, Any]:
    library = str(entry.library) if entry.library else None
    return {"name": entry.name, "reason": entry.reason, "library": library}


def _table(survey: Survey, figures: Sequence[_Figure], *, with_endings: bool = False) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("")
    for figure in figures:
        table.add_column(figure.title, justify="right", no_wrap=True)
        table.add_column("±", justify="right", no_wrap=True)
        table.add_column("ratio", justify="right", no_wrap=True)
    if with_endings:
        table.add_column("")
    reference = survey.figures_of(survey.reference)
    for side in sorted(survey.sides, key=lambda side: _rank(survey.figures_of(side))):
        cells: list[Text | str] = []
        for figure in figures:
            cells += _cells(figure, survey.figures_of(side), reference)
        title = Text(side.allocator.title)
        endings = [Text(_failures(side), style="bold red")] if with_endings else []
        table.add_row(title, *cells, *endings)
    return table


def _rank(runs: Sequence[Measurement]) -> float:
    """The fastest first, and those without a figure at the end."""
    return statistics.median(entry.wall_seconds for entry in runs) if runs else float("inf")


def _cells(
    figure: _Figure, runs: Sequence[Measurement], reference: Sequence[Measurement]
) -> list[Text | str]:
    if not runs:
        return ["-", "", ""]
    middle = _median(figure, runs)
    rough = figure.key == "end_rss_bytes" and not all(entry.end_rss_exact for entry in runs)
    least, reference_least = (
        figure.title == PEAK and children_are_hidden(side) for side in (runs, reference)
    )
    spread = _spread(figure, runs)
    comparable = reference and least == reference_least
    return [
        ("~" if rough else "≥" if least else "") + figure.shown(middle),
        "" if spread is None else f"{spread:.0%}",
        figure_ratio(middle, _median(figure, reference)) if comparable else "-",
    ]


def _median(figure: _Figure, runs: Sequence[Measurement]) -> float:
    return statistics.median(map(figure.of, runs))


def _spread(figure: _Figure, runs: Sequence[Measurement]) -> float | None:
    """Half the range of the runs, as a part of their median."""
    values = list(map(figure.of, runs))
    middle = statistics.median(values)
    return (max(values) - min(values)) / 2 / middle if len(values) > 1 and middle else None


def _failures(side: Side) -> str:
    """For the table: "SIGSEGV in 2 of 3 runs"."""
    counts = Counter(run.measurement.status for run in side.runs if run.measurement.status)
    return ", ".join(f"{_short(status)} in {count} of {len(side.runs)}" for status, count in counts.items())


def _short(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    return f"exit {code}" if code >= 0 else signal_name(-code)


def _print_endings(to: Console, survey: Survey) -> None:
    common = survey.common_status()
    if common is not None:
        if common:
            to.print(f"The program {ending(common)} in every run.")
        return
    to.print(
        Text(
            "The program did not end alike in all runs; figures are of those that succeeded:",
            style="bold red",
        )
    )
    if survey.shown and survey.shown.measurement.status:
        _print_failure(to, survey.reference, [survey.shown], "in the first run, whose figures do not count")
    for side in survey.sides:
        groups: dict[int, list[Round]] = {}
        for run in side.runs:
            groups.setdefault(run.measurement.status, []).append(run)
        for status, runs in groups.items():
            if status:
                _print_failure(to, side, runs, f"in {len(runs)} of {len(side.runs)} runs")
        if side.watched and side.watched.measurement.status:
            _print_failure(to, side, [side.watched], "in the run for the picture")


def _print_failure(to: Console, side: Side, runs: list[Round], when: str) -> None:
    how = ending(runs[0].measurement.status)
    to.print(Text(f"  {side.allocator.title}: {how} {when}"), soft_wrap=True)
    if said := next((run.stderr_end for run in runs if run.stderr_end), ""):
        to.print(Text(f"    it said: {said}"), soft_wrap=True)


def _print_missing(to: Console, missing: Sequence[Missing]) -> None:
    for entry in missing:
        if entry.library:
            to.print(Text(f"{entry.name} cannot be used: {_reason(entry)}", style="yellow"), soft_wrap=True)
    if absent := [entry.name for entry in missing if not entry.library]:
        to.print(f"Not on this machine: {', '.join(absent)} ('hakmem allocators' says why).")


def _reason(entry: Missing) -> str:
    return f"'{entry.library}': {entry.reason}" if entry.library else entry.reason


def _side_entry(side: Side, survey: Survey) -> dict[str, Any]:
    runs = survey.figures_of(side)
    reference = survey.figures_of(survey.reference)
    figures = (*_SPEED, *_MEMORY)
    return {
        **allocator_entry(side.allocator),
        "failed_runs": sum(run.measurement.status != 0 for run in side.runs),
        "median": {figure.key: _median(figure, runs) for figure in figures} if runs else None,
        "spread": {figure.key: _spread(figure, runs) for figure in figures} if runs else None,
        "ratio": {figure.key: _plain_ratio(figure, runs, reference) for figure in figures}
        if runs and reference
        else None,
        "runs": [_run_entry(run) for run in side.runs],
        "watched_run": _run_entry(side.watched) if side.watched else None,
        "rss_over_time": {"seconds": side.curve.seconds, "rss_bytes": side.curve.rss} if side.curve else None,
    }


def _plain_ratio(
    figure: _Figure, runs: Sequence[Measurement], reference: Sequence[Measurement]
) -> float | None:
    divisor = _median(figure, reference)
    return _median(figure, runs) / divisor if divisor else None


def _run_entry(run: Round) -> dict[str, Any]:
    measured = run.measurement
    code = os.waitstatus_to_exitcode(measured.status)
    return {
        "number": run.number,
        "exit_status": code if code >= 0 else None,
        "signal": signal_name(-code) if code < 0 else None,
        "wall_seconds": measured.wall_seconds,
        "cpu_seconds": measured.cpu_seconds,
        "peak_rss_bytes": measured.peak_rss,
        "children_peak_rss_at_most_bytes": measured.children_peak_at_most,
        "end_rss_bytes": measured.end_rss,
        "end_rss_exact": measured.end_rss_exact,
        "minor_faults": measured.minor_faults,
        "major_faults": measured.major_faults,
        "voluntary_context_switches": measured.voluntary_switches,
        "involuntary_context_switches": measured.involuntary_switches,
        "stderr_end": run.stderr_end,
    }
