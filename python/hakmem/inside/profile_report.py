"""What `hakmem profile` prints for people: call stacks with their names, the heaviest first."""

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.text import Text

from hakmem.errors import HakmemError
from hakmem.inside.heap_profile import WEIGHTS, HeapProfile
from hakmem.inside.names import as_named, printable
from hakmem.inside.symbols import Frame, Symbolizer
from hakmem.units import shown_amount, shown_bytes, shown_count, shown_rate, shown_seconds, shown_share

_MOST_FRAMES = 12
_SAMPLES_FOR_A_FIGURE = 10
_OTHER_VERSION = "its library may be of another version than this command"


@dataclass(frozen=True)
class Place:
    """All that was allocated through one chain of functions."""

    stack: tuple[Frame, ...]  # the innermost first
    value: float
    blocks: float


def heaviest(
    profile: HeapProfile, symbolizer: Symbolizer, life: str, unit: str, *, depth: int | None = None
) -> list[Place]:
    """Places by what WEIGHTS calls (life, unit); `depth` is how many frames tell them apart, if not all."""
    value, blocks = WEIGHTS[life, unit].of, WEIGHTS[life, "blocks"].of
    sums: dict[tuple[Frame, ...], tuple[float, float]] = {}
    for sample in profile.samples:
        stack = tuple(symbolizer.frame(address) for address in sample.stack[:depth])
        before = sums.get(stack, (0.0, 0.0))
        sums[stack] = (before[0] + value(sample.counts), before[1] + blocks(sample.counts))
    places = [Place(stack, *figures) for stack, figures in sums.items() if figures[0] > 0]
    return sorted(places, key=lambda place: place.value, reverse=True)


def print_places(to: Console, places: Sequence[Place], most: int, unit: str) -> None:
    whole = sum(place.value for place in places)
    if not places:
        to.print("all that was sampled has been freed")
    for place in places[:most]:
        blocks = "" if unit == "blocks" else f"  {shown_count(place.blocks)} blocks"
        head = f"{shown_amount(place.value, unit):>12}  {shown_share(place.value, whole):>6}{blocks}"
        _print_stack(to, head, place.stack)
    if len(places) > most:
        rest = sum(place.value for place in places[most:])
        head = f"{shown_amount(rest, unit):>12}  {shown_share(rest, whole):>6}"
        to.print(f"{head}  in {len(places) - most} more stacks")


def fragmentation_document(raw: bytes) -> dict[str, Any]:
    return _document(raw, "sites")


def print_fragmentation(to: Console, document: dict[str, Any], symbolizer: Symbolizer, most: int) -> None:
    sites = sorted(document["sites"], key=lambda site: site.get("pinned_bytes", 0), reverse=True)
    whole = document.get("total_pinned_bytes", 0)
    samples = sum(site.get("samples", 0) for site in sites if site.get("pinned_bytes", 0) > 0)
    if not sites:
        to.print(
            "unknown: nothing was sampled that still lives. Only blocks allocated while the process samples "
            "are seen: HAKMEM_PROF=1 samples from its start"
        )
        return
    resident = document.get("total_resident_bytes")  # what is not was given back by the page
    of_it = "" if resident is None else f", of it {shown_bytes(resident)} resident"
    to.print(
        Text(
            f"{shown_bytes(whole)} kept from being returned{of_it}, by who allocated what keeps them", "bold"
        ),
        soft_wrap=True,
    )
    for site in sites[:most]:
        pinned, live = site.get("pinned_bytes", 0), site.get("live_bytes", 0)
        head = (
            f"{shown_bytes(pinned):>12}  {shown_share(pinned, whole):>6}  pinned by {shown_bytes(live)} "
            f"in {shown_count(site.get('live_blocks', 0))} blocks"
        )
        stack = tuple(symbolizer.frame(int(address, 16)) for address in site.get("frames", ()))
        _print_stack(to, head, stack)
    to.print(f"estimated from {shown_count(samples)} samples: {_trust(samples)}")


def _trust(samples: int) -> str:
    if samples < _SAMPLES_FOR_A_FIGURE:
        return "too few to rely on; HAKMEM_PROF_INTERVAL=16K (or --interval with --seconds) takes more"
    return f"right to about {1 / math.sqrt(samples):.0%}, of what was allocated while the process sampled"


def sites_document(raw: bytes) -> dict[str, Any]:
    return _document(raw, "sites")


def print_sites(to: Console, document: dict[str, Any], most: int) -> None:
    """Of hak_alloc_at."""
    for site in document["sites"][:most]:
        blocks = shown_count(site.get("live_blocks", 0))
        live = f"{shown_bytes(site.get('live_bytes', 0)):>12} in {blocks} blocks"
        rate = shown_rate(site.get("blocks_per_second", 0))
        lifetime = shown_seconds(site.get("mean_lifetime_ms", 0) / 1000)
        peak = shown_bytes(site.get("peak_bytes", 0))
        to.print(Text(f"{live}  {_place_of(site)}", style="bold"), soft_wrap=True)
        to.print(f"{'':>16}peak {peak}, {rate} blocks/s, each living {lifetime} on average", soft_wrap=True)
    if not document["sites"]:
        to.print("no call sites: the program does not use hak_alloc_at (see hakmem.h)")


def _place_of(site: dict[str, Any]) -> str:
    return printable(as_named(str(site.get("place") or site.get("site", "?"))))


def _document(raw: bytes, key: str) -> dict[str, Any]:
    try:
        document = json.loads(raw.decode("latin-1"))  # paths may be any bytes, escaped or not
    except (ValueError, RecursionError) as error:
        raise HakmemError(f"the answer of the process is not JSON ({error}): {_OTHER_VERSION}") from error
    if not isinstance(document, dict) or not isinstance(document.get(key), list):
        raise HakmemError(f"the answer of the process has no '{key}': {_OTHER_VERSION}")
    return document


@contextmanager
def understood() -> Iterator[None]:
    """What the answer holds may be anything, if it is not the library's."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
        raise HakmemError(
            f"the answer of the process is not as expected ({error}): {_OTHER_VERSION}"
        ) from error


def _print_stack(to: Console, head: str, stack: Sequence[Frame]) -> None:
    to.print(Text(head, style="bold"), soft_wrap=True)
    for frame in stack[:_MOST_FRAMES]:
        to.print(Text(f"{'':>16}{frame}"), soft_wrap=True)
    if len(stack) > _MOST_FRAMES:
        to.print(Text(f"{'':>16}… {len(stack) - _MOST_FRAMES} more callers"))
