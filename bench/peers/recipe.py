"""What a recipe is, and what it gives."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench.peers.workshop import Workshop


@dataclass(frozen=True)
class Product:
    library: Path
    origin: str  # one line: from where, built how, with which flags
    version: str = ""  # empty: the allocator itself tells it
    environment: Mapping[str, str] = field(default_factory=dict, hash=False)
    # A function of the library, `bool f(void)`, that must say true in a program that runs on it.
    must_hold: str = ""


@dataclass(frozen=True)
class Recipe:
    name: str  # one of hakmem.allocators.NAMES
    title: str  # for people, without the version
    make: Callable[[Workshop], Product]  # raises UnavailableError where it cannot
