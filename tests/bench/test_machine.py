"""What the page says of the machine and the build."""

import json
from pathlib import Path

from bench import machine


def test_flags_are_those_that_the_sources_are_compiled_with(tmp_path: Path) -> None:
    commands = [
        ("cc -O3 -o parts/malloc.o", "/x/src/api/malloc.c"),
        ("cc -Dx -O2 -g -fPIC -O2 -o CMakeFiles/hakmem_shared.dir/malloc.o", "/x/src/api/malloc.c"),
        ("cc -O1 -march=native -o bench_larson.dir/larson.o", "/x/bench/workloads/larson.c"),
    ]
    document = [{"command": command, "file": file} for command, file in commands]
    (tmp_path / "compile_commands.json").write_text(json.dumps(document))
    facts = machine.describe(tmp_path)
    assert facts["its flags for most of HAKMEM"] == "-O2 -fPIC"
    assert facts["its flags for the workloads"] == "-O1 -march=native"


def test_without_a_build_there_are_no_flags(tmp_path: Path) -> None:
    assert not [name for name in machine.describe(tmp_path) if "flags" in name]
