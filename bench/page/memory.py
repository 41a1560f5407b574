"""Memory beyond the data, what is kept after everything was freed, and how fragmentation grows."""

from collections.abc import Callable, Mapping

from bench import memory_model, phases
from bench.page.markdown import (
    bold,
    digits,
    folded,
    heading,
    paragraph,
    percent,
    side_by_side,
    size,
    table,
)
from bench.view import FAULTS, View

_Form = Callable[[float], str]  # how a figure is written
_FAULTS_PER = "faults_per_"  # in the names of such figures
_MOMENTS = {
    "freed": "at once",
    "released": "once asked for",
    "flushed": "after malloc_trim",
    "idle": "after 2 s without a call",
}
_IDLE_ONCE_ASKED = "and a while later"
_ASKED_BY = {
    "released": (
        "A program that asks for it to be given back does so once, from its first thread, by what the",
        "allocator has for that: mi_collect(true) of mimalloc, mallctl of jemalloc (thread.tcache.flush, and",
        "purge of all arenas), MallocExtension's ReleaseFreeMemory of gperftools and its",
        "ReleaseMemoryToSystem of Google's tcmalloc, mallopt(M_PURGE_ALL) of scudo, malloc_trim of those",
        "others that have it.",
    ),
    "flushed": (
        "The program that asks for it to be given back did so by malloc_trim, which of these only HAKMEM,",
        "glibc and Google's tcmalloc have. The others, whose own functions for that were not called, were",
        "asked for nothing.",
    ),
}


def lines(view: View) -> list[str]:
    body = [*_overheads(view), *_models(view), *_kept(view), *_fragmentation(view), *_faults(view)]
    return [*heading(2, "Memory"), *body] if body else []


def _overheads(view: View) -> list[str]:
    found = memory_model.usages(view)
    if not found:
        return []
    rows = [
        _row(view, name, {key: usage.overhead for key, usage in by_allocator.items()}, percent)
        for name, by_allocator in found.items()
    ]
    return [
        *heading(3, "Resident memory over the data"),
        *paragraph(
            "Blocks of one size, every byte of them in use. All that the process has resident counts, less",
            "the data and less what the same program takes with no block on the system's malloc",
            f"({size(memory_model.bare_bytes(view) or 0)}). 0 % would be blocks that cost only their bytes.",
        ),
        *table(_columns(view, "blocks"), rows),
    ]


def _models(view: View) -> list[str]:
    found = memory_model.models(view)
    if not found:
        return []
    rows = []
    for block_bytes, by_allocator in found.items():
        fixed = {name: model.fixed_bytes for name, model in by_allocator.items()}
        each = {name: model.per_block_bytes for name, model in by_allocator.items()}
        rows.append(_row(view, f"F, blocks of {block_bytes:.0f} B", fixed, size))
        rows.append(_row(view, f"V, blocks of {block_bytes:.0f} B", each, lambda value: f"{value:.3f} B"))
    return [
        *heading(3, "The cost of a block"),
        *paragraph(
            "The line through the figures above, from a million blocks on: RSS = data + F + V·N. F is what",
            "the allocator takes once, V what it takes for each of N blocks.",
        ),
        *table(_columns(view, "cost"), rows),
    ]


def _kept(view: View) -> list[str]:
    rows = []
    asked_by: dict[str, None] = {}  # the moments of _ASKED_BY that there are
    for workload in phases.battles(view):
        asked = False
        for moment, words in _MOMENTS.items():
            kept = {
                name: value
                for name in view.names
                if (value := phases.over_start(workload, name, moment)) is not None
            }
            if kept and moment in phases.ASKED:
                asked = True
                asked_by[moment] = None
            if kept:
                when = _IDLE_ONCE_ASKED if asked and moment == "idle" else words
                rows.append(_row(view, f"{workload.name}, {when}", kept, size))
    if not rows:
        return []
    return [
        *heading(3, "What is kept when all is freed"),
        *paragraph(
            "Resident over what it was before the first block was allocated.",
            *(sentence for moment in asked_by for sentence in _ASKED_BY[moment]),
        ),
        *table(_columns(view, "workload"), rows),
    ]


def _fragmentation(view: View) -> list[str]:
    result = []
    for workload in phases.fragmentation(view):
        by_phase: dict[str, dict[str, float]] = {}
        for name in view.names:
            for phase in phases.phases(workload, name):
                by_phase.setdefault(phase.name, {})[name] = phase.ratio
        rows = [_row(view, phase, ratios, digits) for phase, ratios in by_phase.items()]
        result += [
            *paragraph(f"{bold(workload.name)}: {workload.stands_for}"),
            *table(_columns(view, "at the end of"), rows),
        ]
    if not result:
        return []
    return [
        *heading(3, "Resident memory over live bytes as the mix of sizes changes"),
        *paragraph(
            "1.00 would be no memory but what the program holds. The lowest of each phase is in bold."
        ),
        *result,
    ]


def _faults(view: View) -> list[str]:
    rows = []
    for workload in view.results.workloads:
        names = {name for runs in workload.runs.values() for run in runs for name in run.figures}
        for figure in sorted(name for name in names if _FAULTS_PER in name):
            found = {
                name: value for name in view.names if (value := workload.figure(name, figure)) is not None
            }
            rows.append(_row(view, f"{workload.name}, {figure.replace('_', ' ')}", found, digits))
    whole = _faults_of_whole_runs(view)
    if not rows and not whole:
        return []
    return [
        *heading(3, "Page faults"),
        *paragraph(
            "A fault is a trap into the kernel for a page of memory that is touched for the first time, or",
            "again after it was given back; 256 for each MiB are one for each page of 4 KiB.",
        ),
        *table(_columns(view, "workload"), rows),
        *folded("Page faults of whole runs on every allocator, the fewest of each row in bold", whole),
    ]


def _faults_of_whole_runs(view: View) -> list[str]:
    rows = []
    for workload in view.workloads(FAULTS):
        values = {name: view.value(workload, name, FAULTS) for name in view.names}
        found = {name: value for name, value in values.items() if value is not None}
        if any(found.values()):
            rows.append(_row(view, workload.name, found, digits))
    return table(_columns(view, "workload"), rows)


def _columns(view: View, first: str) -> list[str]:
    return [first, *(view.title(name) for name in view.names)]


def _row(view: View, title: str, values: Mapping[str, float], form: _Form) -> list[str]:
    return side_by_side(title, view.names, values, form)
