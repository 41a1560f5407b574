"""The page's pictures: dots on a logarithmic scale for every workload and allocator, and memory over phases.

The subject is drawn larger than the others and in red; colours and marks are told apart by colour-blind eyes.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hakmem.errors import HakmemError

from bench import memory_model, phases
from bench.estimate import best
from bench.view import RSS, TIME, Measure, View

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SUBJECT_STYLE: dict[str, Any] = {"color": "#d62728", "marker": "D", "markersize": 7.0, "zorder": 5}
_PEER_COLOURS = (
    "#0072b2",
    "#e69f00",
    "#009e73",
    "#cc79a7",
    "#56b4e9",
    "#8c8c00",
    "#000000",
    "#7f5fbf",
    "#a0522d",
)
_PEER_MARKS = "os^vP<>X*hp"

_WIDTH = 9.0
_ROW_HEIGHT = 0.24
_FRAME_HEIGHT = 1.6
_SHORTEST_SHARE = 0.0001  # of the data: overheads below it, or below nothing, are drawn here


@dataclass(frozen=True)
class Plot:
    file: str
    caption: str
    draw: Callable[[View], "Figure | None"]  # None: nothing to show


def draw(view: View, folder: Path) -> list[str]:
    """Draws what there is to draw into `folder`; the names, keys of PLOTS, of what was drawn."""
    try:
        import matplotlib as mpl  # noqa: PLC0415 -- measuring must go without its memory, and may without it
    except ImportError as error:
        raise HakmemError(f"no pictures without matplotlib: {error} (pip install -e '.[bench]')") from error
    # The same figures make the same file, on every machine and at any time.
    settings: Any = {"svg.hashsalt": "hakmem", "svg.fonttype": "none", "font.size": 9, "axes.axisbelow": True}
    drawn = []
    with mpl.rc_context(settings):
        for name, plot in PLOTS.items():
            if figure := plot.draw(view):
                try:
                    folder.mkdir(parents=True, exist_ok=True)
                    figure.savefig(folder / plot.file, metadata={"Date": None}, bbox_inches="tight")
                except OSError as error:
                    raise HakmemError(f"cannot write '{folder / plot.file}': {error.strerror}") from error
                drawn.append(name)
    return drawn


def _compared(measure: Measure) -> Callable[[View], "Figure | None"]:
    def draw_measure(view: View) -> "Figure | None":
        rows: dict[str, dict[str, float]] = {}
        for workload in view.workloads(measure):
            medians = {name: view.value(workload, name, measure) for name in view.names}
            winner = best(view.names, medians.get)
            least = medians[winner] if winner else None
            if least:
                rows[workload.name] = {name: value / least for name, value in medians.items() if value}
        return _dots(
            view, rows, f"{measure.name}, over the best of the row (log scale): further left is better"
        )

    return draw_measure


def _usage(view: View) -> "Figure | None":
    rows = {
        workload: {name: max(usage.overhead, _SHORTEST_SHARE) * 100 for name, usage in found.items()}
        for workload, found in memory_model.usages(view).items()
    }
    return _dots(
        view, rows, "resident memory beyond the data, % of the data (log scale): further left is better"
    )


def _fragmentation(view: View) -> "Figure | None":
    shown = [workload for workload in phases.fragmentation(view) if _any_phases(view, workload.name)]
    if not shown:
        return None
    figure = _figure(_WIDTH, 2.8 * len(shown))
    for number, workload in enumerate(shown, 1):
        axes = figure.add_subplot(len(shown), 1, number)
        for name, style in _styles(view).items():
            line = phases.phases(workload, name)
            if line:
                label = view.title(name)
                axes.plot(
                    [phase.name for phase in line],
                    [phase.ratio for phase in line],
                    label=label,
                    linewidth=1,
                    **style,
                )
        axes.set_yscale("log")
        _plain_numbers(axes, "y")
        axes.set_ylabel("RSS / live bytes")
        axes.set_title(workload.name, loc="left", fontsize=9)
        axes.grid(alpha=0.3)
    _legend(figure.axes[0], above=1.1)  # the title is there, too
    figure.tight_layout()
    return figure


def _dots(view: View, rows: Mapping[str, Mapping[str, float]], label: str) -> "Figure | None":
    """A row for each workload, the first on top, a mark for each allocator."""
    if not rows:
        return None
    figure = _figure(_WIDTH, _FRAME_HEIGHT + _ROW_HEIGHT * len(rows))
    axes = figure.add_subplot()
    for name, style in _styles(view).items():
        points = [(values[name], row) for row, values in enumerate(rows.values()) if name in values]
        if points:
            across, down = zip(*points, strict=True)
            axes.plot(across, down, linestyle="none", label=view.title(name), alpha=0.85, **style)
    axes.set_xscale("log")
    _plain_numbers(axes, "x")
    axes.set_yticks(range(len(rows)), list(rows))
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlabel(label)
    axes.grid(axis="y", alpha=0.25)
    axes.grid(axis="x", which="both", alpha=0.15)
    for place in _family_borders(list(rows)):
        axes.axhline(place, color="#999999", linewidth=0.6)
    _legend(axes)
    return figure


def _styles(view: View) -> dict[str, dict[str, Any]]:
    """One for each allocator; the same name has the same one in every picture of a page."""
    looks = zip(itertools.cycle(_PEER_COLOURS), itertools.cycle(_PEER_MARKS), strict=False)
    peers = {
        name: {"color": colour, "marker": mark, "markersize": 5.0}
        for name, (colour, mark) in zip(view.peers, looks, strict=False)
    }
    return {**peers, view.subject: dict(_SUBJECT_STYLE)}


def _family_borders(names: Sequence[str]) -> list[float]:
    families = [name.partition("/")[0] for name in names]
    return [row - 0.5 for row in range(1, len(families)) if families[row] != families[row - 1]]


def _any_phases(view: View, name: str) -> bool:
    workload = view.results.workload(name)
    return workload is not None and any(phases.phases(workload, allocator) for allocator in view.names)


def _figure(width: float, height: float) -> "Figure":
    from matplotlib.figure import Figure  # noqa: PLC0415 -- see draw()

    return Figure(figsize=(width, height))


def _plain_numbers(axes: "Axes", which: str) -> None:
    """1, 1.5, 2 in place of powers of ten, and marks even where the axis spans less than a decade."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter  # noqa: PLC0415 -- see draw()

    axis = axes.xaxis if which == "x" else axes.yaxis
    low, high = axis.get_view_interval()
    subdivisions = (1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 7.0) if high / low < 30 else (1.0, 2.0, 5.0)
    axis.set_major_locator(LogLocator(base=10, subs=subdivisions))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def _legend(axes: "Axes", above: float = 1.01) -> None:
    handles, labels = axes.get_legend_handles_labels()
    axes.legend(handles, labels, loc="lower left", bbox_to_anchor=(0.0, above), ncols=4, frameon=False)


PLOTS = {
    "time": Plot("time.svg", "Time of every workload on every allocator", _compared(TIME)),
    "memory": Plot("memory.svg", "Peak resident memory of every workload on every allocator", _compared(RSS)),
    "usage": Plot("usage.svg", "Resident memory over the data", _usage),
    "fragmentation": Plot(
        "fragmentation.svg", "Resident memory over live bytes, phase by phase", _fragmentation
    ),
}
