"""Draws the memory that a program held over time, a line for each allocator."""

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

from hakmem.errors import HakmemError
from hakmem.memory_curve import Curve

_MEBIBYTE = 1 << 20
_INCHES = (10.0, 6.0)


def require_drawable(path: Path, wanted: str = "--plot") -> None:
    """Raises, before the program has run for hours, if no picture could be written to `path`.

    `wanted` is what the user asked for."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 # an optional extra
    except ImportError:
        raise HakmemError(
            f"{wanted} needs matplotlib, which is not installed: install matplotlib "
            f"({shlex.quote(sys.executable)} -m pip install matplotlib)"
        ) from None
    formats = Figure().canvas.get_supported_filetypes()
    if path.suffix[1:].lower() not in formats:
        known = ", ".join(sorted(formats))
        raise HakmemError(f"cannot draw '{path}': its name must end in one of {known}")
    if not path.absolute().parent.is_dir():
        raise HakmemError(f"cannot draw '{path}': there is no folder '{path.absolute().parent}'")


def draw(path: Path, title: str, curves: Mapping[str, Curve]) -> None:
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=_INCHES, layout="constrained")
    axes = figure.subplots()
    for name, curve in curves.items():
        axes.plot(curve.seconds, [rss / _MEBIBYTE for rss in curve.rss], label=name, linewidth=1.5)
    axes.set_title(title.encode(errors="replace").decode(), parse_math=False)  # it is no formula
    axes.set(xlabel="seconds since the start", ylabel="resident memory (RSS), MiB")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend()
    try:
        figure.savefig(path, dpi=150)
    except OSError as error:
        raise HakmemError(f"cannot write '{path}': {error.strerror}") from error
