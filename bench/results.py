"""What a benchmark run found, and how it is kept: results.json has every run, results.csv a summary.

docs/benchmarks/format.md describes both. SCHEMA is raised when a reader of the old shape would misread the
new one; a file of another schema is refused, never guessed at.
"""

import csv
import io
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hakmem.errors import HakmemError

from bench.estimate import fastest_quarter, median, quartiles

SCHEMA = 1
SIGNIFICANT_DIGITS = 7  # of what is no whole number

# A round is calm if others took no more than this share of all processors' time.
CALM = 0.08
_CALM_ENOUGH = 5

_OF_WORKLOADS = ("workloads", "scaling", "sampling")  # the fields of Results that have runs

_TOO_SHORT = 1e-9  # seconds: what a clock can tell


@dataclass(frozen=True)
class Run:
    """One workload, once, on one allocator."""

    round: int  # from 1
    wall_seconds: float  # of the whole process
    cpu_seconds: float
    peak_rss_bytes: float
    end_rss_bytes: float
    minor_faults: float
    seconds: float | None = None  # of the section that the program measures; None: it does not say
    operations: float | None = None
    figures: Mapping[str, float] = field(default_factory=dict)  # the program's own
    other_load: float = 0  # share of all processors' time that others took during the round
    failure: str | None = None  # why the run does not count

    @property
    def time(self) -> float:
        """Seconds an operation, or of the whole process if the program measures nothing itself."""
        if self.seconds is None:
            return self.wall_seconds
        return max(self.seconds / (self.operations or 1), _TOO_SHORT / (self.operations or 1))


@dataclass
class WorkloadResult:
    name: str
    kind: str
    stands_for: str
    command: str  # for people: placeholders are kept
    runs: dict[str, list[Run]] = field(default_factory=dict)  # by allocator

    @property
    def family(self) -> str:
        return self.name.partition("/")[0]

    def good(self, allocator: str) -> list[Run]:
        """What counts: of the runs that did not fail, those of calm rounds, if there were enough of them."""
        unfailed = [run for run in self.runs.get(allocator, ()) if run.failure is None]
        calm = [run for run in unfailed if run.other_load <= CALM]
        return calm if len(calm) >= _CALM_ENOUGH else unfailed

    def half(self, allocator: str, remainder: int) -> list[Run]:
        """Of what counts, the odd rounds (1) or the even ones (0). What is chosen by the ones is to be judged
        by the others: chosen and judged by the same runs, whatever is best by luck would win."""
        return [run for run in self.good(allocator) if run.round % 2 == remainder]

    def failures(self, allocator: str) -> list[str]:
        return [run.failure for run in self.runs.get(allocator, ()) if run.failure is not None]

    def figure(self, allocator: str, name: str) -> float | None:
        """The median of a figure that the program gives, None where there is none."""
        values = [run.figures[name] for run in self.good(allocator) if name in run.figures]
        return median(values) if values else None


@dataclass
class ScalingResult(WorkloadResult):
    """A loop with one number of threads; those of one name differ in this number alone."""

    threads: int = 1
    control: bool = False  # it allocates nothing


@dataclass(frozen=True)
class AllocatorInfo:
    name: str
    title: str
    version: str
    origin: str
    digest: str = ""  # of the library's file: the same text means the same library
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Missing:
    """An allocator, or a workload, that could not be measured."""

    name: str
    reason: str


@dataclass(frozen=True)
class InstructionCount:
    name: str
    command: str
    per_operation: Mapping[str, float]  # by allocator
    missing: Sequence[Missing] = ()


@dataclass(frozen=True)
class Contention:
    """What HAKMEM's own statistics counted in one run of a workload of several threads."""

    name: str
    operations: float = 0
    counters: Mapping[str, float] = field(default_factory=dict)  # absent: 0
    failure: str | None = None  # why there are none


@dataclass(frozen=True)
class SystemCalls:
    """How often a workload made those that system_calls.py counts, in one run."""

    name: str
    calls: Mapping[str, Mapping[str, float]]  # by allocator, by the call's name; absent: 0
    missing: Sequence[Missing] = ()


@dataclass
class Results:
    started: str  # ISO 8601
    full: bool
    machine: Mapping[str, str]
    method: Mapping[str, str]  # how it was measured, for people
    allocators: list[AllocatorInfo]
    missing: list[Missing] = field(default_factory=list)
    skipped: list[Missing] = field(default_factory=list)
    workloads: list[WorkloadResult] = field(default_factory=list)
    instructions: list[InstructionCount] = field(default_factory=list)
    system_calls: list[SystemCalls] = field(default_factory=list)
    scaling: list[ScalingResult] = field(default_factory=list)
    contention: list[Contention] = field(default_factory=list)
    sampling: list[WorkloadResult] = field(default_factory=list)  # runs of sampling.OFF and sampling.ON
    options: str = ""  # how its length was chosen, if it was: "--minutes 15"
    duration_seconds: float = 0
    other_load: float = 0  # share of the processors' time that others took meanwhile
    interrupted: bool = False

    def workload(self, name: str) -> WorkloadResult | None:
        return next((entry for entry in self.workloads if entry.name == name), None)

    def names(self) -> list[str]:
        return [allocator.name for allocator in self.allocators]

    def runs(self) -> list[Run]:
        """All of them, whatever they are to tell."""
        return [
            run
            for name in _OF_WORKLOADS
            for workload in getattr(self, name)
            for runs in workload.runs.values()
            for run in runs
        ]

    def title(self, name: str) -> str:
        return next((entry.title for entry in self.allocators if entry.name == name), name)


def save(results: Results, file: Path) -> None:
    document = {"schema": SCHEMA, **asdict(results)}
    for name in _OF_WORKLOADS:
        for workload, source in zip(document[name], getattr(results, name), strict=True):
            workload["runs"] = {variant: _columns(runs) for variant, runs in source.runs.items()}
    write_atomically(file, _text(document) + "\n")


def load(file: Path) -> Results:
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise HakmemError(f"cannot read the results '{file}': {error.strerror}") from error
    except ValueError as error:
        raise HakmemError(f"{file}: not JSON: {error}") from error
    if not isinstance(document, dict) or "schema" not in document:
        raise HakmemError(f"{file}: not results of 'python -m bench run': there is no 'schema'")
    if document["schema"] != SCHEMA:
        raise HakmemError(
            f"{file}: has schema {document['schema']}, this version reads {SCHEMA}: run the benchmarks again"
        )
    try:
        return _results(document)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise HakmemError(f"{file}: damaged: {type(error).__name__}: {error}") from error


def save_csv(results: Results, file: Path) -> None:
    """A line for each workload and allocator: the time that is compared, medians, quartiles of the time."""
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(
        (
            "workload",
            "kind",
            "allocator",
            "version",
            "good_runs",
            "failed_runs",
            "time_seconds",
            "time_median_seconds",
            "time_lower_quartile_seconds",
            "time_upper_quartile_seconds",
            "cpu_seconds",
            "peak_rss_bytes",
            "end_rss_bytes",
            "minor_faults",
            "first_failure",
        )
    )
    for workload in results.workloads:
        for allocator in results.allocators:
            writer.writerow(_csv_row(workload, allocator))
    write_atomically(file, buffer.getvalue())


def write_atomically(file: Path, text: str) -> None:
    """All of it or nothing: an interrupted write leaves the old file."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary = file.with_name(f".{file.name}.{os.getpid()}")
        # Names of files, which may be any bytes, are among it.
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")
        temporary.replace(file)
    except OSError as error:
        raise HakmemError(f"cannot write '{file}': {error.strerror}") from error


def _csv_row(workload: WorkloadResult, allocator: AllocatorInfo) -> list[object]:
    good = workload.good(allocator.name)
    failures = workload.failures(allocator.name)
    row: list[object] = [workload.name, workload.kind, allocator.name, allocator.version]
    row += [len(good), len(failures)]
    if good:
        times = [run.time for run in good]
        compared = fastest_quarter(times)
        columns = [[run.cpu_seconds for run in good], [run.peak_rss_bytes for run in good]]
        columns += [[run.end_rss_bytes for run in good], [run.minor_faults for run in good]]
        row += [
            _rounded(value) for value in (compared, median(times), *quartiles(times), *map(median, columns))
        ]
    else:
        row += [""] * 8
    return [*row, failures[0] if failures else ""]


def _columns(runs: Iterable[Run]) -> dict[str, list[Any]]:
    """A list for each field, which is a tenth of the text of a list of runs."""
    entries = [asdict(run) for run in runs]
    columns: dict[str, list[Any]] = {}
    for name in Run.__dataclass_fields__:
        if name != "figures":
            columns[name] = [_rounded(entry[name]) for entry in entries]
    for name in dict.fromkeys(name for entry in entries for name in entry["figures"]):
        columns[f"figures.{name}"] = [_rounded(entry["figures"].get(name)) for entry in entries]
    return {name: values for name, values in columns.items() if any(value is not None for value in values)}


def _runs(columns: Mapping[str, list[Any]]) -> list[Run]:
    result = []
    for index in range(len(columns.get("round", ()))):
        fields: dict[str, Any] = {}
        figures: dict[str, float] = {}
        for name, values in columns.items():
            if values[index] is None:
                continue
            if name.startswith("figures."):
                figures[name.removeprefix("figures.")] = values[index]
            else:
                fields[name] = values[index]
        result.append(Run(**fields, figures=figures))
    return result


def _results(document: dict[str, Any]) -> Results:
    fields = {name: value for name, value in document.items() if name != "schema"}
    fields["allocators"] = [AllocatorInfo(**entry) for entry in document["allocators"]]
    for name in ("missing", "skipped"):
        fields[name] = [Missing(**entry) for entry in document[name]]
    for name in _OF_WORKLOADS:
        fields[name] = [_workload(name, entry) for entry in document.get(name, ())]
    fields["instructions"] = [InstructionCount(**_with_missing(entry)) for entry in document["instructions"]]
    fields["system_calls"] = [
        SystemCalls(**_with_missing(entry)) for entry in document.get("system_calls", ())
    ]
    fields["contention"] = [Contention(**entry) for entry in document.get("contention", ())]
    return Results(**fields)


def _with_missing(entry: dict[str, Any]) -> dict[str, Any]:
    return {**entry, "missing": [Missing(**one) for one in entry["missing"]]}


def _workload(name: str, entry: dict[str, Any]) -> WorkloadResult:
    """An entry of the field `name` of Results."""
    runs = {variant: _runs(columns) for variant, columns in entry["runs"].items()}
    kind = ScalingResult if name == "scaling" else WorkloadResult
    return kind(**{**entry, "runs": runs})


def _rounded(value: Any) -> Any:
    if not isinstance(value, float):
        return value
    rounded = value if value.is_integer() else float(f"{value:.{SIGNIFICANT_DIGITS}g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 2**53 else rounded


def _text(document: Any, indent: str = "") -> str:
    """JSON with one line for each list of plain values: readable, and small in a diff."""
    deeper = indent + " "
    if isinstance(document, dict) and document:
        inside = [f"{deeper}{json.dumps(key)}: {_text(value, deeper)}" for key, value in document.items()]
        return "{\n" + ",\n".join(inside) + "\n" + indent + "}"
    if isinstance(document, list | tuple) and any(isinstance(value, dict | list) for value in document):
        return "[\n" + ",\n".join(deeper + _text(value, deeper) for value in document) + "\n" + indent + "]"
    return json.dumps(document)
