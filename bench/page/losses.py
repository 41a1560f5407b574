"""Where the subject loses, worst first; then where it wins, best first: both lists in the same form."""

from bench.page.markdown import bold, factor, heading, paragraph, table
from bench.page.summary import measured
from bench.view import MEASURES, Measure, Verdict, View


def lines(view: View) -> list[str]:
    if view.subject not in view.names:
        return []
    subject = view.short
    return [
        *heading(2, "Losses and wins"),
        *paragraph(
            f"Every workload in which {subject} and the best peer are further apart than noise and 2 %, with",
            f"what {subject} takes over what that peer takes.",
        ),
        *(line for measure in MEASURES for line in _of(view, measure, "loses", f"{subject} loses")),
        *(line for measure in MEASURES for line in _of(view, measure, "wins", f"{subject} wins")),
    ]


def _of(view: View, measure: Measure, word: str, title: str) -> list[str]:
    found = [verdict for verdict in view.verdicts_against_best(measure) if verdict.word == word]
    found.sort(key=lambda verdict: verdict.ratio.value, reverse=word == "loses")
    if not found:
        return paragraph(bold(f"{title}, {measured(measure).lower()}:"), "nowhere.")
    return [
        *paragraph(bold(f"{title}, {measured(measure).lower()}:")),
        *table(["workload", "ratio", "best peer"], (_row(view, verdict) for verdict in found)),
    ]


def _row(view: View, verdict: Verdict) -> list[str]:
    return [verdict.workload.name, bold(factor(verdict.ratio.value)), view.title(verdict.other)]
