"""Markdown's pieces, and numbers as people read them."""

from collections.abc import Callable, Iterable, Mapping, Sequence

_SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
NONE = "-"  # in place of a figure that there is not

_BYTES = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def heading(level: int, text: str) -> list[str]:
    return ["#" * level + " " + text, ""]


def paragraph(*sentences: str) -> list[str]:
    return [" ".join(sentences), ""]


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The first column is text, the others are figures. Nothing without rows."""
    body = [f"| {' | '.join(_cell(cell) for cell in row)} |" for row in rows]
    if not body:
        return []
    rule = ["---", *["---:"] * (len(columns) - 1)]
    return [f"| {' | '.join(columns)} |", f"| {' | '.join(rule)} |", *body, ""]


def _none(_: str) -> str:
    return NONE


def side_by_side(
    title: str,
    names: Iterable[str],
    values: Mapping[str, float],
    form: Callable[[float], str],
    absent: Callable[[str], str] = _none,
) -> list[str]:
    """A row with the figure of each of `names`, the least of them in bold."""
    least = min(values.values(), default=None)
    cells = [title]
    for name in names:
        if name not in values:
            cells.append(absent(name))
        else:
            text = form(values[name])
            cells.append(bold(text) if values[name] == least else text)
    return cells


def not_counted(reasons: Iterable[str]) -> list[str]:
    """Each reason once; nothing without any."""
    told = list(dict.fromkeys(f"- {reason}" for reason in reasons))
    return [*paragraph("Not counted:"), *told, ""] if told else []


def picture(caption: str, file: str) -> list[str]:
    return [f"![{caption}]({file})", ""]


def folded(title: str, lines: list[str]) -> list[str]:
    """Shown when the reader asks for it."""
    return ["<details>", f"<summary>{title}</summary>", "", *lines, "</details>", ""] if lines else []


def bold(text: str) -> str:
    return f"**{text}**"


def seconds(value: float) -> str:
    factor, unit = next((entry for entry in _SECONDS if value >= entry[0]), _SECONDS[-1])
    return f"{digits(value / factor)} {unit}"


def size(value: float) -> str:
    factor, unit = next((entry for entry in _BYTES if abs(value) >= entry[0]), (1, "B"))
    return f"{digits(value / factor)} {unit}"


def digits(value: float) -> str:
    """Three of them: more would claim too much."""
    return (
        f"{value:.0f}" if abs(value) >= 99.95 else f"{value:.1f}" if abs(value) >= 9.995 else f"{value:.2f}"
    )


def percent(value: float) -> str:
    """0.052 is +5.2 %."""
    part = abs(value) * 100
    decimals = 0 if part >= 99.95 else 1 if part >= 0.995 else 2
    return f"{value * 100:+.{decimals}f} %"


def factor(value: float | None) -> str:
    return NONE if value is None else f"{value:.2f}"


def listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else "none"


def count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
