"""The `hakmem` command."""

import dataclasses
import json
import os
import shlex
import signal
import sys
from pathlib import Path
from typing import NoReturn, TextIO

import click

from hakmem import __version__, preload
from hakmem.errors import EXIT_NOT_FOUND, HakmemError
from hakmem.library import Library, find_library
from hakmem.program import cannot_execute, require_preloadable, resolve
from hakmem.report import console, options_table, print_comparison
from hakmem.versus import compare

_PROGRAM_COMMAND = {"allow_interspersed_args": False, "help_option_names": ["-h", "--help"]}

_EXAMPLES = """
\b
Examples:
  hakmem run ./server --port 80            run a program on HAKMEM
  hakmem run --stats -- python3 app.py     ... with a summary on stderr when it ends
  hakmem versus --runs 5 ./server --bench  compare it with libc's malloc
  hakmem options                           every option, its value and where that comes from
  HAKMEM_STATS=1 hakmem run ls             options are environment variables
"""


class _Commands(click.Group):
    """Turns errors of ours into one line and the exit status that goes with it."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except HakmemError as error:
            print(f"hakmem: {error}", file=sys.stderr)
            ctx.exit(error.exit_status)


def _print_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if not wanted:
        return
    click.echo(f"hakmem {__version__}")
    try:
        path = find_library()
        click.echo(f"library {Library(path).version()} ({path})")
    except HakmemError as error:
        click.echo(f"library: {error}")
    ctx.exit()


@click.group(cls=_Commands, epilog=_EXAMPLES, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the versions of the command and of the library.",
)
def cli() -> None:
    """Runs programs on HAKMEM, a drop-in malloc, by preloading it; the programs stay as they are.

    The library is the one HAKMEM_LIBRARY names, else the one installed with this command, else the
    one built in this command's repository.
    """


@cli.command(context_settings=_PROGRAM_COMMAND)
@click.option("--stats", is_flag=True, help="Print a one-screen summary to stderr when the program ends.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def run(stats: bool, command: tuple[str, ...]) -> NoReturn:
    """Run COMMAND on HAKMEM.

    The program replaces this command: its exit status, signals and streams are its own. Options for
    the program need no quoting: all that follows its name is its own.
    """

    program, library = _program_and_library(command)
    environment = preload.with_hakmem(os.environ, library)
    if stats:
        environment["HAKMEM_STATS"] = "1"
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and exec would pass that on
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execve(program, command, environment)
    except OSError as error:
        raise cannot_execute(program, error) from error


@cli.command(context_settings=_PROGRAM_COMMAND)
@click.option(
    "--runs",
    type=click.IntRange(1, 1000),
    default=3,
    show_default=True,
    help="Rounds of each side.",
)
@click.option(
    "--polling",
    is_flag=True,
    help="Do not trace the program: for programs that use ptrace. RSS at the end is then approximate (~).",
)
@click.option(
    "--report",
    type=click.File("w"),
    default="-",
    help="Write the comparison to this file instead of standard output.",
)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def versus(runs: int, polling: bool, report: TextIO, command: tuple[str, ...]) -> NoReturn:
    """Run COMMAND in turn on HAKMEM and on libc's malloc, and compare what it took.

    The first round, on HAKMEM, reads and writes as if run alone; the output of the others is
    dropped. Every round gets the same standard input, except from a terminal: only the first reads
    that. The exit status is the program's (128 and the signal's number, if one killed it); where
    rounds differ, the first failure's.
    """

    program, library = _program_and_library(command)
    comparison = compare(program, command, library, runs, polling=polling)
    print_comparison(console(report), shlex.join(command), comparison)
    sys.exit(comparison.exit_status())


@cli.command()
@click.option("--json", "as_json", is_flag=True, help="As a JSON array of objects.")
def options(as_json: bool) -> None:
    """List every option of the library: default, value in force, and where that comes from."""
    found = Library(find_library()).options()
    if as_json:
        click.echo(json.dumps([dataclasses.asdict(option) for option in found], indent=2))
        return

    console().print(options_table(found))


def _program_and_library(command: tuple[str, ...]) -> tuple[Path, Path]:

    if not command:
        raise HakmemError("no command given: name the program to run, with its arguments", EXIT_NOT_FOUND)
    library = find_library()
    program = resolve(command[0])
    require_preloadable(program, library)
    return program, library


def main() -> None:
    cli(prog_name="hakmem")
