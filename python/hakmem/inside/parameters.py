"""Kinds of arguments that several commands take."""

import math
import re
from typing import Any

import click

from hakmem.errors import HakmemError

SHORTEST_PERIOD_SECONDS = 0.05  # of what is done again and again
_SUFFIXES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_SIZE = re.compile(r"([0-9]+)([KMG]?)(?:i?B)?", re.IGNORECASE)
_MOST_DIGITS = 18  # of what could be meant as one; whether there is such a process is seen later
_MOST_BYTES = 1 << 40  # as PROFILE_INTERVAL_MOST of the library
_MOST_SECONDS = 10**9


def one_of(**flags: bool) -> str | None:
    """The name of the flag that is set, none if none is; two are refused: which one is meant is not known."""
    names = [name for name, is_set in flags.items() if is_set]
    if len(names) > 1:
        raise HakmemError(f"--{names[0]} and --{names[1]} are contrary: choose one")
    return names[0] if names else None


class _Pid(click.ParamType):  # type: ignore[type-arg] # older versions take none
    name = "pid"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value)
        if not (text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS and int(text) > 0):
            raise HakmemError(f"'{text}' is not a process number: 'ps -e' and 'pidof PROGRAM' tell them")
        return int(text)


class Seconds(click.FloatRange):
    """At least so many, and not more than the system can wait."""

    def __init__(self, least: float) -> None:
        super().__init__(least, _MOST_SECONDS)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        seconds = float(super().convert(value, param, ctx))
        if math.isnan(seconds):  # lies in every range
            self.fail(f"{value} is not a number of seconds", param, ctx)
        return seconds


class _Size(click.ParamType):  # type: ignore[type-arg]
    name = "bytes"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        match = _SIZE.fullmatch(str(value))
        if match is None or not match[1].strip("0"):
            raise HakmemError(f"'{value}' is not a size: give bytes, or with K, M or G after it, as in 512K")
        # More digits than that are more bytes than that, and Python refuses to read very many.
        digits = match[1].lstrip("0")
        size = int(digits) * _SUFFIXES[match[2].upper()] if len(digits) <= _MOST_DIGITS else _MOST_BYTES + 1
        if size > _MOST_BYTES:
            raise HakmemError(f"'{value}' is too large: the most is {_MOST_BYTES >> 30}G")
        return size


PID = _Pid()
SIZE = _Size()
