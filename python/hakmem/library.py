"""Finds libhakmem.so and asks it, through its C interface, for its version and options."""

import ctypes
import os
from dataclasses import dataclass
from pathlib import Path

from hakmem.errors import HakmemError

LIBRARY_VARIABLE = "HAKMEM_LIBRARY"
LIBRARY_NAME = "libhakmem.so"

_TELLING_SYMBOL = "hak_version"

_PACKAGE = Path(__file__).resolve().parent
_IN_PACKAGE = _PACKAGE / "lib" / LIBRARY_NAME
_IN_REPOSITORY = _PACKAGE.parents[1] / "build" / LIBRARY_NAME


class _OptionInfo(ctypes.Structure):
    """hak_option_info_t of hakmem.h."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("environment", ctypes.c_char_p),
        ("type", ctypes.c_char_p),
        ("default_value", ctypes.c_char_p),
        ("description", ctypes.c_char_p),
        ("source", ctypes.c_char_p),
        ("value", ctypes.c_char * 128),
    )


@dataclass(frozen=True)
class Option:
    name: str
    environment: str
    type: str
    default: str
    value: str
    source: str
    description: str


def find_library() -> Path:
    """The library in force: HAKMEM_LIBRARY, else the installed package's, else the repository's build."""
    if chosen := os.environ.get(LIBRARY_VARIABLE):
        from hakmem.elf import defines  # noqa: PLC0415 # its library takes a while to load

        path = Path(chosen).absolute()
        try:
            is_there = path.is_file()
        except OSError as error:
            raise HakmemError(
                f"{LIBRARY_VARIABLE} is set to '{chosen}', which cannot be looked at: {error.strerror}"
            ) from error
        if not is_there:
            raise HakmemError(f"{LIBRARY_VARIABLE} is set to '{chosen}', but there is no such file")
        # By its names: loading it would run whatever else it is.
        if not defines(path, _TELLING_SYMBOL):
            raise HakmemError(
                f"{LIBRARY_VARIABLE} is set to '{chosen}', which is not a HAKMEM library: "
                f"it has no {_TELLING_SYMBOL}"
            )
        return path
    for path in (_IN_PACKAGE, _IN_REPOSITORY):
        if path.is_file():
            return path
    raise HakmemError(
        f"{LIBRARY_NAME} not found: run 'make' in the repository, or set {LIBRARY_VARIABLE} to its path"
    )


class Library:
    def __init__(self, path: Path) -> None:
        try:
            self._handle = ctypes.CDLL(str(path))
            self._handle.hak_version.restype = ctypes.c_char_p
            self._handle.hak_option_count.restype = ctypes.c_int
            self._handle.hak_option_info.argtypes = [ctypes.c_int, ctypes.POINTER(_OptionInfo)]
        except OSError as error:
            raise HakmemError(f"cannot load '{path}': {error}") from error
        except AttributeError as error:
            raise HakmemError(f"'{path}' is not a HAKMEM library: {error}") from error

    def version(self) -> str:
        return _text(self._handle.hak_version())

    def options(self) -> list[Option]:
        return [self._option(index) for index in range(self._handle.hak_option_count())]

    def _option(self, index: int) -> Option:
        info = _OptionInfo()
        if self._handle.hak_option_info(index, ctypes.byref(info)) != 0:
            raise HakmemError(f"the library refuses to tell of option number {index}")
        return Option(
            name=_text(info.name),
            environment=_text(info.environment),
            type=_text(info.type),
            default=_text(info.default_value),
            value=_text(info.value),
            source=_text(info.source),
            description=_text(info.description),
        )


def _text(raw: bytes | None) -> str:
    return (raw or b"").decode(errors="replace")
