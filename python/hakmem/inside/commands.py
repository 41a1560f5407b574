"""The commands that show what running programs' allocators do: ps, stats, top and map."""

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
from typing import NoReturn

import click

from hakmem.ending import ended_in_order, shell_status_of_code
from hakmem.errors import HakmemError
from hakmem.inside.asking import WAIT_OPTION, answer_of, ask
from hakmem.inside.freshness import change_since, shown_age
from hakmem.inside.listing import ended_entries, entries_table, entry_document, running_entries
from hakmem.inside.live_file import Kind, Publication
from hakmem.inside.parameters import PID, Seconds
from hakmem.inside.process import Process, resident_now
from hakmem.inside.slab_map import parse_slab_map
from hakmem.inside.slab_map_plot import draw_slab_map
from hakmem.inside.slab_map_text import print_slab_map
from hakmem.inside.statistics import statistics_of
from hakmem.inside.stats_report import heading_of, print_stats
from hakmem.inside.target import LONGEST_ENDING_SECONDS, Target, open_running, open_target
from hakmem.inside.top import top_of_command, top_of_process
from hakmem.memory_plot import require_drawable
from hakmem.output import STANDARD_OUTPUT, OutputFile, write_whole
from hakmem.program import program_and_library
from hakmem.report import console
from hakmem.units import shown_seconds

_SHORTEST_PERIOD = 0.05


@click.command()
@click.argument("pid", type=PID)
@click.option("--json", "as_json", is_flag=True, help="As the library publishes them: docs/statistics.md.")
@click.option("--prometheus", is_flag=True, help="In Prometheus' text exposition format.")
@click.option(
    "--watch", type=Seconds(_SHORTEST_PERIOD), metavar="S", help="Again every S seconds, to its end."
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
    """
    if as_json and prometheus:
        raise HakmemError("--json and --prometheus are two forms: choose one")
    form = "json" if as_json else "prometheus" if prometheus else None
    show = partial(_show, pid, form, output, wait=wait if measure else None, all_classes=all_classes)
    if watch is None:
        show()
    elif form == "prometheus":
        with ended_in_order(), _gone_with_the_watch(output):
            _watch(show, watch)
    else:
        _watch(show, watch)


def _show(
    pid: int, form: str | None, output: Path, *, wait: float | None, all_classes: bool
) -> Process | None:
    """Writes its figures once, which it is to measure first if there is a time to wait for that. None if it
    has ended, and these are its last."""
    with open_target(pid) if wait is None else _measured(pid, wait) as target:
        write_whole(output, _rendered(target, form, output, all_classes=all_classes).encode())
        if not target.process and (form or output != STANDARD_OUTPUT):
            print(f"hakmem: process {pid} has ended; these are its last figures", file=sys.stderr)
        return target.process


def _watch(show: Callable[[], Process | None], seconds: float) -> None:
    """Shows its figures again and again, to its end."""
    process = show()
    while process:
        time.sleep(seconds)
        process = _show_again(show, process)


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
def _gone_with_the_watch(output: Path) -> Iterator[None]:
    """However it ends in order: a collector would take the last figures for present ones, for ever. What the
    watch has not written stays."""
    before = _state_of(output)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # it ends already
        if _state_of(output) not in (None, before):
            _take_away(output)


def _take_away(output: Path) -> None:
    done = "is removed"
    try:
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
    """Another one each time that the file was written; none if it is no file."""
    try:
        status = output.stat()
    except OSError:
        return None
    is_file = output != STANDARD_OUTPUT and stat.S_ISREG(status.st_mode)
    return (status.st_dev, status.st_ino, status.st_mtime_ns) if is_file else None


def _measured(pid: int, wait: float) -> Target:
    target = open_running(pid)
    try:
        ask(target, Kind.PUBLISH, wait)
    except BaseException:
        target.file.close()
        raise
    return target


def _rendered(target: Target, form: str | None, output: Path, *, all_classes: bool) -> str:
    publication = target.read()
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


@click.command()
@click.option(
    "--interval",
    type=Seconds(_SHORTEST_PERIOD),
    default=1.0,
    show_default=True,
    metavar="S",
    help="Seconds between two looks.",
)
@click.option("--once", is_flag=True, help="One picture only, with the rates of one interval.")
@click.argument("words", nargs=-1, metavar="PID | -- COMMAND...", type=click.UNPROCESSED)
def top(*, interval: float, once: bool, words: tuple[str, ...]) -> NoReturn:
    """Watch process PID, or run COMMAND on HAKMEM and watch that, until it ends.

    Of the processes of COMMAND, it shows the one that holds most memory.

    Shows live, resident and retained memory over time, rates, the size classes that cost most, fall-backs
    and, where the process is sampled (see 'hakmem profile'), the call sites that hold most. The first line
    says how old the figures are, if that is more than a second. Ctrl-C ends it. Where the output is no
    terminal, one picture follows the other.
    """
    if not words:
        raise HakmemError(
            "nothing to watch: name a process number ('hakmem ps' lists them), or '-- COMMAND' to run one"
        )
    to = console()
    if len(words) == 1 and words[0].isdecimal():
        try:
            top_of_process(PID.convert(words[0], None, None), interval, to, once=once)
        except KeyboardInterrupt:
            to.print()
        sys.exit(0)
    program, library = program_and_library(words)
    sys.exit(shell_status_of_code(top_of_command(program, words, library, interval, to, once=once)))


@click.command()
@click.option("--ended", is_flag=True, help="Those that have ended and left their last figures behind.")
@click.option("--json", "as_json", is_flag=True, help="As a JSON array of objects.")
def ps(*, ended: bool, as_json: bool) -> None:
    """List the processes that run on HAKMEM, who takes most memory first.

    Yours; as root, everybody's. Not those that publish no figures: that are younger than 50 ms and small, or
    were started with HAKMEM_LIVE=0.
    """
    entries, errors = ended_entries() if ended else running_entries()
    if as_json:
        click.echo(json.dumps([entry_document(entry) for entry in entries], indent=2))
    elif entries:
        console().print(entries_table(entries))
    for error in errors:
        print(f"hakmem: {error}", file=sys.stderr)
    if not entries:
        those = "has ended and left figures behind" if ended else "runs on HAKMEM and shows figures"
        print(f"hakmem: no process that you may look into {those}", file=sys.stderr)


@click.command("map")
@click.argument("pid", type=PID)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The picture (.png, .svg, .pdf). Default: hakmem.PID.map.png.",
)
@click.option("--text", is_flag=True, help="Draw with characters, on standard output.")
@WAIT_OPTION
def map_command(*, pid: int, output: Path | None, text: bool, wait: float) -> None:
    """Draw how the heap of process PID is occupied: a cell for each slab, a row for each superslab.

    The colour of a slab says how many of its blocks are live; free slabs (resident or given back), large
    blocks and the allocator's own memory (metadata, mostly not resident) have colours of their own.
    """
    if text and output:
        raise HakmemError("--text draws on standard output: leave out --output")
    path = output or Path(f"hakmem.{pid}.map.png")
    with open_running(pid) as target:
        if not text:
            require_drawable(path, "a picture (without --text)")
        slab_map = parse_slab_map(answer_of(target, Kind.SLAB_MAP, wait))
        summary = f"{target}: {slab_map.summary()}"
    if text:
        print_slab_map(console(), slab_map)
    else:
        draw_slab_map(path, f"{target}: slabs by the share of their blocks that are live", slab_map)
    click.echo(summary)
    if not text:
        click.echo(f"drawn: {path}")
