"""The slab map as a picture: one cell a slab, one row a superslab, in columns where there are many."""

import math
from pathlib import Path

from hakmem.errors import HakmemError
from hakmem.inside.slab_map import Cell, SlabMap, State

_COLOURS = {
    State.FREE_CLEAN: ("#f2f2f2", "free, given back"),
    State.FREE_DIRTY: ("#8fc7e8", "free, resident"),
    State.LARGE: ("#7a5ba8", "large block"),
    State.INTERNAL: ("#555555", "the allocator's metadata, mostly not resident"),
}
_SCALE = "RdYlGn"  # red: few live blocks keep a slab
_BACKGROUND = "#ffffff"
_GAP = 2  # cells between two columns
_WIDEST_INCHES = 14.0
_CELL_INCHES = 0.11
_FEWEST_ROWS = 4
_HEIGHT_TO_WIDTH = 0.6  # where there are many


def draw_slab_map(path: Path, title: str, slab_map: SlabMap) -> None:
    """`require_drawable` has been asked before."""
    import matplotlib as mpl  # noqa: PLC0415 # an optional extra
    from matplotlib.cm import ScalarMappable  # noqa: PLC0415
    from matplotlib.colors import Normalize, to_rgb  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415
    from matplotlib.patches import Patch  # noqa: PLC0415

    scale = mpl.colormaps[_SCALE]

    def colour(cell: Cell) -> tuple[float, float, float]:
        if cell.state == State.CLASS:
            red, green, blue, _ = scale(cell.share)
            return red, green, blue
        return to_rgb(_COLOURS[cell.state][0])

    superslabs = slab_map.superslabs
    each = len(superslabs[0].cells) if superslabs else 1
    columns = max(1, round(math.sqrt(len(superslabs) / (_HEIGHT_TO_WIDTH * each))))
    rows = max(_FEWEST_ROWS, math.ceil(len(superslabs) / columns))
    width = columns * (each + _GAP) - _GAP
    image = [[to_rgb(_BACKGROUND)] * width for _ in range(rows)]
    for number, superslab in enumerate(superslabs):
        column, row = divmod(number, rows)
        left = column * (each + _GAP)
        image[row][left : left + each] = [colour(cell) for cell in superslab.cells]
    inches = min(_WIDEST_INCHES, max(8.0, width * _CELL_INCHES))
    height = max(3.0, inches * rows / width + 1.5)
    figure = Figure(figsize=(inches, height), layout="constrained")
    axes = figure.subplots()
    axes.imshow(image, aspect="auto", interpolation="nearest")
    bases = [f"{superslab.base:#x}" for superslab in superslabs[:rows]]
    step = max(1, len(bases) // 16)
    axes.set_yticks(range(0, len(bases), step), bases[::step], fontsize=7, family="monospace")
    axes.set_xticks([])
    axes.set_title(title, fontsize=10)
    kibibytes = slab_map.slab_bytes // 1024
    axes.set_xlabel(f"one cell: {kibibytes} KiB; one row: {each} of them, a superslab", fontsize=8)
    bar = figure.colorbar(ScalarMappable(Normalize(0, 100), _SCALE), ax=axes, pad=0.01, fraction=0.03)
    bar.set_label("live blocks of a size class's slab, %", fontsize=8)
    patches = [Patch(facecolor=shade, edgecolor="#999999", label=name) for shade, name in _COLOURS.values()]
    figure.legend(handles=patches, loc="outside lower center", ncols=len(patches), fontsize=8)
    try:
        figure.savefig(path, dpi=150)
    except OSError as error:
        raise HakmemError(f"cannot write '{path}': {error.strerror}") from error
