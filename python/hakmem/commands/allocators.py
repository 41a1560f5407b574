"""`hakmem allocators`."""

import json

import click

from hakmem.allocators import find
from hakmem.compare_report import allocator_entry, allocators_table, missing_entry
from hakmem.console import console


@click.command()
@click.option("--json", "as_json", is_flag=True, help="As a JSON object.")
def allocators(as_json: bool) -> None:
    """List the allocators that `hakmem compare` can use here, and why the others cannot be used."""
    found, missing = find()
    if as_json:
        document = {
            "allocators": [allocator_entry(allocator) for allocator in found],
            "missing": [missing_entry(entry) for entry in missing],
        }
        click.echo(json.dumps(document, indent=2))
        return

    console().print(allocators_table(found, missing))
