"""cargo and rustc build a workspace, run it and run its tests."""

from __future__ import annotations

import shutil
from pathlib import Path

from .harness import Runner, required_program

WORKSPACE = Path(__file__).parent / "data" / "rust_workspace"


def test_cargo_builds_runs_and_tests_a_workspace(runner: Runner, tmp_path: Path) -> None:
    cargo = required_program("cargo")
    workspace = tmp_path / "workspace"
    shutil.copytree(WORKSPACE, workspace)
    built = runner.run([cargo, "build", "--offline", "--release"], cwd=workspace)
    assert b"Finished" in built.stderr, built
    finished = runner.same_output([workspace / "target" / "release" / "app"])
    assert finished.text.startswith("area "), finished
    tested = runner.run([cargo, "test", "--offline"], cwd=workspace)
    assert "test result: ok. 4 passed; 0 failed" in tested.text, tested
    assert runner.run([cargo, "run", "--offline"], cwd=workspace).stdout == finished.stdout
