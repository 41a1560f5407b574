"""How often each allocator asks the kernel: for memory, and to wait."""

from collections.abc import Mapping, Sequence

from bench.page.markdown import folded, heading, listed, not_counted, paragraph, side_by_side, table
from bench.results import SystemCalls
from bench.system_calls import FOR_MEMORY, TO_WAIT
from bench.view import View


def lines(view: View) -> list[str]:
    counted = view.results.system_calls
    if not counted:
        return []
    columns = ["workload", *(view.title(name) for name in view.names)]
    waiting = [entry for entry in counted if any(_sum(calls, TO_WAIT) for calls in entry.calls.values())]
    return [
        *heading(2, "System calls"),
        *paragraph(
            "Counted by strace in one run of each workload, of the length that `make bench` has, apart from",
            "the timed ones. Those by which a process starts are in, some twenty of them for its program and",
            "the C library. The fewest of each row are in bold. Threads wait more often than by themselves:",
            "each call is slow under strace, those that are made under a lock, too.",
        ),
        *folded(
            f"Calls for memory ({listed(FOR_MEMORY)}) on every allocator",
            table(columns, (_row(view, entry, FOR_MEMORY) for entry in counted)),
        ),
        *folded(
            f"Calls to wait or to wake ({listed(TO_WAIT)}) on every allocator, where there are any",
            table(columns, (_row(view, entry, TO_WAIT) for entry in waiting)),
        ),
        *_reasons(view, counted),
    ]


def _sum(calls: Mapping[str, float], names: Sequence[str]) -> float:
    return sum(calls.get(name, 0) for name in names)


def _row(view: View, entry: SystemCalls, names: Sequence[str]) -> list[str]:
    sums = {allocator: _sum(calls, names) for allocator, calls in entry.calls.items()}
    return side_by_side(entry.name, view.names, sums, lambda value: f"{value:.0f}")


def _reasons(view: View, counted: Sequence[SystemCalls]) -> list[str]:
    return not_counted(
        f"{entry.name} on {view.title(missing.name)}: {missing.reason}"
        for entry in counted
        for missing in entry.missing
    )
