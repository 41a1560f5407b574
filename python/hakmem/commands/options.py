"""`hakmem options`."""

import dataclasses
import json
import os

import click
from rich import box
from rich.table import Table
from rich.text import Text

from hakmem.console import console
from hakmem.inside.names import printable
from hakmem.library import find_library
from hakmem.library_facts import Option, facts_of


@click.command()
@click.option("--json", "as_json", is_flag=True, help="As a JSON array of objects.")
def options(as_json: bool) -> None:
    """List every option of the library: default, value in force, and where that comes from."""
    facts = facts_of(find_library(), os.environ)
    click.echo(facts.said, err=True, nl=False)
    if as_json:
        click.echo(json.dumps([dataclasses.asdict(option) for option in facts.options], indent=2))
        return

    console().print(_table(facts.options))


def _table(options: list[Option]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in ("Name", "Environment", "Type", "Default", "Value", "Source", "Description"):
        # Names are there to be copied; a narrow terminal folds the rest.
        table.add_column(title, overflow="fold", no_wrap=title in ("Name", "Environment"))
    for option in options:
        table.add_row(
            option.name,
            option.environment,
            option.type,
            Text(option.default),
            Text(printable(option.value), style="" if option.source == "default" else "bold"),
            option.source,
            Text(option.description),
        )
    return table
