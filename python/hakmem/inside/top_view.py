"""How `hakmem top` looks."""

from collections.abc import Mapping, Sequence

from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from hakmem.inside.history import History
from hakmem.inside.profile_report import Place
from hakmem.inside.statistics import Statistics
from hakmem.inside.stats_report import (
    RESIDENT_MEANS,
    WHOLE_PROCESS_MEANS,
    classes_table,
    shown_fallbacks,
)
from hakmem.units import shown_bytes, shown_count, shown_rate

_LEVELS = "▁▂▃▄▅▆▇█"
_CURVE_STYLES = {"live": "green", "resident": "blue", "retained": "cyan", "whole process": "magenta"}
# Counters whose rates are shown, and what they are called.
_RATES = (
    (("refills", "refills"), ("flushes", "flushes"), ("remote frees", "remote_freed_blocks")),
    (("slabs made", "slabs_created"), ("slabs released", "slabs_released"), ("purges", "purges")),
    (("large blocks", "large_allocs"), ("huge blocks", "huge_allocs"), ("system calls", "system_calls")),
)
_MEANINGS = f"resident: {RESIDENT_MEANS}; whole process: {WHOLE_PROCESS_MEANS}"
_BYTE_RATES = (("given back", "purged_bytes"), ("faulted ahead", "populated_bytes"))
_FEWEST_CLASSES = 3
_OTHER_LINES = 19


def top_view(
    headings: Sequence[str],
    statistics: Statistics,
    history: History,
    sites: Sequence[Place],
    size: tuple[int, int],
) -> RenderableType:
    width, height = size
    parts: list[RenderableType] = [Text(headings[0], style="bold")]
    parts += [Text(line, style="yellow") for line in headings[1:]]
    parts += [_curves(history, width), Text(_MEANINGS, style="bright_black"), _rates(history)]
    room = height - _OTHER_LINES - (2 * len(sites) + 1 if sites else 0)
    by_bytes = sorted(statistics.classes, key=lambda entry: entry.get("resident_bytes", 0), reverse=True)
    parts.append(classes_table(by_bytes[: max(_FEWEST_CLASSES, room)]))
    if sites:
        parts.append(_sites(sites, width))
    parts.append(Text(f"fall-backs: {shown_fallbacks(statistics)}", style=""))
    return Group(*parts)


def sparkline(values: Sequence[float], width: int) -> str:
    """The last `width` values between 0 and the largest of them."""
    shown = list(values)[-width:]
    highest = max(shown, default=0)
    if highest <= 0:
        return _LEVELS[0] * len(shown)
    top = len(_LEVELS) - 1
    return "".join(_LEVELS[round(max(0.0, value) / highest * top)] for value in shown)


def _curves(history: History, width: int) -> Table:
    table = Table.grid(padding=(0, 1))
    for justify in ("left", "right", "left", "left"):
        table.add_column(justify=justify, no_wrap=True)
    for name, values in history.curves.items():
        highest = f"of at most {shown_bytes(max(values, default=0))}"
        room = max(10, width - 52)
        line = Text(sparkline(values, room), style=_CURVE_STYLES[name])
        table.add_row(name, shown_bytes(values[-1] if values else 0), line, highest)
    return table


def _rates(history: History) -> RenderableType:
    if not history.rates:
        return Text("a second: from the next look on")
    if history.idle:
        return Text("a second: nothing; the process has not allocated off the fast path since the last look")
    columns = [_rate_column(names, history.rates) for names in _RATES]
    given = [f"{title} {shown_bytes(history.rates.get(name, 0))}/s" for title, name in _BYTE_RATES]
    return Group(Columns(columns, padding=(0, 4)), Text(", ".join(given)))


def _rate_column(names: Sequence[tuple[str, str]], rates: Mapping[str, float]) -> Table:
    table = Table.grid(padding=(0, 1))
    table.add_column()
    table.add_column(justify="right", min_width=10)
    for title, name in names:
        table.add_row(title, f"{shown_rate(rates.get(name, 0))}/s")
    return table


def _sites(sites: Sequence[Place], width: int) -> Text:
    whole = sum(site.value for site in sites)
    text = Text("live bytes by call site, sampled", style="bold")
    for site in sites:
        chain = " ← ".join(frame.function for frame in site.stack) or "?"
        figures = f"{shown_bytes(site.value):>12}  {shown_count(site.blocks):>9} blocks  "
        room = max(20, width - len(figures) - 1)
        shown = chain if len(chain) <= room else chain[: room - 1] + "…"
        text.append(f"\n{figures}{shown}", style="not bold")
    if whole == 0:
        text.append("\nnone", style="not bold")
    return text
