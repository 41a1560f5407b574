"""`hakmem symbols`."""

import re
from pathlib import Path
from typing import TextIO

import click

from hakmem.inside.symbols import Symbolizer

_PLACE = re.compile(r" (?P<path>/\S.*)\+0x(?P<offset>[0-9a-f]+)$")


@click.command()
@click.argument("file", type=click.File("r", encoding="utf-8", errors="surrogateescape"), default="-")
@click.option(
    "--root",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("/"),
    help="Where the program's files are: /proc/PID/root for a container's.",
)
def symbols(*, file: TextIO, root: Path) -> None:
    """Name the functions in a leak report (HAKMEM_PROF_LEAKS=1).

    In fact in any text: where a line ends in a blank and file+0xoffset, the function's name follows it.
    """
    symbolizer = Symbolizer([], root)
    for line in file:
        match = _PLACE.search(line)
        function = symbolizer.function_in(match["path"], int(match["offset"], 16)) if match else None
        click.echo(f"{line.rstrip()}  {function}" if function else line, nl=bool(function))
