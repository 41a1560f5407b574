"""Programs and libraries from a few lines of C."""

import os
import subprocess
from pathlib import Path

A_LIBRARY = ("-shared", "-fPIC", "-fno-builtin")


def compile_c(source: str, target: Path, *flags: str) -> Path:
    """Has the compiler in CC, or cc, make `target` of `source`."""
    compiler = (os.environ.get("CC") or "cc").split()
    # Libraries are looked for in the order of the command: they come behind what needs them.
    command = [*compiler, "-x", "c", "-", "-o", str(target), *flags]
    subprocess.run(command, input=source.encode(), check=True)
    return target
