"""The pictures."""

from pathlib import Path

import pytest

from bench.plots import PLOTS, draw
from bench.results import Results, WorkloadResult
from bench.view import View

from .synthetic import results, run
from .test_memory_page import made

__all__ = ["made"]


@pytest.fixture
def view(made: Results) -> View:
    phases = WorkloadResult("fragmentation/day", "memory", "A day.", "x")
    for name in made.names():
        phases.runs[name] = [run(1, 1e-9, noon_live_bytes=100, noon_rss_bytes=120)]
    made.workloads.append(phases)
    return View(made)


def test_all_are_drawn(view: View, tmp_path: Path) -> None:
    assert draw(view, tmp_path) == list(PLOTS)
    for plot in PLOTS.values():
        drawn = (tmp_path / plot.file).read_text()
        assert "<svg" in drawn
        for name in view.names:
            assert view.title(name) in drawn
    assert "mix/small" in (tmp_path / PLOTS["time"].file).read_text()


def test_the_same_results_make_the_same_files(view: View, tmp_path: Path) -> None:
    for folder in ("1", "2"):
        draw(view, tmp_path / folder)
    for plot in PLOTS.values():
        assert (tmp_path / "1" / plot.file).read_bytes() == (tmp_path / "2" / plot.file).read_bytes()


def test_what_was_not_measured_is_not_drawn(tmp_path: Path) -> None:
    assert draw(View(results()), tmp_path) == ["time", "memory"]
    assert {path.name for path in tmp_path.iterdir()} == {"time.svg", "memory.svg"}
