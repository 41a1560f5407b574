"""`hakmem run`."""

import os
import signal
from typing import NoReturn

import click

from hakmem import preload
from hakmem.program import cannot_execute, name_to_execute, program_and_library
from hakmem.program_options import COMMAND, PROGRAM_COMMAND


@click.command(context_settings=PROGRAM_COMMAND)
@click.option("--stats", is_flag=True, help="Print a one-screen summary to stderr when the program ends.")
@COMMAND
def run(stats: bool, command: tuple[str, ...]) -> NoReturn:
    """Run COMMAND on HAKMEM.

    The program replaces this command: its exit status, signals and streams are its own. Options for
    the program need no quoting: all that follows its name is its own.
    """

    program, library = program_and_library(command)
    environment = preload.with_hakmem(os.environ, library)
    if stats:
        environment["HAKMEM_STATS"] = "1"
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and exec would pass that on
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execve(name_to_execute(program), command, environment)
    except OSError as error:
        raise cannot_execute(program, error) from error
