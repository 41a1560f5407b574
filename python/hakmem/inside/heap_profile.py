"""Reads heap profiles in the heap_v2 text format: HAKMEM's, jemalloc's and gperftools'.

A sampled profile counts only what was drawn. Each record is scaled to what it stands for: a block of n bytes
is drawn with a chance of 1 - exp(-n / interval).
"""

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from hakmem.errors import HakmemError

_PROTOBUF_MAGIC = b"\x1f\x8b"
# No counter of 64 bits has more digits; longer ones are damage, and too much for a float.
_COUNT = "[0-9]{1,20}"
_ADDRESS = "0x[0-9a-fA-F]{1,16}"
_COUNTS = rf"({_COUNT}): *({_COUNT}) *\[ *({_COUNT}): *({_COUNT}) *\]"
_HEADER = re.compile(
    rf"heap_v2/(?P<v2>{_COUNT})(?!\S)"
    rf"|heap profile: *{_COUNTS} *@ *(?P<kind>[\w]+)(?:/(?P<rate>{_COUNT}))?(?!\S)"
)
# One line a record, or the stack first and then a line for all threads and one for each.
_RECORD = re.compile(rf" *{_COUNTS} *@((?: +{_ADDRESS})*) *")
_STACK = re.compile(rf"@((?: +{_ADDRESS})*) *")
_THREAD = re.compile(rf" *t(\*|\d+): *{_COUNTS}.*")
_MAPPINGS_TITLE = "MAPPED_LIBRARIES:"


@dataclass(frozen=True)
class Counts:
    live_blocks: float
    live_bytes: float
    total_blocks: float  # since sampling started, freed ones included
    total_bytes: float

    def scaled(self, interval: int) -> "Counts":
        live, total = (
            _scale(blocks, size, interval)
            for blocks, size in ((self.live_blocks, self.live_bytes), (self.total_blocks, self.total_bytes))
        )
        return Counts(
            live_blocks=self.live_blocks * live,
            live_bytes=self.live_bytes * live,
            total_blocks=self.total_blocks * total,
            total_bytes=self.total_bytes * total,
        )


@dataclass(frozen=True)
class Sample:
    stack: tuple[int, ...]  # return addresses, the innermost first
    counts: Counts  # scaled


@dataclass(frozen=True)
class HeapProfile:
    interval: int  # bytes between samples; 0: every block was counted
    samples: list[Sample]
    mappings: list[str]  # lines as in /proc/PID/maps


def read_heap_profile(path: Path) -> HeapProfile:
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise HakmemError(f"cannot read '{path}': {error.strerror}") from error
    return parse_heap_profile(raw, str(path))


def parse_heap_profile(raw: bytes, name: str) -> HeapProfile:
    """`name` is what errors call it."""
    if raw.startswith(_PROTOBUF_MAGIC):
        raise HakmemError(
            f"'{name}' is compressed (a pprof profile?), not heap_v2 text; 'go tool pprof' reads it"
        )
    text = raw.decode(errors="surrogateescape")  # paths may be any bytes
    lines = text.removesuffix("\n").split("\n")  # a path may hold what else ends a line
    header = _HEADER.match(lines[0]) if lines else None
    if header is None and text.startswith('{"total_pinned_bytes"'):
        raise HakmemError(
            f"'{name}' is a fragmentation profile, which is no graph: "
            "'hakmem profile PID --kind fragmentation' prints one"
        )
    if header is None:
        raise HakmemError(
            f"'{name}' is not a heap profile: its first line is neither 'heap_v2/…' nor 'heap profile: …'; "
            "'hakmem profile PID' writes one"
        )
    interval = _interval(header, name)
    records, end = _records(lines, name)
    if _MAPPINGS_TITLE not in lines[end:] or not text.endswith("\n"):
        raise HakmemError(
            f"'{name}' is cut off after line {len(lines)}: the mapped libraries at its end are missing; "
            "write the profile again"
        )
    mappings = lines[lines.index(_MAPPINGS_TITLE, end) + 1 :]
    samples = [Sample(stack, counts.scaled(interval)) for stack, counts in records]
    return HeapProfile(interval, samples, mappings)


def _interval(header: re.Match[str], name: str) -> int:
    if header["v2"]:
        return int(header["v2"])
    kind, rate = header["kind"], int(header["rate"] or 0)
    if kind in ("heap_v2", "heapz_v2"):
        return rate
    if kind in ("heapprofile", "heap"):
        # Plain "heap" gives twice the mean distance.
        return rate // 2 if kind == "heap" else 0
    raise HakmemError(f"'{name}' is a profile of kind '{kind}', not of the heap: nothing to draw")


def _records(lines: list[str], name: str) -> tuple[list[tuple[tuple[int, ...], Counts]], int]:
    """Stacks with what was drawn there, and the index of the first line that is none of theirs."""
    found: list[tuple[tuple[int, ...], Counts]] = []
    stack: tuple[int, ...] | None = None
    for index, line in enumerate(lines[1:], start=1):
        if match := _RECORD.fullmatch(line):
            found.append((_addresses(match[5]), _counts(match.groups()[:4])))
        elif match := _STACK.fullmatch(line):
            stack = _addresses(match[1])
        elif match := _THREAD.fullmatch(line):
            # Before the first stack stand the sums of all; threads' own figures are in those of "*".
            if stack is not None and match[1] == "*":
                found.append((stack, _counts(match.groups()[1:5])))
        elif not line.strip() or line.strip() == _MAPPINGS_TITLE:
            return found, index
        else:
            raise HakmemError(
                f"'{name}' is damaged or cut off: line {index + 1} is no record of a heap profile "
                f"({_shortened(line)!r}); write the profile again"
            )
    return found, len(lines)


def _addresses(text: str) -> tuple[int, ...]:
    return tuple(int(word, 16) for word in text.split())


def _counts(figures: Iterable[str]) -> Counts:
    live_blocks, live_bytes, total_blocks, total_bytes = map(float, figures)
    return Counts(live_blocks, live_bytes, total_blocks, total_bytes)


def _scale(blocks: float, size: float, interval: int) -> float:
    if interval <= 1 or blocks <= 0 or size <= 0:
        return 1.0
    return 1 / -math.expm1(-size / blocks / interval)


def _shortened(line: str) -> str:
    return line if len(line) <= 40 else line[:40] + "…"


@dataclass(frozen=True)
class Weight:
    """What a picture or a ranking is of."""

    title: str
    of: Callable[[Counts], float]


WEIGHTS = {
    ("live", "bytes"): Weight("live bytes", lambda counts: counts.live_bytes),
    ("live", "blocks"): Weight("live blocks", lambda counts: counts.live_blocks),
    ("allocated", "bytes"): Weight("bytes allocated", lambda counts: counts.total_bytes),
    ("allocated", "blocks"): Weight("blocks allocated", lambda counts: counts.total_blocks),
}
