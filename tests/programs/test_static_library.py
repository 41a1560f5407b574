"""The static library and the names of the program that it is linked into."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from .builder import Builder
from .harness import Runner

# What the compiler makes for whatever throws, one for all that is linked.
COMPILERS_OWN = {"DW.ref.__gxx_personality_v0"}
# What libc lets only a library get in between of.
SHARED_ONLY = {
    *("__libc_start_main", "dlopen", "madvise", "mlockall", "munlockall"),
    *("clone", "prctl", "setns", "syscall", "unshare"),
    *("prlimit", "prlimit64", "setrlimit", "setrlimit64"),
}


@pytest.fixture(name="static")
def _static(runner: Runner) -> Path:
    return runner.library.with_suffix(".a")


def defined(library: Path, *options: str) -> set[str]:
    """Names that other objects see, without their versions."""
    finished = subprocess.run(
        ["nm", "--format=posix", "--extern-only", "--defined-only", *options, library],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    lines = (line.split() for line in finished.stdout.splitlines())
    return {words[0].partition("@")[0] for words in lines if len(words) > 2}


def test_all_its_code_is_in_the_section_that_tells_frames_of_its_own(static: Path) -> None:
    """Profiles leave these frames out. What several objects may have (G) is not the library's alone."""
    finished = subprocess.run(
        ["readelf", "--section-headers", "--wide", static], stdout=subprocess.PIPE, text=True, check=True
    )
    section = re.compile(r"\[ *\d+\] (\S+) +PROGBITS +\S+ \S+ (\S+) \S+ +(\S+)")
    code = {name for name, size, flags in section.findall(finished.stdout) if flags == "AX" and int(size, 16)}
    assert code == {"hakmem_text"}


def test_it_defines_what_the_shared_one_does_and_nothing_else(runner: Runner, static: Path) -> None:
    public = defined(runner.library, "--dynamic")
    assert {"malloc", "hak_malloc", *SHARED_ONLY} <= public
    assert defined(static) - COMPILERS_OWN == public - SHARED_ONLY


@pytest.mark.parametrize("kind", ["-static", "-static-pie"])
def test_a_static_program_is_sampled_from_the_first_allocation_on(
    runner: Runner, builder: Builder, static: Path, kind: str, tmp_path: Path
) -> None:
    # The compiler takes the archive before the C library's own.
    program = builder.program("c/sampled_from_the_start.c", kind, str(static), "-lstdc++", suffix=kind)
    profile = tmp_path / "heap"
    finished = runner.run(
        [program],
        env={"HAKMEM_PROF": "1", "HAKMEM_PROF_INTERVAL": "1", "HAKMEM_PROF_FILE": str(profile)},
    )
    assert finished.text == "sampled\n", finished
    assert "@ heap_v2/1\n" in profile.read_text()
