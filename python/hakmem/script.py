"""Runs Python's own code in a process of its own."""

import subprocess
import sys
from collections.abc import Mapping


def run_python(
    *arguments: str, environment: Mapping[str, str], timeout: float | None = None
) -> subprocess.CompletedProcess[str]:
    """Without the packages that are installed, so that it starts fast; with all that it writes."""
    return subprocess.run(
        [sys.executable, "-I", "-S", *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=timeout,
        check=False,
    )
