"""Names the functions that addresses of a process are in, from the ELF files that it had mapped."""

import bisect
import io
import lzma
import re
import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import NoteSection

from hakmem.inside.names import printable

_MAPPING = re.compile(
    r"(?P<start>[0-9a-f]+)-(?P<end>[0-9a-f]+) ..x. (?P<offset>[0-9a-f]+) \S+ \d+ *(?P<path>.*)"
)
_DELETED = " (deleted)"
_DEBUG_FILES = Path("usr/lib/debug/.build-id")
_SYMBOL = struct.Struct("<IBBHQQ")  # name, info, other, section, value, size
_FUNCTION_TYPES = (2, 10)  # STT_FUNC, STT_GNU_IFUNC
# Reading a damaged file may raise nearly anything: it asks for places and memory that nobody has.
_UNREADABLE = Exception

_Read = TypeVar("_Read")


@dataclass(frozen=True, order=True)
class Frame:
    function: str
    module: str = ""  # the file's name

    def __str__(self) -> str:
        return f"{self.function} ({self.module})" if self.module else self.function


@dataclass(frozen=True)
class Mapping:
    start: int
    end: int
    offset: int  # in the file
    path: str


def parse_mappings(lines: Iterable[str]) -> list[Mapping]:
    """Of lines as in /proc/PID/maps, those of code, by address."""
    found = []
    for line in lines:
        if match := _MAPPING.match(line.strip()):
            start, end, offset = (int(match[name], 16) for name in ("start", "end", "offset"))
            found.append(Mapping(start, end, offset, match["path"]))
    return sorted(found, key=lambda mapping: mapping.start)


class Symbolizer:
    """`root` is where the files are looked for: a container's own root, for a process in one."""

    def __init__(self, mappings: Iterable[Mapping], root: Path = Path("/")) -> None:
        self._modules: dict[str, _Module] = {}
        self.renew(mappings, root)

    def renew(self, mappings: Iterable[Mapping], root: Path) -> None:
        """For a process that may have mapped other files since; what it still has is not read again."""
        self._mappings = list(mappings)
        self._starts = [mapping.start for mapping in self._mappings]
        self._root = root
        self._known: dict[int, Frame] = {}
        paths = {mapping.path for mapping in self._mappings}
        kept = {path: module for path, module in self._modules.items() if path in paths}
        self._modules = {path: module for path, module in kept.items() if module.is_of(self._file(path))}

    def frame(self, return_address: int) -> Frame:
        """The function that called and will be returned to."""
        frame = self._known.get(return_address)
        if frame is None:
            # A call may be a function's last instruction: then the next one is another function's.
            frame = self._known[return_address] = self._look_up(return_address - 1)
        return frame

    def _look_up(self, address: int) -> Frame:
        index = bisect.bisect_right(self._starts, address) - 1
        if index < 0 or address >= self._mappings[index].end:
            return Frame(f"{address:#x}")
        mapping = self._mappings[index]
        name = printable(Path(mapping.path.removesuffix(_DELETED)).name)
        if not mapping.path.startswith("/"):
            # Code that a program made at run time, or the kernel's own.
            return Frame(f"{address:#x}", name or "[anonymous]")
        module = self._module(mapping.path)
        place = module.place_of(address - mapping.start + mapping.offset)
        function = None if place is None else module.function_at(place)
        if function:
            return Frame(printable(demangled(function)), name)
        shown = address - mapping.start + mapping.offset if place is None else place
        return Frame(f"{name}+{shown:#x}", name)

    def function_in(self, path: str, address: int) -> str | None:
        """The function at an address as the file counts it, if it is known."""
        function = self._module(path).function_at(address)
        return printable(demangled(function)) if function else None

    def _module(self, path: str) -> "_Module":
        if path not in self._modules:
            self._modules[path] = _Module(self._file(path), self._root)
        return self._modules[path]

    def _file(self, path: str) -> Path | None:
        # What was deleted may have been replaced by another version, whose names would be wrong.
        return None if path.endswith(_DELETED) else self._root / path.lstrip("/")


class _Module:
    """An ELF file; one that cannot be read knows nothing."""

    def __init__(self, path: Path | None, root: Path) -> None:
        self._path = path
        self._root = root
        self._state = _state_of(path)

    def is_of(self, path: Path | None) -> bool:
        """Whether it is that file, as it is now."""
        return path == self._path and _state_of(path) == self._state

    def place_of(self, offset: int) -> int | None:
        """The address, as the file counts, of what stands at this offset of the file."""
        for start, end, address in self._segments:
            if start <= offset < end:
                return offset - start + address
        return None

    def function_at(self, address: int) -> str | None:
        table = self._table
        index = bisect.bisect_right(table.starts, address) - 1
        if index < 0:
            return None
        start, size, name = table.entries[index]
        return table.name(name) if address < start + size else None

    @cached_property
    def _segments(self) -> list[tuple[int, int, int]]:
        return self._from_file(lambda elf: list(_code_segments(elf)), [])

    @cached_property
    def _table(self) -> "_Table":
        return self._from_file(self._best_table, _Table([], b""))

    def _best_table(self, elf: ELFFile) -> "_Table":
        """Of all functions if the file has it or it is installed beside; else of those that it exports."""
        if table := _table_of(elf, ".symtab"):
            return table
        if debug_file := self._debug_file(elf):
            with suppress(_UNREADABLE), debug_file.open("rb") as file:
                if table := _table_of(ELFFile(file), ".symtab"):
                    return table
        exported = _table_of(elf, ".dynsym") or _Table([], b"")
        if section := elf.get_section_by_name(".gnu_debugdata"):
            with suppress(_UNREADABLE):
                # Holds what is not exported only.
                small = _table_of(ELFFile(io.BytesIO(lzma.decompress(section.data()))), ".symtab")
                return exported.joined_with(small) if small else exported
        return exported

    def _debug_file(self, elf: ELFFile) -> Path | None:
        section = elf.get_section_by_name(".note.gnu.build-id")
        if not isinstance(section, NoteSection):
            return None
        for note in section.iter_notes():
            if note["n_type"] == "NT_GNU_BUILD_ID":
                build_id = str(note["n_desc"])
                return self._root / _DEBUG_FILES / build_id[:2] / f"{build_id[2:]}.debug"
        return None

    def _from_file(self, read: Callable[[ELFFile], _Read], otherwise: _Read) -> _Read:
        if self._path is not None:
            # A pipe would be waited for, and a damaged report may name anything.
            with suppress(_UNREADABLE):
                if self._path.is_file():
                    with self._path.open("rb") as file:
                        return read(ELFFile(file))
        return otherwise


def _state_of(path: Path | None) -> tuple[int, ...] | None:
    """Another one when there is another file, or it was written to."""
    # A damaged report may name what no file can be called.
    with suppress(OSError, ValueError):
        if path is not None:
            status = path.stat()
            return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
    return None


class _Table:
    """Functions by address. Names stay mere offsets until they are asked for: there may be 100,000."""

    def __init__(self, entries: list[tuple[int, int, int]], names: bytes) -> None:
        self.entries = entries  # start, size, offset of the name
        self.starts = [entry[0] for entry in entries]
        self._names = names

    def name(self, offset: int) -> str:
        end = self._names.find(b"\0", offset)
        return self._names[offset : None if end < 0 else end].decode(errors="replace")

    def joined_with(self, other: "_Table") -> "_Table":
        shifted = [(start, size, name + len(self._names)) for start, size, name in other.entries]
        return _Table(sorted(self.entries + shifted), self._names + other._names)


def _table_of(elf: ELFFile, section_name: str) -> _Table | None:
    section = elf.get_section_by_name(section_name)
    if section is None or section["sh_type"] == "SHT_NOBITS" or elf.elfclass != 64:
        return None
    names = elf.get_section(section["sh_link"]).data()
    raw = section.data()
    whole = len(raw) - len(raw) % _SYMBOL.size
    entries = sorted(
        (value, size, name)
        for name, info, _, _, value, size in _SYMBOL.iter_unpack(raw[:whole])
        if info & 15 in _FUNCTION_TYPES and value and size
    )
    return _Table(entries, names)


def _code_segments(elf: ELFFile) -> Iterator[tuple[int, int, int]]:
    for segment in elf.iter_segments("PT_LOAD"):
        start = segment["p_offset"]
        yield start, start + segment["p_filesz"], segment["p_vaddr"]


def demangled(name: str) -> str:
    """A C++ (or Rust) name as the source has it; others as they are."""
    # Versions of a name ("memcpy@@GLIBC_2.14") say nothing here.
    plain = name.partition("@")[0]
    if not plain.startswith("_Z"):
        return plain
    import cxxfilt  # noqa: PLC0415 # looks for the C++ library, which takes a while

    try:
        return str(cxxfilt.demangle(plain))
    except (cxxfilt.Error, UnicodeDecodeError):  # not a name after all, or no C++ library here
        return plain
