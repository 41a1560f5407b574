"""Finds libhakmem.so."""

import os
from pathlib import Path

from hakmem.errors import HakmemError

LIBRARY_VARIABLE = "HAKMEM_LIBRARY"
LIBRARY_NAME = "libhakmem.so"

_TELLING_SYMBOL = "hak_version"

_PACKAGE = Path(__file__).resolve().parent
_IN_PACKAGE = _PACKAGE / "lib" / LIBRARY_NAME
_IN_REPOSITORY = _PACKAGE.parents[1] / "build" / LIBRARY_NAME


def find_library() -> Path:
    """The library in force: HAKMEM_LIBRARY, else the installed package's, else the repository's build."""
    if chosen := os.environ.get(LIBRARY_VARIABLE):
        from hakmem.elf import defines  # noqa: PLC0415 # its library takes a while to load

        path = Path(chosen).absolute()
        try:
            is_there = path.is_file()
        except OSError as error:
            raise HakmemError(
                f"{LIBRARY_VARIABLE} is set to '{chosen}', which cannot be looked at: {error.strerror}"
            ) from error
        if not is_there:
            raise HakmemError(f"{LIBRARY_VARIABLE} is set to '{chosen}', but there is no such file")
        # By its names: loading it would run whatever else it is.
        if not defines(path, _TELLING_SYMBOL):
            raise HakmemError(
                f"{LIBRARY_VARIABLE} is set to '{chosen}', which is not a HAKMEM library: "
                f"it has no {_TELLING_SYMBOL}"
            )
        return path
    for path in (_IN_PACKAGE, _IN_REPOSITORY):
        if path.is_file():
            return path
    raise HakmemError(
        f"{LIBRARY_NAME} not found: run 'make' in the repository, or set {LIBRARY_VARIABLE} to its path"
    )
