"""The `hakmem` command."""

import dataclasses
import errno
import json
import os
import shlex
import signal
import sys
from pathlib import Path
from typing import NoReturn

import click

from hakmem import __version__, preload
from hakmem.allocators import ALIASES, find
from hakmem.compare import choose, survey
from hakmem.compare_report import (
    allocator_entry,
    allocators_table,
    missing_entry,
    print_survey,
    survey_document,
)
from hakmem.ending import shell_status_of_code
from hakmem.errors import EXIT_FAILURE, HakmemError
from hakmem.inside.commands import map_command, ps, stats, top
from hakmem.inside.profile_commands import flame, profile, symbols
from hakmem.library import Library, find_library
from hakmem.memory_plot import draw, require_drawable
from hakmem.output import let_any_text_out, require_writable, text_output
from hakmem.program import cannot_execute, no_command, program_and_library, require_preloadable, resolve
from hakmem.program_options import AS_JSON, COMMAND, POLLING, PROGRAM_COMMAND, REPORT, RUNS, shown_output
from hakmem.report import console, options_table, print_comparison
from hakmem.tune.command import tune_command
from hakmem.versus import compare

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)

_EXAMPLES = """
\b
Examples:
  hakmem run ./server --port 80            run a program on HAKMEM
  hakmem run --stats -- python3 app.py     ... with a summary on stderr when it ends
  hakmem versus --runs 5 ./server --bench  compare it with libc's malloc
  hakmem compare --plot rss.png ./job      ... with every allocator on this machine
  hakmem allocators                        which those are
  hakmem tune --for speed -- ./job         find the settings that suit it best
  hakmem options                           every option, its value and where that comes from
  HAKMEM_STATS=1 hakmem run ls             options are environment variables

\b
Looking into a program that runs on it (by its process number):
  hakmem ps                                who runs on it, and takes how much memory
  hakmem top 4711                          watch memory, rates and size classes; or: top -- ./job
  hakmem stats 4711                        all figures once; --json, --prometheus
  hakmem profile 4711 --seconds 10         who holds memory, into hakmem.4711.heap
  hakmem flame hakmem.4711.heap            ... as a flame graph for the browser
  hakmem profile 4711 --kind fragmentation whose blocks keep nearly empty slabs
  hakmem symbols leaks.txt                 function names for a leak report (HAKMEM_PROF_LEAKS=1)
  hakmem map 4711                          a picture of all slabs; --text: in the terminal
"""


class _Commands(click.Group):
    """Turns errors of ours into one line and the exit status that goes with it."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except HakmemError as error:
            print(f"hakmem: {error}", file=sys.stderr)
            ctx.exit(error.exit_status)
        except KeyboardInterrupt:
            ctx.exit(shell_status_of_code(-signal.SIGINT))


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


@cli.command(context_settings=PROGRAM_COMMAND)
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
        os.execve(program, command, environment)
    except OSError as error:
        raise cannot_execute(program, error) from error


@cli.command(context_settings=PROGRAM_COMMAND)
@RUNS
@POLLING
@REPORT
@COMMAND
def versus(runs: int, polling: bool, report: Path, command: tuple[str, ...]) -> NoReturn:
    """Run COMMAND in turn on HAKMEM and on libc's malloc, and compare what it took.

    The first round, on HAKMEM, reads and writes as if run alone; the output of the others is
    dropped. Every round gets the same standard input, except from a terminal: only the first reads
    that. The exit status is the program's (128 and the signal's number, if one killed it); where
    rounds differ, the first failure's.
    """

    program, library = program_and_library(command)
    require_writable(report)
    comparison = compare(program, command, library, runs, polling=polling)
    with text_output(report) as output:
        print_comparison(console(output), shlex.join(command), comparison)
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


@cli.command("compare", context_settings=PROGRAM_COMMAND)
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
def compare_command(
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


@cli.command()
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


for _command in (tune_command, ps, stats, top, profile, flame, symbols, map_command):
    cli.add_command(_command)


def _split(names: str | None) -> list[str] | None:
    if names is None:
        return None
    given = (name.strip() for name in names.split(","))
    return [ALIASES.get(name, name) for name in given]


def _have_standard_streams() -> None:
    """Whoever starts a command without them wants nothing from it; programs that it runs have them no more
    than it."""
    if sys.stdout is None:
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8", errors="replace")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8", errors="replace")  # noqa: SIM115


def main() -> None:
    _have_standard_streams()
    let_any_text_out()
    try:
        cli(prog_name="hakmem")
    except OSError as error:
        # A write to the output knows no name; what fails with files is said where it is tried.
        if error.filename is not None or error.errno not in _FULL:
            raise
        # What is left in buffers would fail once more at the end of the process.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        print(f"hakmem: cannot write the output: {error.strerror}", file=sys.stderr)
        sys.exit(EXIT_FAILURE)
