"""Where the commands print."""

import os
from typing import TextIO

from rich.console import Console

_PLAIN_WIDTH = 160  # where there is no terminal to fit in
_LEAST_WIDTH = 80  # in less, tables cut figures off or leave out columns


def console(file: TextIO | None = None) -> Console:
    """At least as wide as tables need: a narrower terminal breaks their lines, and shows all figures."""
    result = Console(file=file, highlight=False)
    if not result.is_terminal and "COLUMNS" not in os.environ:
        result.width = _PLAIN_WIDTH
    elif result.width < _LEAST_WIDTH:
        result.width = _LEAST_WIDTH
    return result
