"""Node.js: buffers, JSON, zlib, crypto and worker threads."""

from __future__ import annotations

from pathlib import Path

from .harness import Runner, required_program

SCRIPT = Path(__file__).parent / "data" / "workload.js"


def test_node_workers_give_the_same_digests(runner: Runner) -> None:
    finished = runner.same_output([required_program("node"), SCRIPT])
    assert len(finished.text.split()) == 8, finished
