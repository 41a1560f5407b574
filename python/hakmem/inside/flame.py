"""Draws a call tree as a flame graph: one SVG file that needs nothing else, with tool tips, zoom and search.

Without scripts (in a document, say) it still is a picture with tool tips.
"""

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from xml.sax.saxutils import escape

from hakmem.inside.call_tree import Node
from hakmem.units import shown_amount, shown_share

_WIDTH = 1200.0
_SIDE = 10.0
_ROW = 18.0
_TITLE_HEIGHT = 44.0
_FOOT_HEIGHT = 24.0
_LETTER_WIDTH = 7.0
_NARROWEST = 0.15  # pixels; what is narrower cannot be seen even when it is zoomed to a wide screen
_FEWEST_LETTERS = 3
# XML cannot say these, and names in a profile may be anything.
_UNPRINTABLE = re.compile(r"[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class _Box:
    node: Node
    level: int
    left: float  # as a part of the whole
    width: float


def flame_svg(tree: Node, title: str, unit: str) -> str:
    """`unit` is "bytes" or "blocks"."""
    boxes = list(_boxes(tree))
    rows = max(box.level for box in boxes) + 1
    height = _TITLE_HEIGHT + rows * _ROW + _FOOT_HEIGHT
    script = resources.files(__package__).joinpath("flame.js").read_text(encoding="utf-8")
    frames = "\n".join(_frame(box, rows, tree.value, unit) for box in boxes)
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH:.0f} {height:.0f}" \
width="100%" style="background:#fff;min-width:600px" \
font-family="ui-monospace,Menlo,Consolas,monospace" font-size="11.6">
<style>
.frame {{ cursor: pointer }}
.frame:hover rect {{ stroke: #000; stroke-width: 0.7 }}
.frame text {{ pointer-events: none }}
.outside {{ display: none }}
.above {{ opacity: 0.45 }}
.found rect {{ fill: #b04be0 }}
.button {{ cursor: pointer; fill: #0b57d0 }}
</style>
<text x="{_WIDTH / 2:.0f}" y="20" text-anchor="middle" font-size="15">{_xml(title)}</text>
<text id="reset" class="button outside" x="{_SIDE:.0f}" y="20">reset zoom</text>
<text id="search" class="button" x="{_WIDTH - _SIDE:.0f}" y="20" text-anchor="end">search (/)</text>
<text id="found" x="{_WIDTH - _SIDE:.0f}" y="36" text-anchor="end"></text>
<text id="detail" x="{_SIDE:.0f}" y="{height - 8:.0f}"></text>
<g id="frames" data-left="{_SIDE:.0f}" data-width="{_WIDTH - 2 * _SIDE:.0f}" data-letter="{_LETTER_WIDTH}">
{frames}
</g>
<script><![CDATA[
{script}]]></script>
</svg>
"""


def _boxes(tree: Node) -> Iterator[_Box]:
    pending = [_Box(tree, 0, 0.0, 1.0)]
    while pending:
        box = pending.pop()
        yield box
        left = box.left
        for child in box.node.sorted_children():
            width = child.value / tree.value
            if width * _WIDTH >= _NARROWEST:
                pending.append(_Box(child, box.level + 1, left, width))
            left += width


def _frame(box: _Box, rows: int, whole: float, unit: str) -> str:
    inner = _WIDTH - 2 * _SIDE
    x, width = _SIDE + box.left * inner, box.width * inner
    y = _TITLE_HEIGHT + (rows - 1 - box.level) * _ROW
    frame = box.node.frame
    amount = f"{shown_amount(box.node.value, unit)}, {shown_share(box.node.value, whole)}"
    module = f" in {frame.module}" if frame.module else ""
    letters = int((width - 6) / _LETTER_WIDTH)
    return (
        f'<g class="frame" data-x="{box.left:.7f}" data-w="{box.width:.7f}" data-level="{box.level}" '
        f'data-name="{_xml(frame.function)}">'
        f"<title>{_xml(frame.function + module)}\n{_xml(amount)}</title>"
        f'<rect x="{x:.2f}" y="{y:.1f}" width="{width:.2f}" height="{_ROW - 1:.0f}" rx="1" '
        f'fill="{_colour(box)}"/>'
        f'<text x="{x + 3:.2f}" y="{y + 12.5:.1f}">{_xml(_fitted(frame.function, letters))}</text></g>'
    )


def _fitted(name: str, letters: int) -> str:
    if len(name) <= letters:
        return name
    return name[: letters - 1] + "…" if letters >= _FEWEST_LETTERS else ""


def _colour(box: _Box) -> str:
    """The same for the same function in every picture; libraries differ in hue."""
    frame = box.node.frame
    if box.level == 0:
        return "#d8d8d8"
    hue = zlib.crc32(frame.module.encode(errors="replace")) % 50 + 8
    light = 62 + zlib.crc32(frame.function.encode(errors="replace")) % 14
    return f"hsl({hue},85%,{light}%)"


def _xml(text: str) -> str:
    return escape(_UNPRINTABLE.sub("�", text), {'"': "&quot;"})
