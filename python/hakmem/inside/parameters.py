"""Kinds of arguments that several commands take."""

import re
from typing import Any

import click

from hakmem.errors import HakmemError

_SUFFIXES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_SIZE = re.compile(r"(\d+)([KMG]?)(?:i?B)?", re.IGNORECASE)
_MOST_DIGITS = 18  # of what could be meant as one; whether there is such a process is seen later


class _Pid(click.ParamType):  # type: ignore[type-arg] # older versions take none
    name = "pid"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value)
        if not (text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS and int(text) > 0):
            raise HakmemError(f"'{text}' is not a process number: 'ps -e' and 'pidof PROGRAM' tell them")
        return int(text)


class _Size(click.ParamType):  # type: ignore[type-arg]
    name = "bytes"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        match = _SIZE.fullmatch(str(value))
        if match is None or int(match[1]) == 0:
            raise HakmemError(f"'{value}' is not a size: give bytes, or with K, M or G after it, as in 512K")
        return int(match[1]) * _SUFFIXES[match[2].upper()]


PID = _Pid()
SIZE = _Size()
