"""Run as a script: what a library says of itself, as one JSON object. The argument is its path.

A process for itself, because the library reads its environment once; and it ends without the library's
destructor, because what the user has it write at the end of programs must not be written of this one. Nothing
of the package is imported, so that the script needs no path and starts fast.
"""

import ctypes
import json
import os
import sys


class _OptionInfo(ctypes.Structure):
    """hak_option_info_t of hakmem.h."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("environment", ctypes.c_char_p),
        ("type", ctypes.c_char_p),
        ("default", ctypes.c_char_p),
        ("description", ctypes.c_char_p),
        ("source", ctypes.c_char_p),
        ("value", ctypes.c_char * 128),
    )


def _facts(path: str) -> "dict[str, object]":
    library = ctypes.CDLL(path)
    library.hak_version.restype = ctypes.c_char_p
    library.hak_option_count.restype = ctypes.c_int
    library.hak_option_info.argtypes = [ctypes.c_int, ctypes.POINTER(_OptionInfo)]
    options = [_option(library, index) for index in range(library.hak_option_count())]
    return {"version": _text(library.hak_version()), "options": options}


def _option(library: ctypes.CDLL, index: int) -> "dict[str, str]":
    info = _OptionInfo()
    if library.hak_option_info(index, ctypes.byref(info)) != 0:
        raise ValueError(f"it refuses to tell of option number {index}")
    return {name: _text(getattr(info, name)) for name, _ in _OptionInfo._fields_}


def _text(raw: "bytes | None") -> str:
    return (raw or b"").decode(errors="replace")


try:
    answer = _facts(sys.argv[1])
except OSError as error:
    answer = {"problem": f"cannot load '{sys.argv[1]}': {error}"}
except (AttributeError, ValueError) as error:
    answer = {"problem": f"'{sys.argv[1]}' is not a HAKMEM library: {error}"}
print(json.dumps(answer), flush=True)
os._exit(0)
