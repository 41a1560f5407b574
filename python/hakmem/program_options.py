"""What commands that run a program again and again have in common on their command line."""

from pathlib import Path

import click

from hakmem.output import STANDARD_OUTPUT, OutputFile

PROGRAM_COMMAND = {"allow_interspersed_args": False, "help_option_names": ["-h", "--help"]}

COMMAND = click.argument("command", nargs=-1, type=click.UNPROCESSED)
AS_JSON = click.option(
    "--json", "as_json", is_flag=True, help="As a JSON object; the program writes to stderr then."
)
RUNS = click.option(
    "--runs",
    type=click.IntRange(1, 1000),
    default=3,
    show_default=True,
    help="Rounds, in each of which every allocator has one run.",
)
POLLING = click.option(
    "--polling",
    is_flag=True,
    help="Do not trace the program: for programs that use ptrace. RSS at its end is then approximate (~).",
)
REPORT = click.option(
    "--report",
    type=OutputFile(),
    default=STANDARD_OUTPUT,
    help="Write the report to this file instead of standard output.",
)


def shown_output(*, as_json: bool, report: Path) -> int:
    """The descriptor for the program's output: who reads the JSON from standard output wants nothing else
    there."""
    return 2 if as_json and report == STANDARD_OUTPUT else 1
