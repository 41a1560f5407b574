"""`hakmem profile` and `hakmem symbols`: who holds memory, as sampled."""

import json
import os
import stat
import struct
import subprocess
from pathlib import Path

import pytest

from .command import Command
from .conftest import Compile
from .live_file import Program, running, sample_statistics
from .test_flame import SOURCE, Binary, examined

STATISTICS = sample_statistics()
HEAD = "heap profile: 3: 9000 [4: 10000] @ heapprofile\n"
END = "\nMAPPED_LIBRARIES:\n"


@pytest.fixture
def binary(compiled: Compile) -> Binary:
    return examined(compiled(SOURCE, "-Wl,-z,noseparate-code"))


def heap(binary: Binary) -> str:
    inner, outer, main = map(binary.inside, ("inner", "outer", "main"))
    return (
        f"{HEAD}1: 1000 [1: 1000] @ {outer} {main}\n2: 8000 [3: 9000] @ {inner} {outer} {main}\n"
        f"{END}{binary.mappings()}"
    )


def requests(log: Path) -> list[str]:
    return log.read_text().splitlines()


def test_writes_what_the_library_gives(hakmem: Command, binary: Binary, tmp_path: Path) -> None:
    file = tmp_path / "out.heap"
    with running(Program(STATISTICS, {1: heap(binary)}, interval=1 << 20)) as process:
        outcome = hakmem("profile", str(process.pid), "-o", file)
        assert not list(Path("/dev/shm").glob(f"hakmem-*-{process.pid}.*"))
    assert (outcome.status, outcome.stderr) == (0, "")
    assert file.read_text() == heap(binary)
    assert outcome.stdout == (
        f"{file}: 8.8 KiB live of 9.8 KiB allocated while it sampled, in 2 call stacks; "
        f"'hakmem flame {file}' draws it\n"
    )


def test_a_process_that_samples_no_more_is_told_apart(
    hakmem: Command, binary: Binary, tmp_path: Path
) -> None:
    with running(Program(STATISTICS, {1: heap(binary)})) as process:
        outcome = hakmem("profile", str(process.pid), "-o", tmp_path / "out.heap")
    assert outcome.status == 0
    assert outcome.stdout.splitlines()[1].startswith("It does not sample now")


def test_standard_output_gets_the_profile_alone(hakmem: Command, binary: Binary) -> None:
    with running(Program(STATISTICS, {1: heap(binary)})) as process:
        outcome = hakmem("profile", str(process.pid), "-o", "-")
    assert outcome.stdout == heap(binary)


def test_default_name_is_of_the_process_and_new(hakmem: Command, binary: Binary, tmp_path: Path) -> None:
    with running(Program(STATISTICS, {1: heap(binary)})) as process:
        earlier = tmp_path / f"hakmem.{process.pid}.heap"
        earlier.write_text("an earlier one")
        for _ in range(2):
            subprocess.run(
                [*hakmem.arguments, "profile", str(process.pid)],
                cwd=tmp_path,
                env=hakmem.environment,
                check=True,
            )
    assert earlier.read_text() == "an earlier one"
    for number in (2, 3):
        assert (tmp_path / f"hakmem.{process.pid}.{number}.heap").read_text() == heap(binary)


def test_top_names_the_heaviest_stacks(hakmem: Command, binary: Binary, tmp_path: Path) -> None:
    with running(Program(STATISTICS, {1: heap(binary)})) as process:
        outcome = hakmem("profile", str(process.pid), "-o", tmp_path / "heap", "--top", "1")
    lines = [line.strip() for line in outcome.stdout.splitlines()]
    assert lines[:5] == [
        "7.8 KiB   88.9%  2 blocks",
        "inner (program)",
        "outer (program)",
        "main (program)",
        "1000 B   11.1%  in 1 more stacks",
    ]


def test_fragmentation_is_ranked_with_names(hakmem: Command, binary: Binary, tmp_path: Path) -> None:
    inner, outer = map(binary.inside, ("inner", "outer"))
    document = {
        "total_pinned_bytes": 4 << 20,
        "total_resident_bytes": 1 << 20,
        "sites": [
            {"pinned_bytes": 1 << 20, "live_bytes": 10, "live_blocks": 1, "frames": [outer]},
            {"pinned_bytes": 3 << 20, "live_bytes": 4096, "live_blocks": 64, "frames": [inner, outer]},
        ],
        "mappings": binary.mappings().splitlines(),
    }
    file = tmp_path / "out.json"
    with running(Program(STATISTICS, {2: json.dumps(document)})) as process:
        outcome = hakmem("profile", str(process.pid), "--kind", "fragmentation", "-o", file)
    lines = [line.strip() for line in outcome.stdout.splitlines()]
    assert (
        lines[0]
        == "4.0 MiB kept from being returned, of it 1.0 MiB resident, by who allocated what keeps them"
    )
    assert lines[-1].startswith("estimated from 0 samples: too few")
    assert lines[1:4] == [
        "3.0 MiB   75.0%  pinned by 4.0 KiB in 64 blocks",
        "inner (program)",
        "outer (program)",
    ]
    assert json.loads(file.read_text()) == document


def test_call_sites(hakmem: Command) -> None:
    site = {"site": "0x10", "place": "cache.c:12", "live_bytes": 2048, "live_blocks": 3, "peak_bytes": 4096}
    site |= {"blocks_per_second": 7, "mean_lifetime_ms": 1500}
    with running(Program(STATISTICS, {4: json.dumps({"schema": 1, "sites": [site]})})) as process:
        outcome = hakmem("profile", str(process.pid), "--kind", "sites")
    assert [line.strip() for line in outcome.stdout.splitlines()] == [
        "2.0 KiB in 3 blocks  cache.c:12",
        "peak 4.0 KiB, 7.0 blocks/s, each living 1.5 s on average",
    ]


def test_nothing_sampled_or_no_sites(hakmem: Command, tmp_path: Path) -> None:
    answers = {1: f"{HEAD}{END}", 2: '{"sites": []}', 4: '{"sites": []}'}
    with running(Program(STATISTICS, answers)) as process:
        outcome = hakmem("profile", str(process.pid), "-o", tmp_path / "heap")
        assert outcome.status == 1
        assert "has sampled nothing" in outcome.error_line()
        assert "--seconds" in outcome.error_line()
        assert not (tmp_path / "heap").exists()
        assert "nothing was sampled" in hakmem("profile", str(process.pid), "--kind", "fragmentation").stdout
        assert "hak_alloc_at" in hakmem("profile", str(process.pid), "--kind", "sites").stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--start", "--seconds", "1"], "--start only switches sampling"),
        (["--stop", "--top", "1"], "--stop only switches sampling"),
        (["--start", "--stop"], "--start and --stop are contrary: choose one"),
        (["--stop", "--start", "--seconds", "1"], "--start and --stop are contrary: choose one"),
        (["--interval", "64K"], "--interval goes with --start or --seconds"),
        (["--start", "--interval", "much"], "'much' is not a size"),
        (["--start", "--interval", "0"], "'0' is not a size"),
        (["--start", "--interval", "9" * 5000], "is too large"),
        (["--start", "--interval", "1025G"], "'1025G' is too large: the most is 1024G"),
        (["-o", "/no/such/folder/heap"], "cannot write '/no/such/folder/heap'"),
    ],
)
def test_arguments_that_make_no_sense(
    hakmem: Command, binary: Binary, arguments: list[str], said: str
) -> None:
    with running(Program(STATISTICS, {1: heap(binary)})) as process:
        outcome = hakmem("profile", str(process.pid), *arguments)
    assert outcome.status == 1
    assert said in outcome.error_line()


@pytest.mark.parametrize(
    ("kind", "answer"),
    [("heap", "no profile"), ("fragmentation", "{"), ("sites", "[]"), ("sites", "[" * 100_000)],
)
def test_an_answer_that_is_no_profile(hakmem: Command, kind: str, answer: str, tmp_path: Path) -> None:
    with running(Program(STATISTICS, {1: answer, 2: answer, 4: answer})) as process:
        outcome = hakmem("profile", str(process.pid), "--kind", kind, "-o", tmp_path / "out")
    assert outcome.status == 1
    assert "answer of the process" in outcome.error_line()


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        ("fragmentation", '{"sites": [], "mappings": [5]}'),
        ("fragmentation", '{"sites": [5]}'),
        ("sites", '{"sites": [5]}'),
        ("sites", '{"sites": [{"live_bytes": "x"}]}'),
        ("sites", '{"sites": [{"live_bytes": 1' + "0" * 4000 + "}]}"),
        ("fragmentation", '{"sites": [{"samples": 1' + "0" * 400 + ', "pinned_bytes": 1}]}'),
    ],
)
def test_an_answer_that_holds_what_no_library_writes(hakmem: Command, kind: str, answer: str) -> None:
    with running(Program(STATISTICS, {2: answer, 4: answer})) as process:
        outcome = hakmem("profile", str(process.pid), "--kind", kind)
    assert outcome.status == 1
    assert "answer of the process is not as expected" in outcome.error_line()


def test_an_answer_that_is_longer_than_any(hakmem: Command, tmp_path: Path) -> None:
    with running(Program(STATISTICS, {1: "heap_v2/1"}, answer_bytes=(1 << 30) + 1)) as process:
        outcome = hakmem("profile", str(process.pid), "-o", tmp_path / "out")
    assert outcome.status == 1
    assert "too long to be the library's" in outcome.error_line()


def test_no_profile_goes_where_a_link_of_another_user_leads(
    hakmem: Command, binary: Binary, tmp_path: Path
) -> None:
    kept, link = tmp_path / "kept", tmp_path / "link"
    kept.write_text("kept")
    link.symlink_to(kept)
    if os.geteuid() == 0:
        os.chown(link, 65534, 65534, follow_symlinks=False)
    refused = os.geteuid() == 0  # others can make no link but their own, which is followed
    with running(Program(STATISTICS, {1: heap(binary)})) as process:
        outcome = hakmem("profile", str(process.pid), "-o", link)
    assert outcome.status == int(refused)
    assert (kept.read_text() == "kept") == refused
    if refused:
        assert "the link is another user's" in outcome.error_line()


def test_symbols_name_the_functions_of_a_leak_report(hakmem: Command, binary: Binary) -> None:
    line = f"    0x7f12345  {binary.path}+{binary.addresses['inner'] + 3:#x}"
    text = (
        f"hakmem: in use and sampled: 1 KiB\n\n1. about 1 KiB\n{line}\n    0x1  /no/such/file+0x12\n    0x2\n"
    )
    outcome = hakmem("symbols", stdin=text)
    assert outcome.status == 0
    assert outcome.stdout == text.replace(line, f"{line}  inner")


def test_symbols_of_a_file_that_is_not_there(hakmem: Command, tmp_path: Path) -> None:
    outcome = hakmem("symbols", tmp_path / "none")
    assert outcome.status != 0
    assert str(tmp_path / "none") in outcome.stderr


def test_a_profile_that_cannot_be_written_is_refused_before_it_is_sampled(
    hakmem: Command, binary: Binary, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    log.touch()
    with running(Program(STATISTICS, {1: heap(binary)}, log=str(log))) as process:
        # Nobody, root included, can make a file in a folder of the kernel's.
        outcome = hakmem("profile", str(process.pid), "--seconds", "0.1", "-o", "/proc/self/hakmem.heap")
    assert outcome.status == 1
    assert "cannot write '/proc/self/hakmem.heap'" in outcome.error_line()
    assert requests(log) == []


def test_fragmentation_of_a_program_whose_name_is_no_text(hakmem: Command) -> None:
    document = {"total_pinned_bytes": 0, "sites": [], "mappings": ["1-2 r-xp 0 0:0 0 /NAME"]}
    answer = json.dumps(document).replace("NAME", "\udcff")
    with running(Program(STATISTICS, {2: answer})) as process:
        outcome = hakmem("profile", str(process.pid), "--kind", "fragmentation")
    assert (outcome.status, outcome.stderr) == (0, "")
    assert outcome.stdout.startswith("unknown: nothing was sampled")


def test_symbols_of_a_damaged_report_are_left_out(hakmem: Command) -> None:
    report = "a /no/\0/name+0x4\n"
    outcome = hakmem("symbols", stdin=report)
    assert (outcome.status, outcome.stdout, outcome.stderr) == (0, report, "")


@pytest.fixture
def elsewhere(compiled: Compile, tmp_path: Path) -> Binary:
    """In a folder whose name is no text."""
    folder = tmp_path / os.fsdecode(b"see\xe9")
    folder.mkdir()
    made = compiled(SOURCE, "-Wl,-z,noseparate-code")
    return examined(made.rename(folder / made.name))


def test_functions_of_a_file_whose_name_is_no_text(
    hakmem: Command, elsewhere: Binary, tmp_path: Path
) -> None:
    with running(Program(STATISTICS, {1: heap(elsewhere)})) as process:
        outcome = hakmem("profile", str(process.pid), "-o", tmp_path / "heap", "--top", "1")
    assert (outcome.status, outcome.stderr) == (0, "")
    assert "inner (program)" in outcome.stdout


def test_symbols_of_a_file_whose_name_is_no_text(hakmem: Command, elsewhere: Binary, tmp_path: Path) -> None:
    report = tmp_path / "report"
    line = os.fsencode(elsewhere.path) + b"+%#x" % (elsewhere.addresses["inner"] + 3)
    report.write_bytes(b"    0x7f12345  " + line + b"\n")
    done = subprocess.run(
        [*hakmem.arguments, "symbols", report],
        env={**hakmem.environment, "PYTHONUTF8": "1"},
        stdout=subprocess.PIPE,
        check=True,
    )
    assert done.stdout == b"    0x7f12345  " + line + b"  inner\n"


@pytest.mark.parametrize("escaped", [True, False])
def test_fragmentation_names_functions_of_a_file_whose_name_is_no_text(
    hakmem: Command, elsewhere: Binary, escaped: bool
) -> None:
    site = {"pinned_bytes": 3, "live_bytes": 4, "live_blocks": 1, "frames": [elsewhere.inside("inner")]}
    mappings = os.fsencode(elsewhere.mappings()).decode("latin-1").splitlines()
    answer = json.dumps({"total_pinned_bytes": 3, "sites": [site], "mappings": mappings})
    if not escaped:
        answer = answer.replace("\\u00e9", "\udce9")
    with running(Program(STATISTICS, {2: answer})) as process:
        outcome = hakmem("profile", str(process.pid), "--kind", "fragmentation")
    assert (outcome.status, outcome.stderr) == (0, "")
    assert "inner (program)" in outcome.stdout


def test_a_module_has_no_say_over_the_terminal(hakmem: Command, compiled: Compile, tmp_path: Path) -> None:
    made = examined(compiled(SOURCE, "-Wl,-z,noseparate-code", name="see\x1b[31m\x9bred"))
    with running(Program(STATISTICS, {1: heap(made)})) as process:
        outcome = hakmem("profile", str(process.pid), "-o", tmp_path / "heap", "--top", "1")
    assert outcome.status == 0
    assert "inner (see\ufffd[31m\ufffdred)" in outcome.stdout


# Where the segments are, where each section is, and how much there is in it.
@pytest.mark.parametrize(("field", "value"), [("segments", 1 << 63), ("offset", 1 << 63), ("size", 24 << 41)])
def test_a_damaged_file_costs_its_names_only(
    hakmem: Command, binary: Binary, tmp_path: Path, field: str, value: int
) -> None:
    content = bytearray(binary.path.read_bytes())
    (sections,) = struct.unpack_from("<Q", content, 0x28)
    if field == "segments":
        struct.pack_into("<Q", content, 0x20, value)
    else:
        for header in range(sections, len(content) - 63, 64):
            struct.pack_into("<Q", content, header + {"offset": 24, "size": 32}[field], value)
    answer = heap(binary)
    binary.path.write_bytes(content)
    with running(Program(STATISTICS, {1: answer})) as process:
        outcome = hakmem("profile", str(process.pid), "-o", tmp_path / "heap", "--top", "1")
    assert (outcome.status, outcome.stderr) == (0, "")
    assert f"program+{binary.addresses['inner'] + 3:#x} (program)" in outcome.stdout


@pytest.mark.parametrize("there", [True, False])
def test_a_profile_is_for_its_user_only(hakmem: Command, binary: Binary, tmp_path: Path, there: bool) -> None:
    """It tells where the program's code and memory lie, as the kernel does only to them."""
    file = tmp_path / "heap"
    if there:
        file.touch(0o644)
    with running(Program(STATISTICS, {1: heap(binary)})) as process:
        assert hakmem("profile", str(process.pid), "-o", file).status == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
