"""`hakmem options`."""

import dataclasses
import json

import click

from hakmem.library import Library, find_library
from hakmem.report import console, options_table


@click.command()
@click.option("--json", "as_json", is_flag=True, help="As a JSON array of objects.")
def options(as_json: bool) -> None:
    """List every option of the library: default, value in force, and where that comes from."""
    found = Library(find_library()).options()
    if as_json:
        click.echo(json.dumps([dataclasses.asdict(option) for option in found], indent=2))
        return

    console().print(options_table(found))
