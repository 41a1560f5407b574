"""What `hakmem stats` prints for people."""

from collections.abc import Iterator, Sequence

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from hakmem.inside.freshness import LIVE_SECONDS
from hakmem.inside.statistics import COUNTERS, LANES, Statistics
from hakmem.units import shown_bytes, shown_count, shown_seconds, shown_share

# What `stats` and `top` mean by these.
RESIDENT_MEANS = "the allocator's memory"
WHOLE_PROCESS_MEANS = "that and all else that is resident: code, stacks, other mappings"
# The parts of the heap's resident memory, which is their sum less the last.
_PARTS = (
    ("live", "live_bytes", "in blocks that the program holds"),
    ("cached", "cached_bytes", "free, in the threads' magazines, stocks, buffers and parcels"),
    ("free in slabs", "free_in_slabs_bytes", "free and resident, in slabs that hold other blocks"),
    ("slab tails", "slab_tail_bytes", "resident, but no block fits"),
    ("retained", "retained_bytes", "free and resident, in no slab"),
    ("metadata", "metadata_bytes", "the allocator's own"),
    ("less: untouched", "untouched_bytes", "handed out, but never written: not resident"),
)
# Counters that tell of one stage of the allocator.
_STAGES = (
    ("refills", ("refills", "refilled_blocks")),
    ("… served by", tuple(name for name in COUNTERS if name.startswith("refills_"))),
    ("flushes", ("flushes", "flushed_blocks", "flushes_stocked", "stock_returned_blocks")),
    ("… because of", tuple(n for n in COUNTERS if n.startswith("flushes_") and n != "flushes_stocked")),
    ("remote frees", ("remote_freed_blocks", "remote_kept_blocks", "remote_flushes", "remote_parcels")),
    (
        "large, huge",
        ("large_allocs", "large_kept", "large_frees", "huge_allocs", "huge_frees", "huge_remaps"),
    ),
    ("slabs", tuple(name for name in COUNTERS if name.startswith("slabs_"))),
    ("given back", ("purges", "purged_bytes", "decayed_bytes", "hole_bytes")),
    ("faulted ahead", ("populated_bytes", "page_faults_avoided")),
    ("the kernel", ("system_calls", "superslabs_opened", "superslabs_dense", "regions_created")),
    ("lock waits", ("arena_lock_waits", "other_lock_waits")),
    ("others", ("magazine_growths", "heaps_reclaimed", "foreign_frees")),
)
# Where the name says less than there is to say.
_LABELS = {"page_faults_avoided": "page faults spared if all of it is used"}
_MOST_CLASSES = 12


def print_stats(
    to: Console,
    statistics: Statistics,
    heading: str,
    process_rss: int | None,
    change: str | None = None,
    *,
    all_classes: bool = False,
) -> None:
    """`change` is what has become of the process since."""
    to.print(Text(heading, style="bold"), soft_wrap=True)
    if change:
        to.print(Text(change, style="yellow"), soft_wrap=True)
    to.print(_memory_table(statistics, process_rss))
    to.print()
    to.print(_lanes_table(statistics))
    to.print()
    shown = sorted(statistics.classes, key=lambda entry: entry.get("resident_bytes", 0), reverse=True)
    left_out = 0 if all_classes else len(shown[_MOST_CLASSES:])
    to.print(classes_table(shown[: len(shown) - left_out]))
    if left_out:
        to.print(f"and {left_out} more size classes, smaller in all: --all-classes shows them")
    to.print()
    to.print(_stages_table(statistics))
    to.print()
    heaps = statistics.numbers("heaps")
    # Names come from the page, on which anybody may have put what reads as markup.
    to.print(Text("heaps: " + ", ".join(f"{count} {state}" for state, count in heaps.items())))
    to.print(Text("fall-backs: " + shown_fallbacks(statistics)))
    if options := statistics.section("options"):
        to.print(Text("options set: " + ", ".join(f"{name}={value}" for name, value in options.items())))


def heading_of(statistics: Statistics, pid: int, state: str) -> str:
    """The first line: which program, which library, how long; `state` is how fresh that is."""
    uptime = shown_seconds(statistics.number("uptime_ms") / 1000)
    return f"{statistics.program} ({pid}), HAKMEM {statistics.version}, up {uptime}; {state}"


def shown_fallbacks(statistics: Statistics) -> str:
    fallbacks = statistics.numbers("fallbacks")
    return ", ".join(f"{shown_count(count)} {reason}" for reason, count in fallbacks.items()) or "none"


def classes_table(entries: Sequence[dict[str, int] | object]) -> Table:
    table = _table(
        ("size class", "slabs", "blocks", "live", "cached blocks", "free blocks", "resident", "full")
    )
    for entry in entries:
        if not isinstance(entry, dict):
            continue
        blocks = sum(entry.get(name, 0) for name in ("live_blocks", "cached_blocks", "free_blocks"))
        exact = " exact" if entry.get("exact") else ""
        table.add_row(
            f"{entry.get('bytes', 0):,} B{exact}",
            shown_count(entry.get("slabs", 0)),
            shown_count(entry.get("live_blocks", 0)),
            shown_bytes(entry.get("live_bytes", 0)),
            shown_count(entry.get("cached_blocks", 0)),
            shown_count(entry.get("free_blocks", 0)),
            shown_bytes(entry.get("resident_bytes", 0)),
            shown_share(entry.get("live_blocks", 0), blocks),
        )
    return table


def _memory_table(statistics: Statistics, process_rss: int | None) -> RenderableType:
    table = _table(("memory", "", "", ""))
    whole = statistics.memory("heap_resident_bytes")
    for title, name, meaning in _PARTS:
        size = statistics.memory(name)
        note = meaning
        if name == "live_bytes":
            note += f" ({shown_count(statistics.memory('live_blocks'))} blocks)"
        if name == "retained_bytes":
            note += f" (at most {shown_bytes(statistics.memory('retained_limit_bytes'))} may stay)"
        table.add_row(title, shown_bytes(size), shown_share(size, whole), note)
    counted = "as the kernel counts" if statistics.measured else "an estimate: --measure asks the kernel"
    meaning = f"{RESIDENT_MEANS}: the sum of these ({counted})"
    table.add_row("= resident", shown_bytes(whole), "", meaning, style="bold")
    resident = process_rss or statistics.memory("process_resident_bytes")
    if resident:
        table.add_row("whole process", shown_bytes(resident), "", WHOLE_PROCESS_MEANS)
    limit = statistics.number("container", "limit_bytes")
    if limit:
        room = shown_bytes(statistics.number("container", "room_bytes"))
        age = statistics.number("container", "age_ms") / 1000
        when = f" {shown_seconds(age)} ago" if age >= LIVE_SECONDS else ""
        note = f"left{when} of the {shown_bytes(limit)} that its container may use"
        scarce = "; near the limit: less that is free stays" if statistics.scarce else ""
        table.add_row("room", room, "", note + scarce, style="yellow" if scarce else None)
    reserved = statistics.memory("reserved_bytes")
    table.add_row("reserved", shown_bytes(reserved), "", "address space: costs nothing")
    return Group(table)


def _lanes_table(statistics: Statistics) -> Table:
    table = _table(("lane", "blocks", "live", "cached", "free", "tails", "resident", "fragmentation"))
    for lane in LANES:
        figures = statistics.numbers("lanes", lane)
        if not any(figures.values()):
            continue
        size = {name: shown_bytes(value) for name, value in figures.items()}
        resident = figures.get("resident_bytes", 0)
        wasted = max(0, resident - figures.get("live_bytes", 0))  # more may be live than was ever written
        table.add_row(
            lane,
            shown_count(figures.get("live_blocks", 0)),
            *(size.get(f"{name}_bytes", "0 B") for name in ("live", "cached", "free", "tail", "resident")),
            shown_share(wasted, resident),
        )
    return table


def _stages_table(statistics: Statistics) -> Table:
    seconds = shown_seconds(statistics.number("counting_ms") / 1000)
    table = _table((f"in {seconds}", ""), justify="left")
    for title, names in _STAGES:
        stem = _common_stem(names)
        parts = list(_counted(statistics, names, stem))
        table.add_row(title, ", ".join(parts) or "none")
    return table


def _counted(statistics: Statistics, names: Sequence[str], stem: str) -> Iterator[str]:
    for name in names:
        count = statistics.counter(name)
        if count:
            label = _LABELS.get(name) or name.removeprefix(stem).removesuffix("_bytes").replace("_", " ")
            shown = shown_bytes(count) if name.endswith("_bytes") else shown_count(count)
            yield f"{shown} {label}"


def _common_stem(names: Sequence[str]) -> str:
    """What all of several names begin with, so that it need not be said for each."""
    stem = names[0].split("_")[0] + "_"
    return stem if len(names) > 1 and all(name.startswith(stem) for name in names) else ""


def _table(titles: Sequence[str], justify: str = "right") -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for index, title in enumerate(titles):
        right = justify == "right" and index > 0 and not (len(titles) == 4 and index == 3)
        table.add_column(title, justify="right" if right else "left", overflow="fold", no_wrap=index == 0)
    return table
