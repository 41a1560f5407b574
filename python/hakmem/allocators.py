"""Finds the allocators of this machine, and makes the environment that runs a program on one of them."""

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from hakmem import peer_cache
from hakmem.errors import HakmemError
from hakmem.installed import KINDS, Kind, is_allocator, libraries_of, linkable_libraries, version_in_name
from hakmem.library import find_library
from hakmem.preload import PRELOAD_VARIABLE, is_preloadable, preloaded
from hakmem.probe import probe

HAKMEM = "hakmem"
SYSTEM = "system"
NAMES = (HAKMEM, SYSTEM, *(kind.name for kind in KINDS))
# Other names that people have for one of them.
ALIASES = {"libc": SYSTEM, "glibc": SYSTEM}

# All variables that an allocator may need, with a value of the same length that changes nothing: where one
# allocator needs the variable, the others get that.
_NEUTRAL = {"GLIBC_TUNABLES": "glibc.pthread.rseq=1"}
_PRELOAD_LENGTH = 512


@dataclass(frozen=True)
class Allocator:
    name: str
    title: str  # for people: "mimalloc 3.3.2"
    version: str
    library: Path | None  # None: the system's malloc
    origin: str  # one line: from where, built how, with which flags
    environment: Mapping[str, str] = field(default_factory=dict, hash=False)  # besides LD_PRELOAD


@dataclass(frozen=True)
class Missing:
    name: str
    reason: str
    library: Path | None = None  # one that was found, but is of no use


def find(names: Sequence[str] | None = None) -> tuple[list[Allocator], list[Missing]]:
    """The allocators of `names` (else: all known) that work on this machine, and why the others do not.

    Each was tried on a small program. HAKMEM and the system's come first. For the others, one that was
    built for comparison goes before one that the system has installed.
    """
    if unknown := [name for name in names or () if name not in NAMES]:
        raise HakmemError(f"no allocator is called '{unknown[0]}'; the names are {', '.join(NAMES)}")
    wanted = [name for name in NAMES if names is None or name in names]
    candidates = _candidates(wanted)
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        results = list(pool.map(lambda name: _first_that_works(candidates[name]), wanted))
    found = [result for result in results if isinstance(result, Allocator)]
    return found, [result for result in results if isinstance(result, Missing)]


def environment_for(allocator: Allocator, base: Mapping[str, str]) -> dict[str, str]:
    """`base` with `allocator` preloaded, in place of any other.

    Whichever the allocator, the variables are the same in number, order and length: a program's stack
    begins below them, and where it begins changes how fast the program runs.
    """
    others = [entry for entry in preloaded(base) if not is_allocator(entry)]
    library = str(allocator.library or "")
    if problem := _preload_problem(library):
        raise HakmemError(f"cannot preload '{library}': {problem}")
    # The dynamic linker skips empty entries.
    own = {PRELOAD_VARIABLE: ":".join([library.ljust(_PRELOAD_LENGTH, ":"), *others])}
    for name, neutral in _NEUTRAL.items():
        value = allocator.environment.get(name, neutral)
        # What the user has set comes last, and wins.
        own[name] = f"{value}:{base[name]}" if base.get(name) else value
    kept = {name: value for name, value in base.items() if name not in own}
    return {**kept, **own}


def _candidates(names: Sequence[str]) -> dict[str, list[Allocator | Missing]]:
    """For each name what may serve, the preferred one first, and at the end why there is no other."""
    result: dict[str, list[Allocator | Missing]] = {name: [] for name in names}
    if HAKMEM in result:
        result[HAKMEM].append(_hakmem())
    if SYSTEM in result:
        result[SYSTEM].append(_system())
    for folder, manifest in peer_cache.manifests():
        if manifest and manifest.name in result:
            result[manifest.name].append(_built(folder, manifest))
    linkable = linkable_libraries()
    reasons = peer_cache.missing_reasons()
    for kind in KINDS:
        if kind.name in result:
            result[kind.name] += [_installed(kind, path) for path in libraries_of(kind, linkable)]
            reason = reasons.get(kind.name, "neither built for comparison nor installed")
            result[kind.name].append(Missing(kind.name, reason))
    return result


def _hakmem() -> Allocator | Missing:
    try:
        library = find_library()
    except HakmemError as error:
        return Missing(HAKMEM, str(error))
    return Allocator(HAKMEM, "HAKMEM", "", library, f"this project's: {library}")


def _system() -> Allocator:
    try:
        name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    except ValueError:  # another C library
        name, version = "", ""
    return Allocator(SYSTEM, name or "libc", version, None, "the system's C library")


def _built(folder: Path, manifest: peer_cache.Manifest) -> Allocator | Missing:
    library = folder / manifest.library
    if strange := [name for name in manifest.environment if name not in _NEUTRAL]:
        reason = f"it needs {strange[0]}, of which this version of hakmem does not know a neutral value"
        return Missing(manifest.name, reason, library)
    return Allocator(
        manifest.name, manifest.title, manifest.version, library, manifest.origin, manifest.environment
    )


def _installed(kind: Kind, path: Path) -> Allocator:
    return Allocator(kind.name, kind.title, version_in_name(path.resolve()), path, f"installed: {path}")


def _first_that_works(candidates: Sequence[Allocator | Missing]) -> Allocator | Missing:
    refused: list[Missing] = []
    for candidate in candidates:
        result = _tried(candidate) if isinstance(candidate, Allocator) else candidate
        if isinstance(result, Allocator):
            return result
        refused.append(result)
    # Why a library that is here does not work says more than that there is none.
    return refused[0]


def _tried(candidate: Allocator) -> Allocator | Missing:
    """The allocator, with its version in its title, if a small program runs on it."""
    try:
        facts = probe(candidate.library, environment_for(candidate, os.environ))
    except HakmemError as error:
        return Missing(candidate.name, str(error), candidate.library)
    version = facts.version or candidate.version or "of unknown version"
    return replace(candidate, version=version, title=f"{candidate.title} {version}")


def _preload_problem(library: str) -> str | None:
    if len(library) > _PRELOAD_LENGTH:
        return f"its path is longer than {_PRELOAD_LENGTH} characters; copy it elsewhere"
    if not is_preloadable(library):
        return "LD_PRELOAD cannot carry a path with a space or a colon; copy it elsewhere"
    return None
