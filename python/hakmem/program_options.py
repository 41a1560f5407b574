"""What commands that run a program again and again have in common on their command line."""

from pathlib import Path

import click

from hakmem.inside.output import STANDARD_OUTPUT

PROGRAM_COMMAND = {"allow_interspersed_args": False, "help_option_names": ["-h", "--help"]}

COMMAND = click.argument("command", nargs=-1, type=click.UNPROCESSED)
AS_JSON = click.option(
    "--json", "as_json", is_flag=True, help="As a JSON object; the program writes to stderr then."
)


def shown_output(*, as_json: bool, report: Path) -> int:
    """The descriptor for the program's output: who reads the JSON from standard output wants nothing else
    there."""
    return 2 if as_json and report == STANDARD_OUTPUT else 1
