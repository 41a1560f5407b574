"""The allocators that people compare, and where the system has them if they are installed."""

import os
import re
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from hakmem.library import LIBRARY_NAME

# Often not on a user's PATH.
_LDCONFIG = ("ldconfig", "/sbin/ldconfig", "/usr/sbin/ldconfig")
_LDCONFIG_LINE = re.compile(r"\s*(?P<soname>\S+) \(.*\) => (?P<path>/.*)")
_COMPILER_LIBRARIES = ("/usr/lib/llvm-*/lib/clang/*/lib/linux", "/usr/lib/clang/*/lib/linux")


@dataclass(frozen=True)
class Kind:
    """An allocator by any version."""

    name: str
    title: str
    sonames: tuple[str, ...]  # patterns, the preferred one first
    compiler_files: tuple[str, ...] = ()  # patterns of files that come with clang


KINDS = (
    Kind("mimalloc3", "mimalloc", ("libmimalloc.so.3*",)),
    Kind("mimalloc2", "mimalloc", ("libmimalloc.so.2*",)),
    Kind("jemalloc", "jemalloc", ("libjemalloc.so*",)),
    Kind("snmalloc", "snmalloc", ("libsnmallocshim.so*",)),
    Kind("tcmalloc", "tcmalloc (Google)", ()),
    Kind("gperftools", "gperftools tcmalloc", ("libtcmalloc_minimal.so*", "libtcmalloc.so*")),
    Kind("scudo", "scudo", (), ("libclang_rt.scudo_standalone-x86_64.so",)),
    Kind("rpmalloc", "rpmalloc", ("librpmallocwrap.so*", "librpmalloc.so*")),
)
_FILES = (
    f"{LIBRARY_NAME}*",
    *(pattern for kind in KINDS for pattern in (*kind.sonames, *kind.compiler_files)),
)


def is_allocator(file: str) -> bool:
    """Whether the file's name is that of an allocator's library."""
    return any(fnmatch(Path(file).name, pattern) for pattern in _FILES)


def libraries_of(kind: Kind, linkable: Sequence[tuple[str, Path]]) -> list[Path]:
    """Where the system has `kind`, the preferred one first; `linkable` is what `linkable_libraries` gave."""
    found = [path for pattern in kind.sonames for soname, path in linkable if fnmatch(soname, pattern)]
    for pattern in kind.compiler_files:
        for folder in _COMPILER_LIBRARIES:
            newest_first = sorted(Path("/").glob(f"{folder[1:]}/{pattern}"), key=_numbers, reverse=True)
            found.extend(newest_first)
    return list({path.resolve(): None for path in found})


def linkable_libraries() -> list[tuple[str, Path]]:
    """Soname and path of every library that the dynamic linker knows; none where it cannot be asked."""
    for command in _LDCONFIG:
        with suppress(OSError, subprocess.CalledProcessError):
            text = os.fsdecode(subprocess.run([command, "-p"], capture_output=True, check=True).stdout)
            matches = map(_LDCONFIG_LINE.fullmatch, text.splitlines())
            return [(match["soname"], Path(match["path"])) for match in matches if match]
    return []


def version_in_name(library: Path) -> str:
    """The version as far as the file's name or its folder's tells it: libfoo.so.4.5.11, clang/14.0.6/…"""
    match = re.search(r"\.so\.(\d[\d.]*)$", library.name) or re.search(r"/clang/(\d[\d.]*)/", str(library))
    return match[1] if match else ""


def _numbers(path: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", str(path))]
