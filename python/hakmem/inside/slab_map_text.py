"""The slab map for terminals: one character a slab."""

from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from hakmem.inside.slab_map import Cell, SlabMap, State, Superslab

_LEVELS = "▁▂▃▄▅▆▇█"
_SIGNS = {State.FREE_CLEAN: "·", State.FREE_DIRTY: "~", State.LARGE: "L", State.INTERNAL: "#"}
_STYLES = {
    State.FREE_CLEAN: "bright_black",
    State.FREE_DIRTY: "cyan",
    State.LARGE: "magenta",
    State.INTERNAL: "bright_black",
}
_ADDRESS_WIDTH = 16
_GAP = 1


def print_slab_map(to: Console, slab_map: SlabMap) -> None:
    """As many superslabs side by side as the width has room for."""
    to.print(
        f"{_LEVELS}: a size class's slab, 1/8 to all of its blocks live   "
        "L: large block   ~: free, resident   ·: free, given back"
    )
    to.print("#: internal, the allocator's metadata: reserved for it as a whole, but mostly not resident")
    for line in _lines(slab_map, to.width):
        to.print(line, no_wrap=True, crop=False)


def _lines(slab_map: SlabMap, width: int) -> Iterator[Text]:
    each = len(slab_map.superslabs[0].cells) + _GAP if slab_map.superslabs else 1
    folded = max(1, (width - _ADDRESS_WIDTH) // each)
    for first in range(0, len(slab_map.superslabs), folded):
        group = slab_map.superslabs[first : first + folded]
        line = Text(f"{group[0].base:#14x} ")
        for superslab in group:
            line.append(" " * _GAP)
            line.append_text(_row(superslab))
        yield line


def _row(superslab: Superslab) -> Text:
    row = Text()
    for cell in superslab.cells:
        row.append(_sign(cell), _style(cell))
    return row


def _sign(cell: Cell) -> str:
    if cell.state != State.CLASS:
        return _SIGNS[cell.state]
    return _LEVELS[max(0, min(len(_LEVELS), -int(-cell.share * len(_LEVELS) // 1)) - 1)]


def _style(cell: Cell) -> str:
    if cell.state != State.CLASS:
        return _STYLES[cell.state]
    return "red" if cell.share < 0.25 else "yellow" if cell.share < 0.75 else "green"
