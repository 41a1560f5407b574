"""What more threads bring: each allocator's operations a second over its own with one thread."""

from collections.abc import Callable
from dataclasses import dataclass

from bench.estimate import best, median
from bench.page.markdown import NONE, bold, count, digits, factor, folded, heading, listed, paragraph, table
from bench.results import ScalingResult
from bench.view import View

_MILLION = 1_000_000


@dataclass(frozen=True)
class _Loop:
    by_threads: dict[int, ScalingResult]

    @property
    def any(self) -> ScalingResult:
        return next(iter(self.by_threads.values()))

    def rate(self, threads: int, allocator: str) -> float | None:
        """Operations a second of all threads together: the median over the rounds."""
        if (result := self.by_threads.get(threads)) is None:
            return None
        rates = [1 / run.time for run in result.good(allocator)]
        return median(rates) if rates else None

    def ratio(self, threads: int, allocator: str) -> float | None:
        """To the rate with one thread."""
        one, several = self.rate(1, allocator), self.rate(threads, allocator)
        return several / one if one and several else None


_Figure = Callable[[_Loop, int, str], float | None]


def lines(view: View) -> list[str]:
    measured = view.results.scaling
    if not measured:
        return []
    loops = _loops(measured)
    counts = sorted({result.threads for result in measured})
    more = [threads for threads in counts if threads > 1]
    return [
        *heading(2, "Scaling"),
        *paragraph(
            "Does a program get more done with more threads? Each loop here is run with",
            f"{listed([str(threads) for threads in counts])} threads{_on_cores(view)}. The figures are what",
            "all threads together do in a second, divided by what one thread does on the same allocator in a",
            "program that has no other, which some allocators treat specially (medians over the rounds).",
            "About the number of cores is the best that can be expected, however many threads there are.",
            "1.00 means that the threads together do no more than one alone; below 1, they do less: because",
            "they wait for each other, or because their memory no longer fits the caches. A thread's first",
            "steps are slow ones, since its memory is used for the first time; the runs are short, so that",
            "this counts, with very many threads most of all. In a longer run it counts less.",
        ),
        *_machine(view, loops, more),
        *_subject(view, loops, more),
        *folded(
            "Operations with several threads over those with one, on every allocator, the best of each row "
            "in bold",
            table(_columns(view), _rows(view, loops, more, _Loop.ratio, factor)),
        ),
        *folded(
            "Millions of operations a second, of all threads together, on every allocator, the best of each "
            "row in bold",
            table(_columns(view), _rows(view, loops, counts, _Loop.rate, _millions)),
        ),
        *(f"- {bold(loop.any.name)}: {loop.any.stands_for}" for loop in loops),
        "",
        *_failures(view, measured),
    ]


def _loops(measured: list[ScalingResult]) -> list[_Loop]:
    loops: dict[str, _Loop] = {}
    for result in measured:
        loops.setdefault(result.name, _Loop({})).by_threads[result.threads] = result
    return list(loops.values())


def _on_cores(view: View) -> str:
    cores = view.results.machine.get("cores")
    return f", on a machine of {cores} {'core' if cores == '1' else 'cores'}" if cores else ""


def _machine(view: View, loops: list[_Loop], counts: list[int]) -> list[str]:
    rows = []
    for loop in loops:
        for threads in counts if loop.any.control else ():
            found = [ratio for name in view.names if (ratio := loop.ratio(threads, name)) is not None]
            shown = (min(found), median(found), max(found)) if found else (None,) * 3
            rows.append([loop.any.name, str(threads), *(factor(value) for value in shown)])
    if not rows:
        return []
    return [
        *paragraph(
            f"{bold('What the machine gives.')} These loops allocate nothing, so that no allocator has a",
            "part in them: where they stay below the number of cores, the reason is the machine, its caches,",
            "or somebody else who uses it. Each was run with every allocator loaded all the same: how far",
            "the lowest and the highest are apart is how far the figures of this section differ by chance.",
        ),
        *table(["loop without an allocator", "threads", "lowest", "median", "highest"], rows),
    ]


def _subject(view: View, loops: list[_Loop], counts: list[int]) -> list[str]:
    loads = [loop for loop in loops if not loop.any.control]
    if view.subject not in view.names or not loads:
        return []
    return [
        *paragraph(
            f"{bold('What the allocators make of it.')} The best peer by this measure is whichever of the",
            "others gains the most, and need not be a fast one: where a single thread is slow, there is much",
            "to gain. So beside it stands who is the fastest with that many threads, whatever it does with",
            "one.",
        ),
        *table(
            [
                *("loop", "threads", view.title(view.subject), "best peer", ""),
                *(f"{view.short}, millions a second", "fastest peer", ""),
            ],
            (_row(view, loop, threads) for loop in loads for threads in counts),
        ),
    ]


def _row(view: View, loop: _Loop, threads: int) -> list[str]:
    ratio, rate = loop.ratio(threads, view.subject), loop.rate(threads, view.subject)
    return [
        *(loop.any.name, str(threads)),
        *(bold(factor(ratio)) if ratio else NONE, *_best_peer(view, loop, threads, _Loop.ratio, factor)),
        *(_millions(rate), *_best_peer(view, loop, threads, _Loop.rate, _millions)),
    ]


def _best_peer(
    view: View, loop: _Loop, threads: int, figure: _Figure, form: Callable[[float | None], str]
) -> list[str]:
    def negated(name: str) -> float | None:
        value = figure(loop, threads, name)
        return None if value is None else -value

    name = best(view.peers, negated)
    return [NONE, NONE] if name is None else [view.title(name), form(figure(loop, threads, name))]


def _columns(view: View) -> list[str]:
    return ["loop", "threads", *(view.title(name) for name in view.names)]


def _rows(
    view: View, loops: list[_Loop], counts: list[int], figure: _Figure, form: Callable[[float | None], str]
) -> list[list[str]]:
    rows = []
    for loop in loops:
        for threads in counts:
            values = [figure(loop, threads, name) for name in view.names]
            # Which allocator a loop without one runs fastest on is chance.
            most = None if loop.any.control else max((v for v in values if v is not None), default=None)
            cells = [bold(form(v)) if v is not None and v == most else form(v) for v in values]
            rows.append([loop.any.name, str(threads), *cells])
    return rows


def _millions(rate: float | None) -> str:
    return NONE if rate is None else digits(rate / _MILLION)


def _failures(view: View, measured: list[ScalingResult]) -> list[str]:
    reasons = [
        f"- {result.name}, threads: {result.threads}, on {view.title(name)}: {failures[0]} "
        f"({count(len(failures), 'run')})"
        for result in measured
        for name in view.names
        if (failures := result.failures(name))
    ]
    return [*paragraph("Runs that failed, and are in no figure:"), *reasons, ""] if reasons else []
