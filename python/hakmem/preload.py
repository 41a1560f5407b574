"""The environments of the two sides: with HAKMEM preloaded, and with libc's malloc."""

import re
from collections.abc import Mapping
from pathlib import Path

from hakmem.errors import HakmemError
from hakmem.library import LIBRARY_NAME

PRELOAD_VARIABLE = "LD_PRELOAD"
_SEPARATORS = re.compile(r"[ :]+")


def with_hakmem(environment: Mapping[str, str], library: Path) -> dict[str, str]:
    """`environment` with `library` first in LD_PRELOAD; what was there before stays, after it."""
    if _SEPARATORS.search(str(library)):
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
    listed = _SEPARATORS.split(environment.get(PRELOAD_VARIABLE, ""))
    return [entry for entry in listed if entry and not Path(entry).name.startswith(LIBRARY_NAME)]
