"""`python -m bench`: measure, make the page, and see how far two runs agree."""

import os
import sys
from pathlib import Path

import click
from hakmem.allocators import HAKMEM, find
from hakmem.console import console
from hakmem.errors import HakmemError
from hakmem.output import let_any_text_out
from rich.table import Table

from bench import agreement, page, policies, suite
from bench.benchmark import EXIT_INTERRUPTED, PREVIOUS, Order, carry_out, default_minutes, places_of, writable
from bench.places import BUILD, REPOSITORY
from bench.progress import shown
from bench.results import load
from bench.runner import Runner
from bench.view import View

_FOLDER = click.Path(path_type=Path, file_okay=False)
_FILE = click.Path(path_type=Path, dir_okay=False)


class _Commands(click.Group):
    """Turns errors of ours into one line and the exit status that goes with it."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except HakmemError as error:
            print(f"bench: {error}", file=sys.stderr)
            ctx.exit(error.exit_status)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
def cli() -> None:
    """HAKMEM's benchmarks. `make bench` builds what is needed and runs them all."""


@cli.command()
@click.option("--full", is_flag=True, help="Runs of several seconds each, and two hours of them.")
@click.option(
    "--only",
    "patterns",
    multiple=True,
    metavar="GLOB",
    help="Only workloads whose names match, such as 'larson*'. May be repeated.",
)
@click.option("--allocators", "names", metavar="A,B,...", help="These, in place of all that are found.")
@click.option(
    "--rounds",
    type=click.IntRange(1, 1000),
    help="Rounds of each workload, however certain its figures are.",
)
@click.option(
    "--minutes",
    type=click.FloatRange(min=0),
    help="Time for comparing; what is needed at least is run even if it takes longer."
    f"  [default: {default_minutes(full=False):g}; with --full {default_minutes(full=True):g}]",
)
@click.option(
    "--output",
    type=_FOLDER,
    help="Folder of results and page.  [default: docs/benchmarks; for a part of the suite, build/benchmarks]",
)
@click.option(
    "--build",
    type=_FOLDER,
    default=BUILD,
    help="Where CMake built, with HAKMEM_BUILD_BENCH=ON.  [default: build]",
)
@click.option(
    "--suite", "suite_file", type=_FILE, default=suite.SUITE_FILE, help="[default: bench/suite.toml]"
)
def run(
    *,
    full: bool,
    patterns: tuple[str, ...],
    names: str | None,
    rounds: int | None,
    minutes: float | None,
    output: Path | None,
    build: Path,
    suite_file: Path,
) -> None:
    """Measure, and write results and page."""
    order = Order(
        suite=suite.load(suite_file).only(patterns),
        whole=not (patterns or names),
        allocators=names.split(",") if names else None,
        full=full,
        rounds=rounds,
        minutes=minutes,
        output=output,
        build=build,
    )
    print(carry_out(order))


@cli.command(name="policies")
@click.option("--only", "patterns", multiple=True, metavar="GLOB", help="Only workloads whose names match.")
@click.option("--rounds", type=click.IntRange(2, 1000), default=4, show_default=True)
@click.option("--build", type=_FOLDER, default=BUILD, help="Where CMake built.  [default: build]")
@click.option(
    "--suite", "suite_file", type=_FILE, default=suite.SUITE_FILE, help="[default: bench/suite.toml]"
)
def rank_policies(*, patterns: tuple[str, ...], rounds: int, build: Path, suite_file: Path) -> None:
    """Run the suite under many settings of HAKMEM, and rank these.

    Each workload's own best settings are chosen by the odd rounds and judged by the even ones.
    """
    runner = Runner(places_of(build), full=False)
    found, missing = find([HAKMEM])
    if missing:
        raise HakmemError(f"HAKMEM cannot be used here: {missing[0].reason}")
    workloads = suite.load(suite_file).only(patterns).workloads
    os.chdir(REPOSITORY)  # workloads that are modules of Python are found from here
    with shown() as report:
        results = policies.measure(workloads, found[0], runner, rounds, report)
    policies.print_standings(console(), results)
    if results.interrupted:
        sys.exit(EXIT_INTERRUPTED)


@cli.command(name="page")
@click.argument("results_file", metavar="RESULTS.json", type=_FILE)
@click.option("--output", type=_FOLDER, help="Folder of the page.  [default: that of the results]")
def page_again(results_file: Path, output: Path | None) -> None:
    """Make page and pictures of RESULTS.json again.

    The run before it is taken from previous.json beside it, if there is one.
    """
    results = load(results_file)
    before = results_file.with_name(PREVIOUS)
    previous = load(before) if before.exists() else None
    print(page.write(results, previous, writable(output or results_file.parent)))


@cli.command()
@click.argument("before", type=_FILE)
@click.argument("after", type=_FILE)
def agree(before: Path, after: Path) -> None:
    """How far the ratios HAKMEM / mimalloc 3 of two runs differ, workload by workload."""
    earlier, later = View(load(before)), View(load(after))
    to = console()
    for reason in agreement.obstacles(earlier, later):
        to.print(f"Not repetitions of each other: {reason}.")
    found = agreement.differences(earlier, later)
    if not found:
        pair = f"{later.subject} and {later.reference}"
        raise HakmemError(f"'{before}' and '{after}' have no workload in common on {pair}")
    table = Table("workload", "before", "after", "change", box=None, pad_edge=False)
    for entry in found:
        change = f"{entry.change:+.1%}" + ("" if entry.agrees else "  differs")
        table.add_row(entry.workload, f"{entry.before:.3f}", f"{entry.after:.3f}", change)
    to.print(table)
    number = sum(entry.agrees for entry in found)
    share = agreement.share_agreeing(found)
    to.print(f"{number} of {len(found)} differ by less than {agreement.LIMIT:.0%} ({share:.0%}).")


if __name__ == "__main__":
    let_any_text_out()
    cli(prog_name="python -m bench")
