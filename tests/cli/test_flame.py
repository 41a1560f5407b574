"""`hakmem flame`: heap profiles as flame graphs."""

import math
import os
import re
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from .command import Command
from .conftest import Compile

SVG = "{http://www.w3.org/2000/svg}"
INTERVAL = 1000
# Nested calls, so that each stack has several functions.
SOURCE = """
__attribute__((noinline)) int inner(int x) { return x * 7; }
__attribute__((noinline)) int outer(int x) { return inner(x) + 1; }
int main(int count, char **words) { return outer(count) + (words == 0); }
"""
START = 0x400000000000


@dataclass(frozen=True)
class Box:
    name: str
    level: int
    width: float
    tip: str


def boxes(svg: Path) -> dict[str, Box]:
    found = {}
    for group in ET.parse(svg).iter(f"{SVG}g"):
        if group.get("class") == "frame":
            name = group.attrib["data-name"]
            tip = group.find(f"{SVG}title")
            assert tip is not None
            found[name] = Box(
                name, int(group.attrib["data-level"]), float(group.attrib["data-w"]), tip.text or ""
            )
    return found


@dataclass(frozen=True)
class Binary:
    path: Path
    addresses: dict[str, int]

    def inside(self, function: str) -> str:
        """A return address in it, where the profile says that the file is mapped."""
        return f"{START + self.addresses[function] + 4:#x}"

    def mappings(self) -> str:
        end = START + (1 << 20)
        return f"{START:x}-{end:x} r-xp 00000000 00:00 0 {self.path}\n"


@pytest.fixture
def binary(compiled: Compile) -> Binary:
    return examined(compiled(SOURCE, "-Wl,-z,noseparate-code"))


def examined(path: Path) -> Binary:
    text = subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout
    addresses = {name: int(value, 16) for value, _, name in re.findall(r"^(\w+) (\w) (\w+)$", text, re.M)}
    return Binary(path, addresses)


@pytest.fixture
def profile(tmp_path: Path) -> Callable[..., Path]:
    def write(*lines: str, mappings: str = "", end: str = "\nMAPPED_LIBRARIES:\n") -> Path:
        path = tmp_path / "a.heap"
        path.write_text("\n".join(lines) + "\n" + end + mappings)
        return path

    return write


def ours(binary: Binary) -> list[str]:
    """As HAKMEM writes it: 10 live blocks of 3000 bytes below inner, one of 10,000 in outer."""
    inner, outer, main = map(binary.inside, ("inner", "outer", "main"))
    return [
        f"heap profile: 11: 40000 [12: 50000] @ heap_v2/{INTERVAL}",
        f"    10:  30000 [   10:  30000] @ {inner} {outer} {main}",
        f"     1:  10000 [    2:  20000] @ {outer} {main}",
    ]


def unsampled(blocks: int, size: int) -> float:
    """What so many bytes in so many sampled blocks stand for."""
    return size / (1 - math.exp(-size / blocks / INTERVAL))


def test_functions_by_name_with_their_part_of_the_whole(
    hakmem: Command, profile: Callable[..., Path], binary: Binary, tmp_path: Path
) -> None:
    outcome = hakmem("flame", profile(*ours(binary), mappings=binary.mappings()))
    assert (outcome.status, outcome.stderr) == (0, "")
    assert outcome.stdout == f"drawn: {tmp_path / 'a.heap.svg'}\n"
    found = boxes(tmp_path / "a.heap.svg")
    assert {name: box.level for name, box in found.items()} == {"all": 0, "main": 1, "outer": 2, "inner": 3}
    inner, all_of_it = unsampled(10, 30000), unsampled(10, 30000) + unsampled(1, 10000)
    assert found["outer"].width == pytest.approx(1, abs=1e-6)
    assert found["inner"].width == pytest.approx(inner / all_of_it, abs=1e-6)
    assert found["inner"].tip == f"inner in program\n{inner / 1024:.1f} KiB, {inner / all_of_it:.1%}"


@pytest.mark.parametrize("odd", ["\x0b", "\x0c", "\x1c", "\x85", "\u2028"])
def test_a_path_may_hold_what_ends_lines_elsewhere(
    hakmem: Command, profile: Callable[..., Path], binary: Binary, tmp_path: Path, odd: str
) -> None:
    place = tmp_path / f"odd{odd}folder" / binary.path.name
    place.parent.mkdir()
    place.write_bytes(binary.path.read_bytes())
    mappings = binary.mappings().replace(str(binary.path), str(place))
    assert hakmem("flame", profile(*ours(binary), mappings=mappings)).status == 0
    assert "inner" in boxes(tmp_path / "a.heap.svg")


@pytest.mark.parametrize(
    ("flag", "part"),
    [
        ("--live", unsampled(10, 30000) / (unsampled(10, 30000) + unsampled(1, 10000))),
        ("--allocated", unsampled(10, 30000) / (unsampled(10, 30000) + unsampled(2, 20000))),
        (
            "--blocks",
            unsampled(10, 30000) / 3000 / (unsampled(10, 30000) / 3000 + unsampled(1, 10000) / 10000),
        ),
    ],
)
def test_what_a_picture_is_of(
    hakmem: Command,
    profile: Callable[..., Path],
    binary: Binary,
    flag: str,
    part: float,
) -> None:
    path = profile(*ours(binary))
    picture = path.with_name("out.svg")
    assert hakmem("flame", flag, "-o", picture, path).status == 0
    deepest = max(boxes(picture).values(), key=lambda box: box.level)
    assert deepest.width == pytest.approx(part, abs=1e-6)


def test_jemallocs_form(
    hakmem: Command, profile: Callable[..., Path], binary: Binary, tmp_path: Path
) -> None:
    inner, outer = map(binary.inside, ("inner", "outer"))
    lines = [
        *(f"heap_v2/{INTERVAL}", "  t*: 11: 40000 [0: 0]", "  t0: 11: 40000 [0: 0]"),
        *(f"@ {inner} {outer}", "  t*: 10: 30000 [0: 0]", "  t0: 4: 12000 [0: 0]", "  t1: 6: 18000 [0: 0]"),
        *(f"@ {outer}", "  t*: 1: 10000 [0: 0]", "  t0: 1: 10000 [0: 0]"),
    ]
    hakmem("flame", profile(*lines, mappings=binary.mappings()))
    found = boxes(tmp_path / "a.heap.svg")
    part = unsampled(10, 30000) / (unsampled(10, 30000) + unsampled(1, 10000))
    assert found["inner"].width == pytest.approx(part, abs=1e-6)


def test_gperftools_exact_form(
    hakmem: Command, profile: Callable[..., Path], binary: Binary, tmp_path: Path
) -> None:
    inner, outer = map(binary.inside, ("inner", "outer"))
    lines = [
        "heap profile:      2:       40 [     2:       40] @ heapprofile",
        f"     1:       10 [     1:       10] @ {inner} {outer}",
        f"     1:       30 [     1:       30] @ {outer}",
    ]
    hakmem("flame", profile(*lines, mappings=binary.mappings()))
    found = boxes(tmp_path / "a.heap.svg")
    assert found["inner"].width == 0.25
    assert found["all"].tip == "all\n40 B, 100.0%"


def test_names_of_cpp_are_as_in_the_source(
    hakmem: Command, profile: Callable[..., Path], compiled: Compile, tmp_path: Path
) -> None:
    source = (
        'int f(void) __asm__("_ZN3app5Cache3addEi"); int f(void) { return 5; } int main(void) { return f(); }'
    )
    path = compiled(source, "-Wl,-z,noseparate-code")
    found = examined(path)
    address = f"{START + found.addresses['_ZN3app5Cache3addEi'] + 4:#x}"
    lines = ["heap profile: 1: 8 [1: 8] @ heapprofile", f"1: 8 [1: 8] @ {address}"]
    hakmem("flame", profile(*lines, mappings=found.mappings()))
    assert "app::Cache::add(int)" in boxes(tmp_path / "a.heap.svg")


def test_stripped_files_still_name_what_they_export(
    hakmem: Command, profile: Callable[..., Path], compiled: Compile, tmp_path: Path
) -> None:
    path = compiled(
        "int exported(int x) { return x + 1; }", "-shared", "-fPIC", "-Wl,-z,noseparate-code", name="lib.so"
    )
    found = examined(path)
    subprocess.run(["strip", path], check=True)
    lines = [
        "heap profile: 2: 16 [2: 16] @ heapprofile",
        f"1: 8 [1: 8] @ {found.inside('exported')}",
        f"1: 8 [1: 8] @ {found.inside('_init')}",
    ]
    hakmem("flame", profile(*lines, mappings=found.mappings()))
    names = boxes(tmp_path / "a.heap.svg").keys()
    assert "exported" in names
    assert any(name.startswith("lib.so+0x") for name in names)


def test_debug_files_beside_name_what_a_stripped_file_does_not(
    hakmem: Command, profile: Callable[..., Path], compiled: Compile, tmp_path: Path
) -> None:
    path = compiled(SOURCE, "-Wl,-z,noseparate-code", "-Wl,--build-id=0xabcdef")
    found = examined(path)
    beside = tmp_path / "root/usr/lib/debug/.build-id/ab/cdef.debug"
    beside.parent.mkdir(parents=True)
    subprocess.run(["objcopy", "--only-keep-debug", path, beside], check=True)
    subprocess.run(["strip", path], check=True)
    within = tmp_path / "root/bin/program"
    within.parent.mkdir()
    path.rename(within)
    lines = ["heap profile: 1: 8 [1: 8] @ heapprofile", f"1: 8 [1: 8] @ {found.inside('inner')}"]
    mappings = found.mappings().replace(str(path), "/bin/program")
    hakmem("flame", profile(*lines, mappings=mappings), "--root", tmp_path / "root")
    assert "inner" in boxes(tmp_path / "a.heap.svg")


def test_addresses_without_a_file(
    hakmem: Command, profile: Callable[..., Path], binary: Binary, tmp_path: Path
) -> None:
    gone = tmp_path / "gone"
    mappings = (
        binary.mappings().replace(str(binary.path), f"{gone} (deleted)")
        + "500000000000-500000100000 r-xp 00000000 00:00 0 \n"
        + "600000000000-600000100000 r-xp 00000000 00:00 0 [vdso]\n"
    )
    stacks = (binary.inside("inner"), "0x500000000010", "0x600000000010", "0x700000000010")
    lines = [
        "heap profile: 4: 32 [4: 32] @ heapprofile",
        *(f"1: 8 [1: 8] @ {stack}" for stack in stacks),
    ]
    assert hakmem("flame", profile(*lines, mappings=mappings)).status == 0
    found = boxes(tmp_path / "a.heap.svg")
    assert any(name.startswith("gone+0x") for name in found)
    assert "in [vdso]" in found["0x60000000000f"].tip
    assert {"0x50000000000f", "0x70000000000f"} <= found.keys()


def test_the_picture_needs_nothing_else(
    hakmem: Command, profile: Callable[..., Path], binary: Binary, tmp_path: Path
) -> None:
    hakmem("flame", profile(*ours(binary), mappings=binary.mappings()))
    text = (tmp_path / "a.heap.svg").read_text()
    assert re.findall(r'(?:href|src)="', text) == []
    assert set(re.findall(r"https?://[^\s\"']+", text)) == {"http://www.w3.org/2000/svg"}
    script = ET.fromstring(text).find(f"{SVG}script")
    assert script is not None
    assert "addEventListener" in (script.text or "")


def test_deep_stacks(hakmem: Command, profile: Callable[..., Path], tmp_path: Path) -> None:
    stack = " ".join(f"{0x10000 + 16 * depth:#x}" for depth in range(5000))
    lines = ["heap profile: 1: 8 [1: 8] @ heapprofile", f"1: 8 [1: 8] @ {stack}"]
    assert hakmem("flame", profile(*lines)).status == 0
    assert max(box.level for box in boxes(tmp_path / "a.heap.svg").values()) == 5000


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is not a heap profile"),
        ("hello\n", "is not a heap profile"),
        ("\x7fELF\x00\x01", "is not a heap profile"),
        ("heap profile: 1: 8 [1: 8] @ heapprofile\n1: 8 [1: 8] @ 0x1", "is cut off after line 2"),
        ("heap profile: 1: 8 [1: 8] @ heapprofile\n1: 8 [1: 8", "line 2 is no record of a heap profile"),
        ("heap_v2/512x\n@ 0x1 0x2\n", "is not a heap profile"),
        ('{"total_pinned_bytes":1,"sites":[]}', "is a fragmentation profile, which is no graph"),
        ("heap_v2/512\n@ 0x1 0x2\n", "is cut off after line 2"),
        ("heap_v2/512\n@ 0x1 0x2\n  t*: 1: x", "line 3 is no record of a heap profile"),
        ("heap profile: 1: 8 [1: 8] @ growthz\n\nMAPPED_LIBRARIES:\n", "is a profile of kind 'growthz'"),
        (
            "heap profile: 0: 0 [1: 8] @ heapprofile\n0: 0 [1: 8] @ 0x1\n\nMAPPED_LIBRARIES:\n",
            "no live bytes",
        ),
        (
            "heap profile: 1: 8 [1: 8] @ heapprofile\n1: 8 [1: 8] @\n\nMAPPED_LIBRARIES:\n",
            "no call stacks: nothing to draw; a program that is linked with -static has some with "
            "-Wl,--eh-frame-hdr",
        ),
    ],
)
def test_what_is_no_whole_profile(hakmem: Command, tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "bad.heap"
    path.write_text(text)
    outcome = hakmem("flame", path)
    assert outcome.status == 1
    assert outcome.error_line().startswith(f"hakmem: '{path}' ")
    assert said in outcome.error_line()
    assert not (tmp_path / "bad.heap.svg").exists()


def test_a_compressed_profile_and_a_file_that_is_not_there(hakmem: Command, tmp_path: Path) -> None:
    path = tmp_path / "heap.pb.gz"
    path.write_bytes(b"\x1f\x8b\x08\x00")
    assert "go tool pprof" in hakmem("flame", path).error_line()
    outcome = hakmem("flame", tmp_path / "none")
    assert outcome.status == 1
    assert f"cannot read '{tmp_path / 'none'}': No such file" in outcome.error_line()
    for folder in (str(tmp_path), "."):
        assert f"cannot read '{folder}': it is a folder" in hakmem("flame", folder).error_line()


def test_no_picture_goes_where_a_link_of_another_user_leads(
    hakmem: Command, profile: Callable[..., Path], foreign_link: Path
) -> None:
    outcome = hakmem("flame", profile("heap_v2/0", "  1: 10 [1: 10] @ 0x1"), "-o", foreign_link)
    refused = os.geteuid() == 0
    assert outcome.status == int(refused)
    assert (foreign_link.read_text() == "kept") == refused
    assert ("the link is another user's" in outcome.stderr) == refused


@pytest.mark.parametrize("link", [False, True])
def test_the_picture_never_takes_the_place_of_the_profile(
    hakmem: Command, profile: Callable[..., Path], tmp_path: Path, link: bool
) -> None:
    path = profile("heap_v2/0", "  1: 10 [1: 10] @ 0x1")
    before = path.read_text()
    output = tmp_path / "picture.svg" if link else path
    if link:
        output.symlink_to(path)
    outcome = hakmem("flame", path, "-o", output)
    assert outcome.status == 1
    assert "--output another name" in outcome.error_line()
    assert path.read_text() == before


@pytest.mark.parametrize(
    "lines",
    [
        ("heap_v2/" + "9" * 5000, "  1: 10 [1: 10] @ 0x1"),
        ("heap_v2/524288", f"  {'9' * 400}: {'9' * 400} [1: 10] @ 0x1"),
        ("heap_v2/" + "9" * 400, "  1: 10 [1: 10] @ 0x1"),
    ],
)
def test_numbers_that_nobody_counted(
    hakmem: Command, profile: Callable[..., Path], lines: tuple[str, ...]
) -> None:
    path = profile(*lines)
    outcome = hakmem("flame", path)
    assert outcome.status == 1
    assert outcome.error_line().startswith(f"hakmem: '{path}' is ")


def test_a_mapping_that_is_a_pipe_is_not_waited_for(
    hakmem: Command, profile: Callable[..., Path], tmp_path: Path
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    path = profile(
        "heap_v2/0", "  1: 10 [1: 10] @ 0x1001", mappings=f"1000-2000 r-xp 00000000 00:00 0 {pipe}\n"
    )
    done = subprocess.run([*hakmem.arguments, "flame", path], env=hakmem.environment, check=False, timeout=60)
    assert done.returncode == 0


@pytest.mark.parametrize("flags", [("--live", "--allocated"), ("--bytes", "--blocks")])
def test_contrary_weights_are_refused(
    hakmem: Command, profile: Callable[..., Path], flags: tuple[str, str]
) -> None:
    file = profile("heap profile: 1: 8 [2: 16] @ heapprofile", "1: 8 [2: 16] @ 0x10")
    for order in (flags, flags[::-1]):
        outcome = hakmem("flame", file, *order)
        assert outcome.status == 1
        assert outcome.error_line() == f"hakmem: {flags[0]} and {flags[1]} are contrary: choose one"
    assert not file.with_name("a.heap.svg").exists()


def test_in_a_locale_without_letters(hakmem: Command, profile: Callable[..., Path], binary: Binary) -> None:
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    outcome = hakmem("flame", profile(*ours(binary), mappings=binary.mappings()), **plain)
    assert (outcome.status, outcome.stderr) == (0, "")
