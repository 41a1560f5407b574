"""The suite: which programs stand for what, as bench/suite.toml lists them.

Whoever reads a `Suite` can rely on it: names are unique, every placeholder is known, every field has the
type and the values it may have. What is wrong is said with the file, the workload and the field.
"""

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import takewhile
from pathlib import Path
from typing import Any

from hakmem.errors import HakmemError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SUITE_FILE = Path(__file__).with_name("suite.toml")

# time: a loop whose speed counts. memory: what counts is the memory, and there is no speed to compare.
# program: a real program.
KINDS = ("time", "memory", "program")
PLACEHOLDERS = ("workloads", "programs", "python", "threads")
# What of the work each thread gets: in what is run with several numbers of threads.
SHARE = "share"

_PLACEHOLDER = re.compile(r"\{(\w*)\}")
_MOST_SECONDS = 24 * 60 * 60  # timers do not take just any number
_NAME = re.compile(r"[a-z0-9_]+(/[A-Za-z0-9_.+-]+)?")


@dataclass(frozen=True)
class Workload:
    name: str
    kind: str  # of KINDS
    stands_for: str
    command: tuple[str, ...]
    args_full: tuple[str, ...] = ()  # appended in a full run
    needs: tuple[str, ...] = ()  # programs that must be in PATH
    timeout_seconds: float = 60
    timeout_seconds_full: float = 600
    rounds_most: int | None = None  # for what always gives the same
    contention: bool = False  # how often its threads wait for each other is counted
    sampling: bool = False  # measured with sampling on as well
    args_sampling: tuple[str, ...] = ()  # appended for that

    @property
    def family(self) -> str:
        return self.name.partition("/")[0]

    @property
    def program(self) -> tuple[str, ...]:
        """The command without its options: workloads of the same are of one program."""
        return tuple(takewhile(lambda word: not word.startswith("--"), self.command))

    def arguments(self, places: Mapping[str, str], *, full: bool) -> tuple[str, ...]:
        """The command line, with `places` for the placeholders."""
        command = (*self.command, *self.args_full) if full else self.command
        return tuple(_filled(word, places) for word in command)

    def timeout(self, *, full: bool) -> float:
        return self.timeout_seconds_full if full else self.timeout_seconds


@dataclass(frozen=True)
class Instructions:
    """A loop whose instructions are counted at two lengths; the difference is what an operation takes."""

    name: str
    command: tuple[str, ...]
    operations: tuple[int, int]

    def arguments(self, operations: int, places: Mapping[str, str]) -> tuple[str, ...]:
        return (*(_filled(word, places) for word in self.command), "--operations", str(operations))


@dataclass(frozen=True)
class Scaling:
    """A loop that is run with several numbers of threads."""

    name: str
    stands_for: str
    command: tuple[str, ...]
    work: int  # of a core: with one thread, {share} is this
    work_full: int  # in place of it in a full run
    control: bool = False  # it allocates nothing, so that the allocator makes no difference

    def work_of_a_core(self, *, full: bool) -> int:
        return self.work_full if full else self.work

    def with_threads(self, threads: int, share: int) -> tuple[str, ...]:
        """The command with these filled in; other placeholders stay."""
        return tuple(
            word.replace("{threads}", str(threads)).replace(f"{{{SHARE}}}", str(share))
            for word in self.command
        )


@dataclass(frozen=True)
class Suite:
    workloads: tuple[Workload, ...]
    instructions: tuple[Instructions, ...]
    scaling: tuple[Scaling, ...] = ()

    def only(self, patterns: Sequence[str]) -> "Suite":
        """What matches one of `patterns` (of the shell); the whole suite if there are none."""
        if not patterns:
            return self
        names = [workload.name for workload in self.workloads]
        names += [entry.name for entry in self.instructions]
        names += [entry.name for entry in self.scaling]
        for pattern in patterns:
            if not any(fnmatchcase(name, pattern) for name in names):
                families = ", ".join(dict.fromkeys(workload.family for workload in self.workloads))
                hint = "" if pattern.endswith("*") else f" (try '{pattern}*')"
                raise HakmemError(f"--only: no workload matches '{pattern}'{hint}; there are {families}")

        def wanted(name: str) -> bool:
            return any(fnmatchcase(name, pattern) for pattern in patterns)

        return Suite(
            tuple(entry for entry in self.workloads if wanted(entry.name)),
            tuple(entry for entry in self.instructions if wanted(entry.name)),
            tuple(entry for entry in self.scaling if wanted(entry.name)),
        )


def load(file: Path = SUITE_FILE) -> Suite:
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise HakmemError(f"cannot read the suite '{file}': {error.strerror}") from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise HakmemError(f"{file}: not UTF-8: {error.reason} in line {line}") from error
    except tomllib.TOMLDecodeError as error:
        raise HakmemError(f"{file}: not TOML: {error}") from error
    for key in document:
        if key not in ("workload", "instructions", "scaling"):
            raise HakmemError(f"{file}: unknown table '{key}'; there are workload, instructions and scaling")
    workloads = tuple(_workload(entry) for entry in _entries(file, document, "workload", required=True))
    counted = tuple(_instructions(entry) for entry in _entries(file, document, "instructions"))
    scaling = tuple(_scaling(entry) for entry in _entries(file, document, "scaling"))
    for kind, names in (
        ("workload", [workload.name for workload in workloads]),
        ("instructions", [entry.name for entry in counted]),
        ("scaling", [several.name for several in scaling]),
    ):
        for name in names:
            if names.count(name) > 1:
                raise HakmemError(f"{file}: {kind} '{name}': field 'name': used {names.count(name)} times")
    return Suite(workloads, counted, scaling)


def _workload(entry: "_Entry") -> Workload:
    workload = Workload(
        name=entry.text("name", _NAME),
        kind=entry.one_of("kind", KINDS),
        stands_for=entry.text("stands_for"),
        command=entry.command("command"),
        args_full=entry.command("args_full", required=False),
        needs=entry.words("needs", required=False),
        timeout_seconds=entry.seconds("timeout_seconds", Workload.timeout_seconds),
        timeout_seconds_full=entry.seconds("timeout_seconds_full", Workload.timeout_seconds_full),
        rounds_most=entry.whole("rounds_most"),
        contention=entry.flag("contention"),
        sampling=entry.flag("sampling"),
        args_sampling=entry.command("args_sampling", required=False),
    )
    entry.nothing_else()
    return workload


def _instructions(entry: "_Entry") -> Instructions:
    counts = entry.take("operations", list, [])
    if len(counts) != 2 or not all(type(count) is int for count in counts) or not 0 < counts[0] < counts[1]:
        raise entry.wrong("operations", "must be two whole numbers, the smaller one first")
    result = Instructions(
        name=entry.text("name"), command=entry.command("command"), operations=(counts[0], counts[1])
    )
    entry.nothing_else()
    return result


def _scaling(entry: "_Entry") -> Scaling:
    result = Scaling(
        name=entry.text("name", _NAME),
        stands_for=entry.text("stands_for"),
        command=entry.command("command", placeholders=(*PLACEHOLDERS, SHARE)),
        work=entry.whole("work") or 0,
        work_full=entry.whole("work_full") or 0,
        control=entry.flag("control"),
    )
    entry.nothing_else()
    for field, value in (("work", result.work), ("work_full", result.work_full)):
        if not value:
            raise entry.wrong(field, "missing")
    for placeholder in ("{threads}", f"{{{SHARE}}}"):
        if not any(placeholder in word for word in result.command):
            raise entry.wrong("command", f"{placeholder} is not in it")
    return result


def _entries(file: Path, document: dict[str, Any], table: str, *, required: bool = False) -> list["_Entry"]:
    entries = document.get(table, [])
    if not isinstance(entries, list) or (required and not entries):
        raise HakmemError(f"{file}: no [[{table}]] in it")
    for number, fields in enumerate(entries, 1):
        if not isinstance(fields, dict):
            raise HakmemError(
                f"{file}: {table} number {number}: must be a table, which begins with [[{table}]]"
            )
    return [_Entry(file, table, number, fields) for number, fields in enumerate(entries, 1)]


class _Entry:
    """One table of the file, whose fields are taken one by one."""

    def __init__(self, file: Path, table: str, number: int, fields: dict[str, Any]) -> None:
        self._fields = fields
        name = fields.get("name")
        self._where = f"{file}: {table} " + (f"'{name}'" if isinstance(name, str) else f"number {number}")
        self._taken: list[str] = []

    def wrong(self, field: str, problem: str) -> HakmemError:
        return HakmemError(f"{self._where}: field '{field}': {problem}")

    def take(self, field: str, kind: type, default: Any = None) -> Any:
        self._taken.append(field)
        if field not in self._fields:
            if default is None:
                raise self.wrong(field, "missing")
            return default
        value = self._fields[field]
        if type(value) is not kind:
            names = {str: "text", list: "a list", int: "a whole number", bool: "true or false"}
            raise self.wrong(field, f"must be {names[kind]}")
        return value

    def text(self, field: str, pattern: re.Pattern[str] | None = None) -> str:
        value = str(self.take(field, str)).strip()
        if not value:
            raise self.wrong(field, "is empty")
        if pattern and not pattern.fullmatch(value):
            raise self.wrong(field, f"'{value}' is not of the form family/case")
        return value

    def one_of(self, field: str, choices: Sequence[str]) -> str:
        value = self.text(field)
        if value not in choices:
            raise self.wrong(field, f"'{value}' is not one of {', '.join(choices)}")
        return value

    def words(self, field: str, *, required: bool = True) -> tuple[str, ...]:
        values = self.take(field, list, None if required else [])
        if (required and not values) or not all(isinstance(value, str) for value in values):
            raise self.wrong(field, "must be a list of texts")
        if any("\0" in value for value in values):
            raise self.wrong(field, "must not have the character NUL, which no command can be given")
        return tuple(values)

    def command(
        self, field: str, *, required: bool = True, placeholders: Sequence[str] = PLACEHOLDERS
    ) -> tuple[str, ...]:
        words = self.words(field, required=required)
        for placeholder in (name for word in words for name in _PLACEHOLDER.findall(word)):
            if placeholder not in placeholders:
                known = ", ".join(f"{{{name}}}" for name in placeholders)
                raise self.wrong(field, f"unknown placeholder {{{placeholder}}}; there are {known}")
        return words

    def seconds(self, field: str, default: float) -> float:
        value = self._fields.get(field, default)
        self._taken.append(field)
        # Written so that what is no number of TOML's, nan, is refused as well.
        if type(value) not in (int, float) or not 0 < value <= _MOST_SECONDS:
            raise self.wrong(field, f"must be a number above 0, and at most {_MOST_SECONDS} (a day)")
        return float(value)

    def whole(self, field: str) -> int | None:
        value = int(self.take(field, int, 0))
        if value < 1 and field in self._fields:
            raise self.wrong(field, "must be at least 1")
        return value or None

    def flag(self, field: str) -> bool:
        return bool(self.take(field, bool, False))

    def nothing_else(self) -> None:
        for field in self._fields:
            if field not in self._taken:
                raise self.wrong(field, f"unknown; there are {', '.join(self._taken)}")


def _filled(word: str, places: Mapping[str, str]) -> str:
    return _PLACEHOLDER.sub(lambda match: places[match[1]], word)
