"""Builds what the cache lacks, several peers at a time, and keeps each result: a library or a reason."""

import fcntl
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hakmem import peer_cache
from hakmem.peer_cache import Manifest

from bench.peers.recipe import Product, Recipe
from bench.peers.verify import verified
from bench.peers.workshop import JOBS, UnavailableError, Workshop

Say = Callable[[str, str], None]  # (name of the peer, what it is at)


@dataclass(frozen=True)
class Result:
    name: str
    manifest: Manifest | None = None
    reason: str = ""  # why the build failed; a manifest is then of what was built before, and stays
    log: Path | None = None


def lacking(recipes: Sequence[Recipe]) -> list[Recipe]:
    """The recipes of which the cache holds neither the library nor a lasting reason why there is none."""
    held = {*_held(), *peer_cache.missing_for_good()}
    return [recipe for recipe in recipes if recipe.name not in held]


def build(recipes: Sequence[Recipe], say: Say = lambda name, doing: None) -> Iterator[Result]:
    """Builds all of `recipes`, and yields each result once it is in the cache."""
    logs = peer_cache.peers_folder() / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    rooms = peer_cache.peers_folder() / "work"
    pool = ThreadPoolExecutor(max_workers=JOBS)
    futures: dict[Future[tuple[Manifest, Product]], Recipe] = {}
    try:
        for recipe in recipes:
            work = _workshop(recipe, rooms / recipe.name, logs / f"{recipe.name}.log", say)
            futures[pool.submit(_make, recipe, work)] = recipe
        for future in as_completed(futures):
            # Kept by this thread only: an interrupted build leaves no reason behind.
            yield _keep(futures[future], future, logs)
    finally:
        pool.shutdown(cancel_futures=True)
        shutil.rmtree(rooms, ignore_errors=True)


@contextmanager
def sole_builder() -> Iterator[None]:
    """Waits while another process builds into the cache."""
    peer_cache.peers_folder().mkdir(parents=True, exist_ok=True)
    with (peer_cache.peers_folder() / ".lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _workshop(recipe: Recipe, folder: Path, log: Path, say: Say) -> Workshop:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    log.write_text("", encoding="utf-8")
    return Workshop(folder, log, lambda doing: say(recipe.name, doing))


def _make(recipe: Recipe, work: Workshop) -> tuple[Manifest, Product]:
    product = recipe.make(work)
    work.say("trying it out")
    return verified(recipe, product), product


def _keep(recipe: Recipe, future: Future[tuple[Manifest, Product]], logs: Path) -> Result:
    log = logs / f"{recipe.name}.log"
    try:
        manifest, product = future.result()
    except (UnavailableError, OSError, ValueError, KeyError) as error:
        # The last three: a release that is not laid out as the recipe expects.
        reason = str(error) if isinstance(error, UnavailableError) else f"its recipe is outdated: {error!r}"
        if before := _held().get(recipe.name):
            return Result(recipe.name, before, reason, log)
        lasting = isinstance(error, UnavailableError) and error.lasting
        peer_cache.store_missing(recipe.name, reason, lasting=lasting)
        return Result(recipe.name, reason=reason, log=log)
    peer_cache.store(manifest, product.library)
    return Result(recipe.name, manifest, log=log)


def _held() -> dict[str, Manifest]:
    return {
        manifest.name: manifest
        for folder, manifest in peer_cache.manifests()
        if manifest and (folder / manifest.library).is_file()
    }
