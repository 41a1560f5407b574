"""GCC and Clang compile, link and give the same bytes; what they made runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from .harness import Runner, required_program

PROJECT = Path(__file__).parent / "cpp" / "compiled_project"
FLAGS = ["-std=c++17", "-O0", "-g", "-pthread", "-Wall", "-Wextra", "-Werror", "-Wconversion"]


def compile_all(compiler: str, directory: Path) -> list[list[str]]:
    """The commands that make `project` in the working directory, relative so that no path differs."""
    sources = sorted(PROJECT.glob("*.cpp"))
    objects = [f"{source.stem}.o" for source in sources]
    commands = [
        [compiler, *FLAGS, "-c", str(source), "-o", name]
        for source, name in zip(sources, objects, strict=True)
    ]
    directory.mkdir()
    return [*commands, [compiler, "-pthread", *objects, "-o", "project"]]


@pytest.mark.parametrize("name", ["g++", "clang++"])
def test_compiler_gives_identical_output_that_runs(runner: Runner, tmp_path: Path, name: str) -> None:
    compiler = required_program(name)
    # The same directory name for both, since debugging information holds it.
    directory = tmp_path / "output"
    for command in compile_all(compiler, directory):
        runner.run_plain(command, cwd=directory)
    plain = {path.name: path.read_bytes() for path in directory.iterdir()}
    directory.rename(tmp_path / "plain")
    for command in compile_all(compiler, directory):
        runner.run(command, cwd=directory)
    preloaded = {path.name: path.read_bytes() for path in directory.iterdir()}
    assert plain.keys() == preloaded.keys()
    differing = [file for file in sorted(plain) if plain[file] != preloaded[file]]
    assert not differing, f"{name} made other bytes with the library preloaded: {', '.join(differing)}"
    finished = runner.same_output([directory / "project"])
    assert "bad_alloc 1500" in finished.text, finished


@pytest.mark.parametrize("name", ["gcc", "clang"])
def test_c_compiler_gives_identical_assembly(runner: Runner, name: str) -> None:
    source = Path(__file__).parent / "c" / "standard_family.c"
    runner.same_output([required_program(name), "-std=c17", "-D_GNU_SOURCE", "-O3", "-S", "-o", "-", source])
