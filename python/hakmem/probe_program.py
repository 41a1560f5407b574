"""Run as a script with an allocator preloaded: prints, as one JSON line, who serves malloc in this process.

Nothing of the package is imported, so that the script needs no path and starts fast.
"""

import ctypes
import json
import os
import sys
from contextlib import suppress

FAMILY = (
    "malloc",
    "calloc",
    "realloc",
    "free",
    "memalign",
    "aligned_alloc",
    "posix_memalign",
    "malloc_usable_size",
)
_BLOCKS = 1000
_BLOCK_BYTES = 4096


class _SymbolInfo(ctypes.Structure):
    """Dl_info of dlfcn.h."""

    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


class _MallocInfo(ctypes.Structure):
    """struct mallinfo2 of malloc.h."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "keepcost",
        )
    )


class _ObjectInfo(ctypes.Structure):
    """The beginning of dl_phdr_info of link.h."""

    _fields_ = (("base", ctypes.c_void_p), ("name", ctypes.c_char_p))


_VISITOR = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_ObjectInfo), ctypes.c_size_t, ctypes.c_void_p)


def _loaded() -> "list[str]":
    """All objects of the process in the order in which the loader looks through them; "" is the program."""
    names = []

    def visit(info: "ctypes._Pointer[_ObjectInfo]", _size: int, _context: object) -> int:
        names.append(os.fsdecode(info.contents.name or b""))
        return 0

    _process.dl_iterate_phdr(_VISITOR(visit), None)
    return names


def _server_of(function: str) -> "str | None":
    """The file that `function` comes from when the program calls it."""
    server = _holder_of(_process, function)
    if server is None or os.path.realpath(server) != os.path.realpath(sys.executable):
        return server
    # A program that is not position-independent, and takes the function's address, has an entry of its own
    # for it, which the loader names; that leads to the first object behind it that has the function.
    for name in _loaded():
        with suppress(OSError):
            if name and _holder_of(ctypes.CDLL(name, os.RTLD_NOLOAD), function) == name:
                return name
    return server


def _holder_of(library: ctypes.CDLL, function: str) -> "str | None":
    """The file in which the loader finds `function` for `library`."""
    try:
        address = ctypes.cast(getattr(library, function), ctypes.c_void_p)
    except AttributeError:
        return None
    info = _SymbolInfo()
    if not _process.dladdr(address, ctypes.byref(info)):
        return None
    return os.fsdecode(info.file or b"")


def _growth_of_libc() -> "int | None":
    """By how much libc's own allocator grows when the program allocates _BLOCKS * _BLOCK_BYTES bytes."""
    try:
        figures = ctypes.CDLL("libc.so.6").mallinfo2
    except (OSError, AttributeError):
        return None
    figures.restype = _MallocInfo
    before = figures()
    _process.malloc.restype = ctypes.c_void_p
    _process.malloc.argtypes = [ctypes.c_size_t]
    for _ in range(_BLOCKS):
        if not _process.malloc(_BLOCK_BYTES):
            raise MemoryError
    after = figures()
    return int(after.uordblks - before.uordblks + after.hblkhd - before.hblkhd)


def _version() -> "str | None":
    """What the allocator says of its version, where it has a function for that."""
    for function in (_hakmem_version, _mimalloc_version, _jemalloc_version, _gperftools_version):
        try:
            return function()
        except AttributeError:
            continue
    return None


def _hakmem_version() -> str:
    _process.hak_version.restype = ctypes.c_char_p
    return str(_process.hak_version().decode())


def _mimalloc_version() -> str:
    number = _process.mi_version()
    if number < 1000:  # one digit each; two for minor and patch since
        return f"{number // 100}.{number // 10 % 10}.{number % 10}"
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


def _jemalloc_version() -> str:
    text, size = ctypes.c_char_p(), ctypes.c_size_t(ctypes.sizeof(ctypes.c_char_p))
    _process.mallctl(b"version", ctypes.byref(text), ctypes.byref(size), None, ctypes.c_size_t(0))
    return (text.value or b"?").decode().partition("-")[0]


def _gperftools_version() -> str:
    major, minor = ctypes.c_int(), ctypes.c_int()
    _process.tc_version.restype = ctypes.c_char_p
    _process.tc_version(ctypes.byref(major), ctypes.byref(minor), None)
    return f"{major.value}.{minor.value}"


_process = ctypes.CDLL(None)
print(
    json.dumps(
        {
            "servers": {function: _server_of(function) for function in FAMILY},
            "version": _version(),
            "libc_growth": _growth_of_libc(),
        }
    )
)
