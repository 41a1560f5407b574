"""The `hakmem` command."""

import errno
import os
import signal
import sys
from importlib import import_module
from pathlib import Path

import click

from hakmem.ending import shell_status_of_code
from hakmem.errors import EXIT_FAILURE, HakmemError
from hakmem.output import let_any_text_out

# Each is a module of hakmem.commands, which has a command of that name.
_COMMANDS = (
    "allocators",
    "collect",
    "compare",
    "flame",
    "map",
    "options",
    "profile",
    "ps",
    "run",
    "stats",
    "symbols",
    "top",
    "tune",
    "versus",
)

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
  hakmem collect 4711                      has it give back what is free, now
"""


class _Commands(click.Group):
    """Loads a command when it is called: what one needs, the others do not wait for. And turns errors of ours
    into one line and the exit status that goes with it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = getattr(import_module(f"hakmem.commands.{cmd_name}"), cmd_name)
        return command

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

    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 # takes a while to load

    from hakmem.library import find_library  # noqa: PLC0415
    from hakmem.library_facts import facts_of  # noqa: PLC0415

    try:
        own_version = version("hakmem")
    except PackageNotFoundError:  # run from a source tree that is not installed
        own_version = "unknown"
    click.echo(f"hakmem {own_version}")
    try:
        path = find_library()
        click.echo(f"library {facts_of(path, os.environ).version} ({path})")
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
