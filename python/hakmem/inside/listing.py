"""All processes that run on HAKMEM and show figures, and those that left some behind."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from rich import box
from rich.table import Table
from rich.text import Text

from hakmem.errors import HakmemError
from hakmem.inside.live_file import Publication
from hakmem.inside.process import resident_now, user_name
from hakmem.inside.statistics import statistics_of
from hakmem.inside.target import Target, ended_targets, running_targets
from hakmem.units import shown_bytes, shown_seconds


@dataclass(frozen=True)
class Entry:
    """One line of the list; sizes are in bytes."""

    pid: int
    program: str
    user: str
    published_ms: int
    age_seconds: float  # of the figures
    live_bytes: int
    heap_resident_bytes: int
    process_resident_bytes: int | None  # as the kernel says now; none if it has ended

    def is_outdated(self) -> bool:
        """Whether the process has less by now than its figures say that its heap has."""
        now = self.process_resident_bytes
        return now is not None and now < self.heap_resident_bytes


def running_entries() -> tuple[list[Entry], list[HakmemError]]:
    """Who takes most memory first, and what is wrong with the figures of others."""
    entries, errors = _entries(running_targets())
    return sorted(entries, key=lambda entry: entry.process_resident_bytes or 0, reverse=True), errors


def ended_entries() -> tuple[list[Entry], list[HakmemError]]:
    """The last to publish first."""
    entries, errors = _entries(ended_targets())
    return sorted(entries, key=lambda entry: entry.published_ms, reverse=True), errors


def entry_document(entry: Entry) -> dict[str, object]:
    figures = {name: value for name, value in asdict(entry).items() if name != "age_seconds"}
    return {**figures, "ended": entry.process_resident_bytes is None}


def entries_table(entries: Sequence[Entry]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for title in ("pid", "live", "resident", "whole process", "figures of"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("user", no_wrap=True)
    table.add_column("program", overflow="fold")
    for entry in entries:
        whole = entry.process_resident_bytes
        then = "then " if entry.is_outdated() else ""
        table.add_row(
            str(entry.pid),
            f"{then}{shown_bytes(entry.live_bytes)}",
            f"{then}{shown_bytes(entry.heap_resident_bytes)}",
            "ended" if whole is None else shown_bytes(whole),
            f"{shown_seconds(entry.age_seconds)} ago",
            entry.user,
            Text(entry.program),
        )
    return table


def _entries(targets: Iterator[Target]) -> tuple[list[Entry], list[HakmemError]]:
    entries: list[Entry] = []
    errors: list[HakmemError] = []
    for target in targets:
        with target:
            try:
                publication = target.file.read()
                if publication is not None:
                    entries.append(_entry(target, publication))
            except HakmemError as error:
                errors.append(HakmemError(f"{target}: {error}"))
    return entries, errors


def _entry(target: Target, publication: Publication) -> Entry:
    statistics = statistics_of(publication)
    now = resident_now(target.pid) if target.process else None
    return Entry(
        pid=target.pid,
        program=statistics.program,
        user=user_name(target.file.owner),
        published_ms=publication.published_ms,
        age_seconds=publication.age_seconds(),
        live_bytes=statistics.memory("live_bytes"),
        heap_resident_bytes=statistics.memory("heap_resident_bytes"),
        process_resident_bytes=now.whole if now else None,
    )
