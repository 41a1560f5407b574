"""`hakmem compare`."""

import json
import shlex
import sys
from pathlib import Path
from typing import NoReturn

import click

from hakmem.allocators import ALIASES
from hakmem.compare import choose, survey
from hakmem.compare_report import print_survey, survey_document
from hakmem.console import console
from hakmem.memory_plot import draw, require_drawable
from hakmem.output import require_writable, text_output
from hakmem.program import no_command, require_preloadable, resolve
from hakmem.program_options import AS_JSON, COMMAND, POLLING, PROGRAM_COMMAND, REPORT, RUNS, shown_output


@click.command(context_settings=PROGRAM_COMMAND)
@click.option(
    "--allocators",
    "names",
    metavar="A,B,C",
    help="Only these, by their names in 'hakmem allocators'. Default: all that work here.",
)
@RUNS
@POLLING
@click.option(
    "--plot",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Draw RSS over time into this file (.png, .svg, .pdf), from one more run on each.",
)
@AS_JSON
@REPORT
@COMMAND
def compare(
    *,
    names: str | None,
    runs: int,
    polling: bool,
    plot: Path | None,
    as_json: bool,
    report: Path,
    command: tuple[str, ...],
) -> NoReturn:
    """Run COMMAND in turn on every allocator of this machine, and compare what it took.

    A first run, on the system's malloc (or the first of --allocators), reads and writes as if alone and
    is not counted; the output of the others is dropped. Then come rounds in which every allocator has
    one run, in changing order. Every run gets the same standard input, except from a terminal.

    The exit status is 0 if all runs ended with 0, else that of the first that did not.
    """
    if plot:
        require_drawable(plot)
    if not command:
        raise no_command()
    program = resolve(command[0])
    allocators, missing = choose(_split(names))
    for library in filter(None, (allocator.library for allocator in allocators)):
        require_preloadable(program, library, what="an allocator")
    require_writable(report)
    if plot:
        require_writable(plot)
    result = survey(
        program,
        command,
        allocators,
        missing,
        runs,
        polling=polling,
        curves=plot is not None,
        shown_output=shown_output(as_json=as_json, report=report),
    )
    with text_output(report) as output:
        if as_json:
            json.dump(survey_document(command, result), output, indent=2)
            output.write("\n")
        else:
            print_survey(console(output), shlex.join(command), result)
    if plot:
        draw(plot, shlex.join(command), result.curves())
    sys.exit(result.exit_status())


def _split(names: str | None) -> list[str] | None:
    if names is None:
        return None
    given = (name.strip() for name in names.split(","))
    return [ALIASES.get(name, name) for name in given]
