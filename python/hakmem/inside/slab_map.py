"""The slab map of a process: what each 64 KiB of its heap is used for, and how full it is."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from hakmem.errors import HakmemError
from hakmem.units import shown_bytes, shown_count, shown_share

_SPARSE = 0.25
_MOST_SLABS = 1 << 25  # 2 TiB: whatever an answer claims, this command holds no more of it


class State(IntEnum):
    FREE_CLEAN = 0
    FREE_DIRTY = 1
    CLASS = 2
    LARGE = 3
    INTERNAL = 4


@dataclass(frozen=True)
class Cell:
    """One slab."""

    state: State
    share: float = 1.0  # of blocks that are live


@dataclass(frozen=True)
class Superslab:
    base: int
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class SlabMap:
    slab_bytes: int
    superslabs: list[Superslab]

    def cells(self) -> Iterator[Cell]:
        for superslab in self.superslabs:
            yield from superslab.cells

    def summary(self) -> str:
        """One line."""
        counts = Counter(cell.state for cell in self.cells())
        in_classes = [cell for cell in self.cells() if cell.state == State.CLASS]
        sparse = sum(cell.share < _SPARSE for cell in in_classes)
        full = shown_share(sum(cell.share for cell in in_classes), len(in_classes))

        def of(state: State) -> str:
            return shown_count(counts[state])

        return (
            f"{shown_count(len(self.superslabs))} superslabs of {shown_count(sum(counts.values()))} slabs: "
            f"{of(State.CLASS)} of size classes ({full} full, {shown_count(sparse)} under a quarter), "
            f"{of(State.LARGE)} of large blocks, {of(State.INTERNAL)} internal, "
            f"{of(State.FREE_DIRTY)} free and resident "
            f"({shown_bytes(counts[State.FREE_DIRTY] * self.slab_bytes)}), "
            f"{of(State.FREE_CLEAN)} free and given back"
        )


def parse_slab_map(raw: bytes) -> SlabMap:
    try:
        document = json.loads(raw)
        slab_bytes = int(document["slab_bytes"])
        each = int(document["superslab_bytes"]) // slab_bytes
        superslabs: list[Superslab] = []
        room = _MOST_SLABS
        for region in document["regions"]:
            rows = _superslabs(region, slab_bytes, each, room)
            superslabs += rows
            room -= each * len(rows)
    except (ValueError, KeyError, TypeError, ArithmeticError, RecursionError) as error:
        raise HakmemError(
            f"the process's slab map cannot be read ({error!r}); is its library of this version?"
        ) from error
    return SlabMap(slab_bytes, superslabs)


def _superslabs(region: Mapping[str, Any], slab_bytes: int, each: int, room: int) -> list[Superslab]:
    """Up to the last one in which a slab was ever used."""
    base = int(region["base"], 16)
    slabs = region["bytes"] // slab_bytes
    runs = [(index, index + run, _cell(*rest)) for index, run, *rest in region["slabs"]]
    if any(not 0 <= start <= end <= slabs for start, end, _ in runs):
        raise ValueError(f"a run of slabs outside of its region {base:#x}")
    rows = -(-max((end for _, end, _ in runs), default=0) // each)
    if rows * each > room or sum(end - start for start, end, _ in runs) > room:
        raise HakmemError(
            f"the process's slab map has over {shown_count(_MOST_SLABS)} slabs: too many to draw"
        )
    cells = [Cell(State.FREE_CLEAN)] * (rows * each)
    for start, end, cell in runs:
        cells[start:end] = [cell] * (end - start)
    firsts = range(0, len(cells), each)
    return [Superslab(base + first * slab_bytes, tuple(cells[first : first + each])) for first in firsts]


def _cell(state: int, _: int, blocks: int, live_blocks: int) -> Cell:
    share = live_blocks / blocks if blocks else 0.0
    return Cell(State(state), min(1.0, max(0.0, share)))
