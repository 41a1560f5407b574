"""`hakmem stats`."""

import json
import re
import signal
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import click

from hakmem.console import console
from hakmem.ending import ended_in_order
from hakmem.errors import HakmemError
from hakmem.inside.asking import WAIT_OPTION, ask
from hakmem.inside.freshness import change_since, shown_age
from hakmem.inside.live_file import Kind, Publication
from hakmem.inside.parameters import PID, SHORTEST_PERIOD_SECONDS, Seconds
from hakmem.inside.process import Process, resident_now
from hakmem.inside.statistics import statistics_of
from hakmem.inside.stats_report import heading_of, print_stats
from hakmem.inside.target import LONGEST_ENDING_SECONDS, Target, open_running, open_target
from hakmem.output import STANDARD_OUTPUT, OutputFile, require_own_link, write_whole
from hakmem.units import shown_seconds

_ATTEMPTS = 5


@click.command()
@click.argument("pid", type=PID)
@click.option("--json", "as_json", is_flag=True, help="As the library publishes them: docs/statistics.md.")
@click.option("--prometheus", is_flag=True, help="In Prometheus' text exposition format.")
@click.option(
    "--watch", type=Seconds(SHORTEST_PERIOD_SECONDS), metavar="S", help="Again every S seconds, to its end."
)
@click.option(
    "-o",
    "--output",
    type=OutputFile(),
    default=STANDARD_OUTPUT,
    help="Write to this file instead, each time as a whole (for a node exporter's text-file collector).",
)
@click.option(
    "--measure", is_flag=True, help="Have the process measure first what is resident: exact figures."
)
@click.option("--all-classes", is_flag=True, help="Every size class, not only those that cost most.")
@WAIT_OPTION
def stats(
    *,
    pid: int,
    as_json: bool,
    prometheus: bool,
    watch: float | None,
    output: Path,
    measure: bool,
    all_classes: bool,
    wait: float,
) -> None:
    """Print the statistics of process PID, which runs on HAKMEM, or did when it crashed.

    The process is not disturbed: it publishes them by itself, on the slow paths of its allocator, which come
    every few hundred allocations of a size, or when it needs or gives back a slab. Figures of a process
    that has been idle since are as old as that; the first line says how old.

    With --watch, a process that does not answer, or a file that cannot be written for a while, is named on
    stderr, and it goes on; a file for Prometheus is gone meanwhile, as in the end.
    """
    if as_json and prometheus:
        raise HakmemError("--json and --prometheus are two forms: choose one")
    form = "json" if as_json else "prometheus" if prometheus else None
    show = partial(_show, pid, form, output, wait=wait if measure else None, all_classes=all_classes)
    if watch is None:
        show()
    elif form == "prometheus":
        with ended_in_order(), _gone_with_the_watch(output) as take_away:
            _watch(show, watch, take_away)
    else:
        _watch(show, watch, lambda: None)


def _show(
    pid: int, form: str | None, output: Path, *, wait: float | None, all_classes: bool
) -> Process | None:
    """Writes its figures once, which it is to measure first if there is a time to wait for that. None if it
    has ended, and these are its last."""
    with open_target(pid) if wait is None else open_running(pid) as target:
        publication = target.read() if wait is None else _measured(target, wait)
        write_whole(output, _rendered(target, publication, form, output, all_classes=all_classes).encode())
        if not target.process and (form or output != STANDARD_OUTPUT):
            print(f"hakmem: process {pid} has ended; these are its last figures", file=sys.stderr)
        return target.process


def _watch(show: Callable[[], Process | None], seconds: float, take_away: Callable[[], None]) -> None:
    """Shows its figures again and again, to its end. What keeps it from that for a while, as a process that
    is stopped does, is said once; the figures of before are taken away meanwhile."""
    process = show()
    said = ""
    while process:
        time.sleep(seconds)
        try:
            process = _show_again(show, process)
            said = ""
        except HakmemError as error:
            if str(error) != said:
                said = str(error)
                print(f"hakmem: {said}", file=sys.stderr)
            take_away()


def _show_again(show: Callable[[], Process | None], process: Process) -> Process | None:
    try:
        if process.is_alive():
            return show()
    except HakmemError:
        if not process.ends_within(LONGEST_ENDING_SECONDS):
            raise
    print(f"hakmem: {process} has ended", file=sys.stderr)
    return None


@contextmanager
def _gone_with_the_watch(output: Path) -> Iterator[Callable[[], None]]:
    """However it ends in order: a collector would take the last figures for present ones, for ever. What the
    watch has not written stays. Gives what takes them away before the end."""
    before = _state_of(output)

    def take_away() -> None:
        if _state_of(output) not in (None, before):
            _take_away(output)

    try:
        yield take_away
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # it ends already
        take_away()


def _take_away(output: Path) -> None:
    done = "is removed"
    try:
        require_own_link(output)
        try:
            output.resolve().unlink(missing_ok=True)
        except OSError:  # as of a folder that is closed
            output.write_bytes(b"")
            done = "is emptied"
        message = f"'{output}' {done}, or a collector would take its figures for present ones"
    except OSError as error:
        message = f"cannot remove '{output}', whose figures a collector will go on with: {error.strerror}"
    with suppress(OSError):  # the terminal may be gone
        print(f"hakmem: {message}", file=sys.stderr)


def _state_of(output: Path) -> tuple[int, ...] | None:
    """Another one each time that the file was written; none if it is no file, or empty."""
    try:
        status = output.stat()
    except OSError:
        return None
    has_text = output != STANDARD_OUTPUT and stat.S_ISREG(status.st_mode) and status.st_size > 0
    return (status.st_dev, status.st_ino, status.st_mtime_ns) if has_text else None


def _measured(target: Target, wait: float) -> Publication:
    """Has it measure what it publishes. What it next publishes by itself, perhaps before anybody has read
    that, is estimated again."""
    for _ in range(_ATTEMPTS):
        ask(target, Kind.PUBLISH, wait)
        publication = target.read()
        memory = publication.statistics.get("memory")
        if isinstance(memory, dict) and memory.get("measured") is True:
            return publication
    print(
        f"hakmem: {target} has measured {_ATTEMPTS} times, but published estimates before that was read: "
        "what is resident is estimated here; try again",
        file=sys.stderr,
    )
    return publication


def _rendered(
    target: Target, publication: Publication, form: str | None, output: Path, *, all_classes: bool
) -> str:
    if form == "json":
        text = publication.text.rstrip("\n") + "\n"
        # The library writes ASCII, but anyone could write a file that says it is the library's.
        return re.sub(r"[^\x00-\x7e]", lambda found: json.dumps(found[0])[1:-1], text)
    statistics = statistics_of(publication)
    now = resident_now(target.pid) if target.process else None
    rss = now.whole if now else None
    if form == "prometheus":
        from hakmem.inside.prometheus import exposition  # noqa: PLC0415 # its library takes a while to load

        return exposition(statistics, target.pid, publication.published_ms, rss)
    to = console(sys.stdout if output == STANDARD_OUTPUT else None)
    with to.capture() as captured:
        heading = heading_of(statistics, target.pid, _freshness(target, publication))
        change = change_since(publication, statistics, now)
        print_stats(to, statistics, heading, rss, change, all_classes=all_classes)
    return captured.get()


def _freshness(target: Target, publication: Publication) -> str:
    if target.process is None:
        age = shown_seconds(publication.age_seconds())
        return f"it has ended, and left these figures behind {age} ago"
    return shown_age(publication)
