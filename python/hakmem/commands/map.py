"""`hakmem map`."""

from pathlib import Path

import click

from hakmem.console import console
from hakmem.errors import HakmemError
from hakmem.inside.asking import WAIT_OPTION, answer_of
from hakmem.inside.live_file import Kind
from hakmem.inside.parameters import PID
from hakmem.inside.slab_map import parse_slab_map
from hakmem.inside.slab_map_plot import draw_slab_map
from hakmem.inside.slab_map_text import print_slab_map
from hakmem.inside.target import open_running
from hakmem.memory_plot import require_drawable


@click.command()
@click.argument("pid", type=PID)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The picture (.png, .svg, .pdf). Default: hakmem.PID.map.png.",
)
@click.option("--text", is_flag=True, help="Draw with characters, on standard output.")
@WAIT_OPTION
def map(*, pid: int, output: Path | None, text: bool, wait: float) -> None:
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
