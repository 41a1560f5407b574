"""The small tools of every shell script, and ways to load code that they do not use."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

from .builder import Builder
from .harness import Runner, required_program

DATA = Path(__file__).parent / "data"
TREE_FILES = 600


def make_tree(root: Path) -> None:
    for i in range(TREE_FILES):
        path = root / f"d{i % 7}" / f"e{i % 31}" / f"file with spaces {i}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(f"content {i}\n".encode() * (i % 300))


def make_lines(path: Path, count: int) -> None:
    source = random.Random(1)
    with path.open("w") as lines:
        for i in range(count):
            number = source.getrandbits(40)
            lines.write(f"{number:012d} {number % 1000} {'abcdefghij'[: number % 10]} line {i}\n")


@pytest.mark.parametrize(
    "command",
    [
        "ls -lR tree",
        "find tree -type f -size +1k -name '*7*' -exec wc -c {} + | sort",
        "find tree -type f -print0 | sort -z | xargs -0 -n 20 -P 2 openssl dgst -sha256 -r | sort",
        "find tree -type f -print0 | sort -z | xargs -0 cat | openssl dgst -sha512",
        "grep -rc 'content 1' tree | sort",
        "du -a --apparent-size tree | sort",
    ],
)
def test_tools_on_a_tree_give_the_same_output(runner: Runner, tmp_path: Path, command: str) -> None:
    make_tree(tmp_path / "tree")
    runner.same_output(["bash", "-c", f"set -o pipefail; {command}"])


@pytest.mark.parametrize(
    "command",
    [
        "sort --parallel=2 -S 8M lines | cksum",
        "sort --parallel=2 -k2,2n -k3,3 -k1,1r lines | cksum",
        "awk '{count[$2]++; text[$3] = text[$3] substr($1, 1, 3)} END "
        "{for (k in count) print k, count[k]; for (k in text) print k, length(text[k])}' lines | sort",
        "sed -E 's/([0-9]+) ([0-9]+)/\\2-\\1/; s/line/row/' lines | cksum",
        "cut -d' ' -f3 lines | sort | uniq -c",
        "split -n 4 lines part. && cat part.* | cksum && rm part.*",
    ],
)
def test_tools_on_many_lines_give_the_same_output(runner: Runner, tmp_path: Path, command: str) -> None:
    make_lines(tmp_path / "lines", 300_000)
    runner.same_output(["bash", "-c", f"set -o pipefail; {command}"])


@pytest.mark.parametrize("compressor", ["gzip -n", "xz -T2 --block-size=1MiB -2", "bzip2"])
def test_archives_are_the_same_and_unpack(runner: Runner, tmp_path: Path, compressor: str) -> None:
    make_tree(tmp_path / "tree")
    make_lines(tmp_path / "tree" / "lines", 100_000)
    tar = "tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cf - tree"
    program = compressor.split(maxsplit=1)[0]
    script = (
        f"set -eo pipefail; {tar} | {compressor} > packed; cksum < packed; "
        f"rm -rf out; mkdir out; {program} -dc packed | tar -xf - -C out; diff -r tree out/tree && echo same"
    )
    runner.same_output(["bash", "-c", script])


def test_bash_script_gives_the_same_output(runner: Runner) -> None:
    runner.same_output([required_program("bash"), DATA / "pipes.sh"])


def test_libraries_can_be_loaded_and_unloaded_from_python(runner: Runner, builder: Builder) -> None:
    plugin = builder.plugin("cpp/plugin.cpp")
    script = (
        "import _ctypes, ctypes, importlib, sys\n"
        "for i in range(300):\n"
        "    handle = _ctypes.dlopen(sys.argv[1], 0)\n"
        "    library = ctypes.CDLL(None, handle=handle)\n"
        "    assert library.plugin_self_check() == 0\n"
        "    _ctypes.dlclose(handle)\n"
        "for i in range(20):\n"
        "    for name in ('_json', '_pickle', '_decimal', '_elementtree', '_sqlite3', 'zlib', '_ssl'):\n"
        "        sys.modules.pop(name, None)\n"
        "        importlib.import_module(name)\n"
        "print('loaded')\n"
    )
    runner.same_output([sys.executable, "-c", script, plugin], env={"PYTHONMALLOC": "malloc"})


def test_static_program_ignores_the_preload(runner: Runner, builder: Builder) -> None:
    program = builder.program("c/static_program.c", "-static")
    finished = runner.run([program], proven=False)
    assert finished.stdout == runner.run_plain([program]).stdout == b"static\n"
    assert not finished.stderr, finished
