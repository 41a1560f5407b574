"""python -m bench.peers: builds the peers that are not in the cache yet, and shows all of them."""

import sys
import time

import click
from hakmem.console import console
from hakmem.output import let_any_text_out
from hakmem.peer_cache import manifests, missing_reasons, peers_folder
from rich import box
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from bench.peers.builder import Result, build, lacking, sole_builder
from bench.peers.recipe import Recipe
from bench.peers.recipes import RECIPES


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--only", metavar="NAME", multiple=True, help="Only this peer (may be repeated).")
@click.option(
    "--rebuild", is_flag=True, help="Build also what is in the cache, or is known not to be had here."
)
def main(only: tuple[str, ...], rebuild: bool) -> None:
    """Build the allocators that HAKMEM is compared with, from the package registries, into the cache."""
    to = console()
    recipes = _chosen(only)
    with sole_builder():
        to_build = recipes if rebuild else lacking(recipes)
        if to_build:
            _build(to, to_build)
    to.print(_table(recipes))
    to.print(Text(f"in {peers_folder()}"), soft_wrap=True)


def _chosen(only: tuple[str, ...]) -> list[Recipe]:
    names = [recipe.name for recipe in RECIPES]
    if unknown := [name for name in only if name not in names]:
        print(
            f"bench.peers: no peer is called '{unknown[0]}'; the names are {', '.join(names)}",
            file=sys.stderr,
        )
        sys.exit(2)
    return [recipe for recipe in RECIPES if not only or recipe.name in only]


def _build(to: Console, recipes: list[Recipe]) -> None:
    started = time.monotonic()
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.fields[name]:12}"),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        console=to,
        transient=True,
        disable=not to.is_terminal,
    ) as progress:
        rows = {
            recipe.name: progress.add_task("waiting", total=1, start=False, name=recipe.name)
            for recipe in recipes
        }

        def say(name: str, doing: str) -> None:
            progress.start_task(rows[name])
            progress.update(rows[name], description=doing)

        for result in build(recipes, say):
            progress.update(rows[result.name], completed=1, visible=False)
            to.print(_line(result), soft_wrap=True)
    to.print(f"{len(recipes)} of {len(RECIPES)} peers tried in {time.monotonic() - started:.0f} s")


def _line(result: Result) -> Text:
    if not result.reason:
        return Text(f"built    {result.name} {result.manifest.version if result.manifest else ''}")
    before = f" {result.manifest.version} of before" if result.manifest else ""
    outcome = "kept   " if before else "missing"
    return Text(f"{outcome}  {result.name}{before}: {result.reason} (log: {result.log})", style="yellow")


def _table(recipes: list[Recipe]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in ("Name", "Version", "From", "Verified"):
        table.add_column(title, overflow="fold", no_wrap=title in ("Name", "Version"))
    built = {manifest.name: manifest for _, manifest in manifests() if manifest}
    reasons = missing_reasons()
    for recipe in recipes:
        if manifest := built.get(recipe.name):
            table.add_row(manifest.name, manifest.version, Text(manifest.origin), Text(manifest.verified))
        else:
            table.add_row(
                recipe.name, "missing", Text(reasons.get(recipe.name, "not built"), style="yellow"), ""
            )
    return table


if __name__ == "__main__":
    let_any_text_out()
    main()
