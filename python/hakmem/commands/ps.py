"""`hakmem ps`."""

import json
import sys

import click

from hakmem.console import console
from hakmem.inside.listing import ended_entries, entries_table, entry_document, running_entries


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
