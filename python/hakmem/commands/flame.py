"""`hakmem flame`."""

from pathlib import Path

import click

from hakmem.errors import HakmemError
from hakmem.inside.call_tree import call_tree
from hakmem.inside.flame import flame_svg
from hakmem.inside.heap_profile import WEIGHTS, read_heap_profile
from hakmem.inside.parameters import one_of
from hakmem.inside.symbols import Symbolizer, parse_mappings
from hakmem.output import STANDARD_OUTPUT, write_whole


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="The picture. Default: FILE.svg."
)
@click.option("--live", is_flag=True, help="What is not freed yet (the default).")
@click.option("--allocated", is_flag=True, help="All that was allocated, freed or not.")
@click.option("--bytes", "by_bytes", is_flag=True, help="Weigh by size (the default).")
@click.option("--blocks", is_flag=True, help="Weigh by number.")
@click.option(
    "--root",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("/"),
    help="Where the program's files are, for symbols: /proc/PID/root for a container's.",
)
def flame(
    *,
    file: Path,
    output: Path | None,
    live: bool,
    allocated: bool,
    by_bytes: bool,
    blocks: bool,
    root: Path,
) -> None:
    """Draw heap profile FILE (heap_v2 text, of HAKMEM or another allocator) as a flame graph.

    The SVG needs nothing else: open it in a browser. Click zooms, '/' searches, pointing tells figures.
    """
    life = one_of(live=live, allocated=allocated) or "live"
    unit = one_of(bytes=by_bytes, blocks=blocks) or "bytes"
    if file.is_dir():
        raise HakmemError(
            f"cannot read '{file}': it is a folder; name a profile, as 'hakmem profile PID' writes it"
        )
    place = output or file.with_name(f"{file.name}.svg")
    if place.exists() and file.exists() and place.samefile(file):
        raise HakmemError(
            f"the picture would take the place of the profile '{file}': give --output another name"
        )
    found = read_heap_profile(file)
    weight = WEIGHTS[life, unit]
    symbolizer = Symbolizer(parse_mappings(found.mappings), root)
    tree = call_tree(found, symbolizer, weight.of, "all")
    if not tree.children and tree.value > 0:
        raise HakmemError(
            f"'{file}' has no call stacks: nothing to draw; "
            "a program that is linked with -static has some with -Wl,--eh-frame-hdr"
        )
    if not tree.children:
        raise HakmemError(
            f"'{file}' has no {weight.title}: nothing to draw; try --allocated, or sample for longer"
        )
    write_whole(place, flame_svg(tree, f"{weight.title}: {file.name}", unit).encode())
    if place != STANDARD_OUTPUT:
        click.echo(f"drawn: {place}")
