"""The environments of the two sides: with HAKMEM preloaded, and with libc's malloc."""

import re
from collections.abc import Mapping
from pathlib import Path

from hakmem.errors import HakmemError
from hakmem.library import LIBRARY_NAME

PRELOAD_VARIABLE = "LD_PRELOAD"
_SEPARATORS = re.compile(r"[ :]+")


def preloaded(environment: Mapping[str, str]) -> list[str]:
    """What the dynamic linker is to preload, in order."""
    return [entry for entry in _SEPARATORS.split(environment.get(PRELOAD_VARIABLE, "")) if entry]


def is_preloadable(path: str) -> bool:
    """Whether LD_PRELOAD can carry it."""
    return not _SEPARATORS.search(path)


def with_hakmem(environment: Mapping[str, str], library: Path) -> dict[str, str]:
    """`environment` with `library` first in LD_PRELOAD; what was there before stays, after it."""
    if not is_preloadable(str(library)):
        raise HakmemError(
            f"LD_PRELOAD cannot carry a path with a space or a colon: '{library}'; "
            "copy the library elsewhere and set HAKMEM_LIBRARY to it"
        )
    return {**environment, PRELOAD_VARIABLE: ":".join([str(library), *_others(environment)])}


def without_hakmem(environment: Mapping[str, str]) -> dict[str, str]:
    """`environment` with no HAKMEM in LD_PRELOAD; anything else that is preloaded stays."""
    result = {**environment}
    result.pop(PRELOAD_VARIABLE, None)
    if others := _others(environment):
        result[PRELOAD_VARIABLE] = ":".join(others)
    return result


def _others(environment: Mapping[str, str]) -> list[str]:
    return [entry for entry in preloaded(environment) if not Path(entry).name.startswith(LIBRARY_NAME)]
