"""`hakmem versus`."""

import shlex
import sys
from pathlib import Path
from typing import NoReturn

import click

from hakmem.console import console
from hakmem.output import require_writable, text_output
from hakmem.program import program_and_library
from hakmem.program_options import COMMAND, POLLING, PROGRAM_COMMAND, REPORT, RUNS
from hakmem.report import print_comparison
from hakmem.versus import compare


@click.command(context_settings=PROGRAM_COMMAND)
@RUNS
@POLLING
@REPORT
@COMMAND
def versus(runs: int, polling: bool, report: Path, command: tuple[str, ...]) -> NoReturn:
    """Run COMMAND in turn on HAKMEM and on libc's malloc, and compare what it took.

    The first round, on HAKMEM, reads and writes as if run alone; the output of the others is
    dropped. Every round gets the same standard input, except from a terminal: only the first reads
    that. One more round, on HAKMEM, does not count: its own summary is of that one. The exit status is
    the program's (128 and the signal's number, if one killed it); where
    rounds differ, the first failure's.
    """

    program, library = program_and_library(command)
    require_writable(report)
    comparison = compare(program, command, library, runs, polling=polling)
    with text_output(report) as output:
        print_comparison(console(output), shlex.join(command), comparison)
    sys.exit(comparison.exit_status())
