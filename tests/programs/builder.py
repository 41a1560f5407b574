"""Compiles the small C and C++ programs of this folder."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from .harness import join, required_program

WARNINGS = ["-Wall", "-Wextra", "-Werror", "-Wconversion"]
# The compiler may not drop or fold allocations here: that they happen is the point.
KEEP_ALLOCATIONS = ["-O1", "-g", "-fno-builtin"]


class Builder:
    def __init__(self, sources: Path, output: Path) -> None:
        self._sources = sources
        self._output = output

    def program(self, source: str, *flags: str, suffix: str = "") -> Path:
        """An executable from one source, for example "c/thread_storm.c".

        `suffix` of its name tells it from another one of the same source.
        """
        return self._build(source, suffix, [*flags, "-pthread", "-ldl"])

    def plugin(self, source: str, *flags: str, suffix: str = "") -> Path:
        """A shared object that can be unloaded, which symbols unique to the process would prevent."""
        unloadable = ["-fPIC", "-shared", "-fno-gnu-unique", "-pthread"]
        return self._build(source, f"{suffix}.so", [*unloadable, *flags])

    def _build(self, source: str, suffix: str, flags: list[str]) -> Path:
        path = self._sources / source
        target = self._output / (path.stem + suffix)
        if target.exists():
            return target
        is_cpp = path.suffix == ".cpp"
        compiler = required_program("g++" if is_cpp else "gcc")
        standard = "-std=c++17" if is_cpp else "-std=c17"
        flags = [standard, "-D_GNU_SOURCE", *WARNINGS, *KEEP_ALLOCATIONS, *flags]
        command = [compiler, str(path), "-o", str(target), *flags]
        compiled = subprocess.run(command, check=False, capture_output=True, text=True)
        if compiled.returncode != 0:
            pytest.fail(f"{join(command)}\n{compiled.stdout}{compiled.stderr}")
        return target
