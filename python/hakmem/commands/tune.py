"""`hakmem tune`."""

import json
import shlex
import sys
from pathlib import Path
from typing import NoReturn

import click

from hakmem.console import console
from hakmem.output import OutputFile, require_writable, text_output
from hakmem.program import program_and_library
from hakmem.program_options import AS_JSON, COMMAND, POLLING, PROGRAM_COMMAND, REPORT, shown_output
from hakmem.tune.policies import POLICIES, policy_of
from hakmem.tune.report import print_tuning, tuning_document, write_settings
from hakmem.tune.search import PRICES, find_settings


@click.command(context_settings=PROGRAM_COMMAND)
@click.option(
    "--for",
    "price",
    type=click.Choice(list(PRICES)),
    default="balanced",
    show_default=True,
    help="What counts: speed (nine parts time, one part peak memory), memory (the reverse), or both alike.",
)
@click.option(
    "--rounds",
    type=click.IntRange(1, 10000),
    default=20,
    show_default=True,
    help="Rounds of three runs each, before the eight of two that judge.",
)
@click.option(
    "--try",
    "own",
    metavar="A=1,B=2",
    multiple=True,
    help="Settings to try besides those that are known, such as HAKMEM_RETAIN_MIN=8M. May be repeated.",
)
@click.option("--only", is_flag=True, help="Only those of --try.")
@click.option(
    "--save",
    type=OutputFile(),
    help="Write what was found to this file, as NAME=VALUE lines: for `env`, or systemd's EnvironmentFile=.",
)
@POLLING
@AS_JSON
@REPORT
@COMMAND
def tune(
    *,
    price: str,
    rounds: int,
    own: tuple[str, ...],
    only: bool,
    save: Path | None,
    polling: bool,
    as_json: bool,
    report: Path,
    command: tuple[str, ...],
) -> NoReturn:
    """Find the settings of HAKMEM that suit COMMAND best.

    Runs COMMAND again and again: in each round once with the settings in force and once with each of two
    others. Which two, a bandit decides, so that those that do well are run more often. What did best is then
    judged by eight further rounds: it is better only if seven of these say so.

    The first run reads and writes as if alone, and its exit status becomes this command's; the output of the
    others is dropped. Every run gets the same standard input, except from a terminal.
    """
    program, library = program_and_library(command)
    policies = [*map(policy_of, own), *(() if only else POLICIES)]
    if not policies:
        raise click.UsageError("--only leaves nothing to try: say what with --try")
    require_writable(report)
    if save:
        require_writable(save)
    result = find_settings(
        program,
        command,
        library,
        policies,
        PRICES[price],
        rounds=rounds,
        polling=polling,
        shown_output=shown_output(as_json=as_json, report=report),
    )
    shown = shlex.join(command)
    with text_output(report) as output:
        if as_json:
            json.dump(tuning_document(command, result), output, indent=2)
            output.write("\n")
        else:
            print_tuning(console(output), shown, result)
    if save and not result.interrupted:
        with text_output(save) as output:
            write_settings(output, shown, result)
    sys.exit(result.exit_status())
