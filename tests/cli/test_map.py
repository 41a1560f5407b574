"""`hakmem map`: how the slabs of a process are occupied."""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from .command import Command
from .live_file import Program, running, sample_statistics

SLAB, SUPERSLAB = 65536, 2097152
EACH = SUPERSLAB // SLAB
BASE = 0x7F0000000000
# index, run, state, block bytes, blocks, live blocks
RUNS = [
    [0, 1, 4, 65536, 1, 1],
    [1, 1, 2, 64, 1024, 1024],
    [2, 1, 2, 64, 1024, 1],
    [3, 2, 2, 32768, 4, 2],
    [5, 3, 3, 196608, 1, 1],
    [8, 4, 1, 0, 0, 0],
    [12, 20, 0, 0, 0, 0],
    [EACH + 1, 1, 2, 128, 512, 0],
]


def slab_map(
    runs: Sequence[Sequence[float]], each: int = SLAB, superslab: int = SUPERSLAB, region_bytes: int = 1 << 34
) -> str:
    region = {"base": f"{BASE:#x}", "bytes": region_bytes, "slabs": runs}
    return json.dumps({"slab_bytes": each, "superslab_bytes": superslab, "regions": [region]})


@pytest.fixture
def pid() -> Iterator[int]:
    with running(Program(sample_statistics(), {3: slab_map(RUNS)})) as process:
        yield process.pid


@pytest.fixture
def drawing(hakmem: Command, tmp_path: Path) -> Command:
    return Command(hakmem.arguments, {**hakmem.environment, "MPLCONFIGDIR": str(tmp_path)})


def test_text_has_a_character_for_each_slab(hakmem: Command, pid: int) -> None:
    outcome = hakmem("map", str(pid), "--text", COLUMNS="60")
    assert (outcome.status, outcome.stderr) == (0, "")
    rows = [line.split() for line in outcome.stdout.splitlines() if line.strip().startswith("0x")]
    assert rows == [
        [f"{BASE:#x}", "#█▁▄▄LLL~~~~" + 20 * "·"],
        [f"{BASE + SUPERSLAB:#x}", "·▁" + 30 * "·"],
    ]


def test_text_says_what_the_characters_mean(hakmem: Command, pid: int) -> None:
    legend = hakmem("map", str(pid), "--text").stdout.split("0x")[0]
    for expected in ("L: large block", "~: free, resident", "#: internal", "mostly not resident"):
        assert expected in legend


def test_text_and_a_file_for_the_picture(hakmem: Command, pid: int, tmp_path: Path) -> None:
    outcome = hakmem("map", str(pid), "--text", "-o", tmp_path / "map.png")
    assert outcome.status == 1
    assert outcome.error_line() == "hakmem: --text draws on standard output: leave out --output"


def test_wide_terminals_have_several_superslabs_in_a_row(hakmem: Command, pid: int) -> None:
    outcome = hakmem("map", str(pid), "--text", COLUMNS="100")
    (row,) = (line.split() for line in outcome.stdout.splitlines() if line.strip().startswith("0x"))
    assert [len(word) for word in row[1:]] == [EACH, EACH]


def test_summary_counts_slabs(hakmem: Command, pid: int) -> None:
    summary = hakmem("map", str(pid), "--text").stdout.splitlines()[-1]
    assert summary.startswith(f"process {pid} (python")
    assert "2 superslabs of 64 slabs: 5 of size classes (40.0% full, 2 under a quarter)" in summary
    assert "3 of large blocks, 1 internal, 4 free and resident (256.0 KiB), 51 free and given back" in summary


@pytest.mark.parametrize(("name", "start"), [("map.png", b"\x89PNG"), ("map.svg", b"<?xml")])
def test_picture(drawing: Command, pid: int, tmp_path: Path, name: str, start: bytes) -> None:
    outcome = drawing("map", str(pid), "-o", tmp_path / name)
    assert outcome.status == 0, outcome.stderr
    assert (tmp_path / name).read_bytes().startswith(start)
    assert outcome.stdout.endswith(f"\ndrawn: {tmp_path / name}\n")
    assert "2 superslabs" in outcome.stdout


def test_picture_has_a_legend_and_a_title(drawing: Command, pid: int, tmp_path: Path) -> None:
    (tmp_path / "matplotlibrc").write_text("svg.fonttype: none\n")
    drawing("map", str(pid), "-o", tmp_path / "map.svg")
    text = (tmp_path / "map.svg").read_text()
    for expected in (f"process {pid}", "free, given back", "free, resident", "large block", f"{BASE:#x}"):
        assert expected in text


def test_picture_of_many_superslabs(drawing: Command, tmp_path: Path) -> None:
    runs = [[index, 1, 2, 64, 1024, index % 1024] for index in range(0, 5000 * EACH, EACH)]
    with running(Program(sample_statistics(), {3: slab_map(runs)})) as process:
        outcome = drawing("map", str(process.pid), "-o", tmp_path / "map.png")
        rows = drawing("map", str(process.pid), "--text").stdout.splitlines()
    assert outcome.status == 0, outcome.stderr
    assert rows[-2].split()[0] == f"{BASE + 4996 * SUPERSLAB:#x}"  # four in a row
    assert "5,000 superslabs" in outcome.stdout


def test_a_heap_that_was_never_used(drawing: Command, tmp_path: Path) -> None:
    with running(Program(sample_statistics(), {3: slab_map([])})) as process:
        assert drawing("map", str(process.pid), "--text").status == 0
        assert drawing("map", str(process.pid), "-o", tmp_path / "map.png").status == 0


def test_no_matplotlib(hakmem: Command, pid: int, tmp_path: Path) -> None:
    (tmp_path / "matplotlib.py").write_text("raise ImportError\n")
    outcome = hakmem("map", str(pid), "-o", tmp_path / "map.png", PYTHONPATH=str(tmp_path))
    assert outcome.status == 1
    assert "needs matplotlib" in outcome.error_line()
    interpreter = Path(hakmem.arguments[0]).parent / "python"
    assert f"({interpreter}" in outcome.error_line()
    assert "-m pip install matplotlib)" in outcome.error_line()
    assert hakmem("map", str(pid), "--text", PYTHONPATH=str(tmp_path)).status == 0


@pytest.mark.parametrize(("name", "said"), [("map.xyz", "its name must end in"), ("no/map.png", "no folder")])
def test_a_picture_that_cannot_be_written(
    drawing: Command, pid: int, tmp_path: Path, name: str, said: str
) -> None:
    outcome = drawing("map", str(pid), "-o", tmp_path / name)
    assert outcome.status == 1
    assert said in outcome.error_line()


@pytest.mark.parametrize("answer", ["", "{}", "[1]", '{"slab_bytes":1,"superslab_bytes":32,"regions":[1]}'])
def test_an_answer_that_is_no_map(hakmem: Command, answer: str) -> None:
    with running(Program(sample_statistics(), {3: answer})) as process:
        outcome = hakmem("map", str(process.pid), "--text")
    assert outcome.status == 1
    assert "slab map cannot be read" in outcome.error_line()


def test_default_name(drawing: Command, pid: int, tmp_path: Path) -> None:
    inside = Command(
        [sys.executable, "-c", f"import os; os.chdir({str(tmp_path)!r}); {_RUN}"], drawing.environment
    )
    assert inside("map", str(pid)).status == 0
    assert (tmp_path / f"hakmem.{pid}.map.png").exists()


_RUN = "import hakmem.cli; hakmem.cli.main()"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[" * 100_000, "cannot be read"),
        (slab_map(RUNS, each=0), "cannot be read"),
        (slab_map(RUNS, superslab=0), "cannot be read"),
        (slab_map([[0, 1, 2, 64, 1, 10**400]]), "cannot be read"),
        (slab_map([[0, 10**12, 3, 1, 1, 1]]), "outside of its region"),
        (slab_map([[-1, 1, 3, 1, 1, 1]]), "outside of its region"),
        (slab_map([[0, 10**12, 3, 1, 1, 1]], region_bytes=10**18), "too many to draw"),
        (slab_map([[0, 1 << 12, 3, 1, 1, 1]] * (1 << 14)), "too many to draw"),
        (slab_map(RUNS, superslab=10**18), "too many to draw"),
    ],
)
def test_an_answer_that_no_library_gives(hakmem: Command, text: str, said: str) -> None:
    with running(Program(sample_statistics(), {3: text})) as process:
        outcome = hakmem("map", str(process.pid), "--text")
    assert outcome.status == 1
    assert said in outcome.error_line()


def test_more_live_blocks_than_there_are(hakmem: Command) -> None:
    runs = [[0, 1, 2, 64, 1, float("inf")], [1, 1, 2, 64, 1, float("nan")]]
    with running(Program(sample_statistics(), {3: slab_map(runs)})) as process:
        outcome = hakmem("map", str(process.pid), "--text")
    assert outcome.status == 0, outcome.stderr
    assert f"{BASE:#x}  █▁" in outcome.stdout
