"""`hakmem profile`."""

import itertools
from pathlib import Path

import click

from hakmem.console import console
from hakmem.errors import HakmemError
from hakmem.inside.asking import WAIT_OPTION, answer_of
from hakmem.inside.heap_profile import HeapProfile, parse_heap_profile
from hakmem.inside.live_file import Kind
from hakmem.inside.names import as_named
from hakmem.inside.parameters import PID, SIZE, Seconds, one_of
from hakmem.inside.profile_report import (
    fragmentation_document,
    heaviest,
    print_fragmentation,
    print_places,
    print_sites,
    sites_document,
    understood,
)
from hakmem.inside.sampling import sampling, switch_sampling
from hakmem.inside.symbols import Symbolizer, parse_mappings
from hakmem.inside.target import Target, open_running
from hakmem.output import STANDARD_OUTPUT, OutputFile, require_writable, write_whole
from hakmem.units import shown_bytes, shown_count

_TOP = 10  # where nothing else is printed
_REQUESTS = {"heap": Kind.HEAP, "fragmentation": Kind.FRAGMENTATION, "sites": Kind.SITES}


@click.command()
@click.argument("pid", type=PID)
@click.option(
    "-o",
    "--output",
    type=OutputFile(),
    help="Where the profile goes ('-': standard output), for you only to read. Default: hakmem.PID.heap, "
    "or hakmem.PID.2.heap and so on if that exists; of the other kinds, nowhere.",
)
@click.option(
    "--kind",
    type=click.Choice(["heap", "fragmentation", "sites"]),
    default="heap",
    show_default=True,
    help="Who holds memory; whose blocks keep nearly empty slabs; the figures of hak_alloc_at.",
)
@click.option("--start", is_flag=True, help="Start sampling, and leave it on.")
@click.option("--stop", is_flag=True, help="Stop sampling.")
@click.option("--seconds", type=Seconds(0), metavar="N", help="Sample for N seconds, then write.")
@click.option(
    "--interval",
    type=SIZE,
    metavar="BYTES",
    help="Mean distance of samples in allocated bytes, for --start and --seconds (512K if not given).",
)
@click.option("--top", type=click.IntRange(0), metavar="N", help="Print the N heaviest call stacks.")
@WAIT_OPTION
def profile(
    *,
    pid: int,
    output: Path | None,
    kind: str,
    start: bool,
    stop: bool,
    seconds: float | None,
    interval: int | None,
    top: int | None,
    wait: float,
) -> None:
    """Write a profile of process PID: which call stacks its memory comes from.

    The process must sample: from its start (HAKMEM_PROF=1), since --start, or for --seconds. The heap
    profile is heap_v2 text, which 'hakmem flame', pprof and jeprof read.
    """
    switch = one_of(start=start, stop=stop)
    if switch and (seconds is not None or output or top is not None):
        raise HakmemError(f"--{switch} only switches sampling: leave out --seconds, --output and --top")
    if interval and switch != "start" and seconds is None:
        raise HakmemError("--interval goes with --start or --seconds: it is set when sampling starts")
    if output and output != STANDARD_OUTPUT and not output.parent.is_dir():
        raise HakmemError(f"cannot write '{output}': there is no folder '{output.parent}'")
    place = output or _new_file(pid)
    with open_running(pid) as target:
        if switch:
            click.echo(switch_sampling(target, switch, interval or 0, wait))
            return
        if output or kind == "heap":
            require_writable(place)
        with sampling(target, seconds, interval or 0, wait) as require_whole:
            raw = answer_of(target, _REQUESTS[kind], wait)
            require_whole()
            found = _samples(target, raw) if kind == "heap" else None
            goes_on = target.file.header().sampling.interval > 0
            # Before sampling ends: a process that does not answer then must not cost the profile.
            if output or found:
                write_whole(place, raw, private=True)
        if output == STANDARD_OUTPUT:
            return
        if found:
            _show_heap(target, found, place, top or 0, goes_on)
        else:
            _show_ranking(target, kind, raw, _TOP if top is None else top)


def _new_file(pid: int) -> Path:
    """The first of the default names that is free: a profile is there to be compared with a later one."""
    names = (Path(f"hakmem.{pid}{f'.{n}' if n > 1 else ''}.heap") for n in itertools.count(1))
    return next(name for name in names if not name.exists())


def _samples(target: Target, raw: bytes) -> HeapProfile:
    found = parse_heap_profile(raw, "the answer of the process")
    if not found.samples:
        raise HakmemError(
            f"{target} has sampled nothing: it is not sampling, or has allocated little since; "
            f"'hakmem profile {target.pid} --seconds 10' samples for a while"
        )
    return found


def _show_heap(target: Target, found: HeapProfile, file: Path, top: int, goes_on: bool) -> None:
    if top:
        symbolizer = Symbolizer(parse_mappings(found.mappings), target.root())
        print_places(console(), heaviest(found, symbolizer, "live", "bytes"), top, "bytes")
    click.echo(f"{file}: {_summary(found)}; 'hakmem flame {file}' draws it")
    if not goes_on:
        click.echo(
            f"It does not sample now, so that nothing is in it of what was allocated since it ended: "
            f"'hakmem profile {target.pid} --seconds 10' samples anew"
        )


def _summary(found: HeapProfile) -> str:
    live = sum(sample.counts.live_bytes for sample in found.samples)
    total = sum(sample.counts.total_bytes for sample in found.samples)
    stacks = len({sample.stack for sample in found.samples})
    return (
        f"{shown_bytes(live)} live of {shown_bytes(total)} allocated while it sampled, "
        f"in {shown_count(stacks)} call stacks"
    )


def _show_ranking(target: Target, kind: str, raw: bytes, top: int) -> None:
    with understood():
        if kind == "sites":
            print_sites(console(), sites_document(raw), top)
            return
        document = fragmentation_document(raw)
        symbolizer = Symbolizer(parse_mappings(map(as_named, document.get("mappings", []))), target.root())
        print_fragmentation(console(), document, symbolizer, top)
