"""`hakmem top`."""

import sys
from typing import NoReturn

import click

from hakmem.console import console
from hakmem.ending import shell_status_of_code
from hakmem.errors import HakmemError
from hakmem.inside.parameters import PID, SHORTEST_PERIOD_SECONDS, Seconds
from hakmem.inside.top import top_of_command, top_of_process
from hakmem.program import program_and_library


@click.command()
@click.option(
    "--interval",
    type=Seconds(SHORTEST_PERIOD_SECONDS),
    default=1.0,
    show_default=True,
    metavar="S",
    help="Seconds between two looks.",
)
@click.option("--once", is_flag=True, help="One picture only, with the rates of one interval.")
@click.argument("words", nargs=-1, metavar="PID | -- COMMAND...", type=click.UNPROCESSED)
def top(*, interval: float, once: bool, words: tuple[str, ...]) -> NoReturn:
    """Watch process PID, or run COMMAND on HAKMEM and watch that, until it ends.

    Of the processes of COMMAND, it shows the one that holds most memory.

    Shows live, resident and retained memory over time, rates, the size classes that cost most, fall-backs
    and, where the process is sampled (see 'hakmem profile'), the call sites that hold most. The first line
    says how old the figures are, if that is more than a second. Ctrl-C ends it. Where the output is no
    terminal, or one that cannot be drawn over (TERM=dumb), one picture follows the other.
    """
    if not words:
        raise HakmemError(
            "nothing to watch: name a process number ('hakmem ps' lists them), or '-- COMMAND' to run one"
        )
    to = console()
    if len(words) == 1 and words[0].isdecimal():
        try:
            top_of_process(PID.convert(words[0], None, None), interval, to, once=once)
        except KeyboardInterrupt:
            to.print()
        sys.exit(0)
    program, library = program_and_library(words)
    sys.exit(shell_status_of_code(top_of_command(program, words, library, interval, to, once=once)))
