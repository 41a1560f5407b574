"""All allocators side by side: over the whole suite, and which are missing."""

from bench.page.markdown import NONE, bold, count, factor, heading, paragraph, table
from bench.view import RSS, TIME, View


def lines(view: View) -> list[str]:
    return [
        *heading(2, "All allocators"),
        *paragraph(
            "What each takes over what the best of all takes, as the geometric mean over the same workloads.",
            "1.00 would be the best everywhere.",
        ),
        *table(["allocator", "time", "peak RSS", "fails in"], _rows(view)),
        *_missing(view),
    ]


def _rows(view: View) -> list[list[str]]:
    def key(name: str) -> float:
        return view.over_best(name, TIME) or float("inf")

    rows = []
    for name in sorted(view.names, key=key):
        title = view.title(name)
        failed = view.failed(name)
        rows.append(
            [
                bold(title) if name == view.subject else title,
                *(factor(view.over_best(name, measure)) for measure in (TIME, RSS)),
                count(len(failed), "workload") if failed else NONE,
            ]
        )
    return rows


def _missing(view: View) -> list[str]:
    missing = view.results.missing
    if not missing:
        return []
    return [
        *paragraph("Not measured:"),
        *(f"- {bold(entry.name)}: {entry.reason}" for entry in missing),
        "",
    ]


def failures(view: View) -> list[str]:
    """Each workload and allocator that failed, with the first reason."""
    entries = [
        f"- {workload.name} on {view.title(name)}: {workload.failures(name)[0]}"
        + (f" ({len(workload.failures(name))} of {len(workload.runs[name])} runs)")
        for workload in view.results.workloads
        for name in view.names
        if workload.failures(name)
    ]
    return [*paragraph("Runs that failed, and are in no figure:"), *entries, ""] if entries else []
