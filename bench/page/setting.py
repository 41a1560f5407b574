"""What one needs to know to redo it: method, machine, allocators."""

from bench.page.markdown import bold, heading, paragraph, table
from bench.view import TIME, View


def lines(view: View) -> list[str]:
    results = view.results
    return [
        *heading(2, "How it was measured"),
        *(f"- {bold(name)}: {text}" for name, text in results.method.items()),
        *_rounds(view),
        "",
        *heading(3, "Machine"),
        *_texts(["", ""], [[name, fact] for name, fact in results.machine.items()]),
        *heading(3, "Allocators"),
        *_texts(["allocator", "from where, built how"], [_row(view, name) for name in view.names]),
        *paragraph(
            "Every run is in [results.json](results.json), a summary in [results.csv](results.csv);",
            "[format.md](format.md) says what is in them.",
            "`python -m bench page docs/benchmarks/results.json` makes this page again.",
        ),
    ]


def _rounds(view: View) -> list[str]:
    """What came of the plan, which is all that the results say of it else."""
    found = view.rounds(TIME)
    if found is None:
        return []
    fewest, most = found
    told = f"{fewest} of each" if fewest == most else f"{fewest} to {most}"
    return [f"- {bold('rounds that count')}: {told} of the workloads whose times are compared"]


def _row(view: View, name: str) -> list[str]:
    entry = next(entry for entry in view.results.allocators if entry.name == name)
    variables = "".join(f"; with {key}={value}" for key, value in entry.environment.items())
    digest = f"; SHA-256 {entry.digest}…" if entry.digest else ""
    return [entry.title, f"{entry.origin}{variables}{digest}"]


def _texts(columns: list[str], rows: list[list[str]]) -> list[str]:
    return [line.replace("---:", "---") for line in table(columns, rows)]
