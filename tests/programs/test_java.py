"""The JVM compiles and runs a program with threads and native memory."""

from __future__ import annotations

import re
from pathlib import Path

from .harness import Runner, required_program

SOURCE = Path(__file__).parent / "data" / "Workload.java"


def test_jvm_compiles_and_runs_threads_with_direct_buffers(runner: Runner, tmp_path: Path) -> None:
    runner.run([required_program("javac"), "-Xlint:all", "-Werror", "-d", tmp_path, SOURCE])
    finished = runner.same_output([required_program("java"), "-Xmx256m", "-cp", tmp_path, "Workload"])
    assert re.fullmatch(r"-?\d+ from 2560 entries\n", finished.text), finished
