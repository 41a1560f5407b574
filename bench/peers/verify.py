"""Makes sure that what a recipe gave really serves malloc, before anything is measured on it."""

import os

from hakmem.allocators import Allocator, environment_for
from hakmem.errors import HakmemError
from hakmem.peer_cache import Manifest
from hakmem.probe import probe
from hakmem.script import run_python

from bench.peers.recipe import Product, Recipe
from bench.peers.workshop import UnavailableError

# Of the 4 MB that the probe's program allocates, what libc's own allocator may serve.
_LIBC_BYTES_ALLOWED = 64 << 10
_ASKING = """
import ctypes, sys
function = getattr(ctypes.CDLL(None), sys.argv[1])
function.restype = ctypes.c_bool
sys.exit(0 if function() else 1)
"""


def verified(recipe: Recipe, product: Product) -> Manifest:
    """The manifest of a product that a small program runs on; raises UnavailableError for any other."""
    allocator = Allocator(
        recipe.name, recipe.title, product.version, product.library, product.origin, product.environment
    )
    try:
        environment = environment_for(allocator, os.environ)
        facts = probe(product.library, environment)
    except HakmemError as error:
        raise UnavailableError(f"built, but {error}") from error
    how = ["preloaded into a program, it serves the whole malloc family"]
    if facts.libc_growth is not None:
        if facts.libc_growth > _LIBC_BYTES_ALLOWED:
            raise UnavailableError(
                f"built, but libc serves {facts.libc_growth} bytes of what it is asked for"
            )
        how.append("libc's allocator serves nothing")
    version = facts.version or product.version
    if not version:
        raise UnavailableError("built, but neither it nor its package tells its version")
    if product.version and facts.version and product.version != facts.version:
        raise UnavailableError(f"built as {product.version}, but it calls itself {facts.version}")
    if facts.version:
        how.append(f"it calls itself {facts.version}")
    if product.must_hold:
        _require(product.must_hold, environment)
        how.append(f"{product.must_hold}() says yes")
    return Manifest(
        name=recipe.name,
        title=recipe.title,
        version=version,
        library=product.library.name,
        origin=product.origin,
        verified="; ".join(how),
        environment=dict(product.environment),
    )


def _require(function: str, environment: dict[str, str]) -> None:
    asked = run_python("-c", _ASKING, function, environment=environment)
    if asked.returncode != 0:
        said = asked.stderr.strip().splitlines()
        raise UnavailableError(f"built, but {function}() says no" + (f" ({said[-1]})" if said else ""))
