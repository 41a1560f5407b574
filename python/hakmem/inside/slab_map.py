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
        return (
            f"{shown_count(len(self.superslabs))} superslabs of {shown_count(sum(counts.values()))} slabs: "
            f"{counts[State.CLASS]} of size classes ({full} full, {sparse} under a quarter), "
            f"{counts[State.LARGE]} of large blocks, {counts[State.INTERNAL]} internal, "
            f"{counts[State.FREE_DIRTY]} free and resident "
            f"({shown_bytes(counts[State.FREE_DIRTY] * self.slab_bytes)}), "
            f"{counts[State.FREE_CLEAN]} free and given back"
        )


def parse_slab_map(raw: bytes) -> SlabMap:
    try:
        document = json.loads(raw)
        slab_bytes = int(document["slab_bytes"])
        superslab_bytes = int(document["superslab_bytes"])
        superslabs = [
            superslab
            for region in document["regions"]
            for superslab in _superslabs(region, slab_bytes, superslab_bytes)
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise HakmemError(
            f"the process's slab map cannot be read ({error!r}); is its library of this version?"
        ) from error
    return SlabMap(slab_bytes, superslabs)


def _superslabs(region: Mapping[str, Any], slab_bytes: int, superslab_bytes: int) -> Iterator[Superslab]:
    """Up to the last one in which a slab was ever used."""
    cells: dict[int, Cell] = {}
    for index, run, state, _, blocks, live_blocks in region["slabs"]:
        cell = Cell(State(state), live_blocks / blocks if blocks else 0.0)
        cells.update((slab, cell) for slab in range(index, index + run))
    base = int(region["base"], 16)
    each = superslab_bytes // slab_bytes
    unused = Cell(State.FREE_CLEAN)
    for first in range(0, max(cells, default=-1) + 1, each):
        row = tuple(cells.get(index, unused) for index in range(first, first + each))
        yield Superslab(base + first * slab_bytes, row)
