"""The program that the README shows to those who link the library."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .builder import Builder
from .conftest import REPOSITORY
from .harness import Runner


@pytest.mark.parametrize("kind", ["shared", "static"])
def test_the_example_runs_and_does_what_it_says(
    runner: Runner, builder: Builder, library: Path, kind: str, tmp_path: Path
) -> None:
    (code,) = re.findall(
        r"^```c\n(.*?)^```", (REPOSITORY / "README.md").read_text(), re.DOTALL | re.MULTILINE
    )
    source = tmp_path / "app.c"
    source.write_text(code)
    flags = {
        "shared": [f"-L{library.parent}", f"-Wl,-rpath,{library.parent}", "-lhakmem"],
        "static": [str(library.with_suffix(".a"))],
    }
    program = builder.program(str(source), f"-I{REPOSITORY}/include", *flags[kind], suffix=kind)
    finished = runner.run_plain([program])
    assert re.fullmatch(r"\d+ bytes in use\n", finished.text), finished
    assert int(finished.text.split()[0]) >= 100, finished
    report = finished.stderr.decode()
    assert "statistics, process" in report, finished
    line = code[: code.index("HAK_SITE()")].count("\n") + 1
    assert f"{source}:{line}\n" in report, finished
