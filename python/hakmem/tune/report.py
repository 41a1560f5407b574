"""What `hakmem tune` prints and writes."""

from collections.abc import Sequence
from typing import Any, TextIO

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hakmem.ending import ending
from hakmem.report import children_note, ratio_text
from hakmem.tune.search import FINAL_ROUNDS, Contender, Match, Tuning, ratios_of, wins_of


def print_tuning(to: Console, command: str, tuning: Tuning) -> None:
    to.print()
    tried = sorted(
        (entry for entry in tuning.contenders if entry.matches),
        key=lambda entry: entry.advantage(tuning.price),
        reverse=True,
    )
    if tried:
        heading = f"{command}: what settings bring, over those in force; for {tuning.price.name}, best first"
        to.print(Text(heading, style="bold"))
        to.print(_table(tried, tuning))
        if note := children_note([tuning.shown.measurement] if tuning.shown else []):
            to.print(f"peak RSS: {note}")
    if untried := [
        entry.policy.name for entry in tuning.contenders if not entry.matches and not entry.failed
    ]:
        to.print(f"Not tried, for want of rounds: {', '.join(untried)}.")
    for entry in (tuning.reference, *tuning.contenders):
        if entry.failed:
            _print_failure(to, entry)
    if tuning.interrupted:
        to.print("Stopped: no further rounds, and no verdict.")
    elif tuning.finalist:
        _print_verdict(to, tuning)


def write_settings(to: TextIO, command: str, tuning: Tuning) -> None:
    """As systemd's EnvironmentFile= and a shell read it."""
    line = command.replace("\n", " ")
    if not tuning.found():
        to.write(f"# hakmem tune, for {tuning.price.name}: nothing better than before was found for {line}\n")
        return
    to.write(f"# hakmem tune, for {tuning.price.name}: {line}\n")
    to.writelines(f"{name}={value}\n" for name, value in _found(tuning).items())


def tuning_document(command: Sequence[str], tuning: Tuning) -> dict[str, Any]:
    """All of it, for programs."""
    return {
        "command": list(command),
        "for": tuning.price.name,
        "time_weight": tuning.price.time_weight,
        "in_force": dict(tuning.reference.settings),
        "tried": [_entry(entry, tuning) for entry in tuning.contenders],
        "finalist": tuning.finalist.policy.name if tuning.finalist else None,
        "final": [_match_entry(match) for match in tuning.final],
        "found": tuning.found(),
        "settings": _found(tuning),
        "interrupted": tuning.interrupted,
        "exit_status": tuning.exit_status(),
    }


def _found(tuning: Tuning) -> dict[str, str]:
    """What to set, if anything."""
    return dict(tuning.finalist.policy.variables) if tuning.finalist and tuning.found() else {}


def _table(entries: Sequence[Contender], tuning: Tuning) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in ("settings", "what they are"):
        table.add_column(title, overflow="fold", no_wrap=title == "settings")
    for title in ("time", "peak RSS", "better in"):
        table.add_column(title, justify="right", no_wrap=True)
    for entry in entries:
        table.add_row(
            Text(entry.policy.name),
            Text(entry.policy.what),
            *map(ratio_text, ratios_of(entry.matches)),
            f"{wins_of(entry.matches, tuning.price)} of {len(entry.matches)}",
        )
    return table


def _print_verdict(to: Console, tuning: Tuning) -> None:
    assert tuning.finalist
    name = tuning.finalist.policy.name
    if len(tuning.final) < FINAL_ROUNDS:
        to.print(f"No verdict: not all {FINAL_ROUNDS} further rounds with {name} ended as they should.")
        return
    time, memory = ratios_of(tuning.final)
    figures = (
        f"{time:.2f} of the time and {memory:.2f} of the peak RSS, better in "
        f"{wins_of(tuning.final, tuning.price)} of "
        f"{FINAL_ROUNDS} further rounds"
    )
    if tuning.found():
        settings = " ".join(f"{key}={value}" for key, value in _found(tuning).items())
        to.print(Text(f"{name} is better: {figures}.", style="bold green"), soft_wrap=True)
        to.print(Text(f"  {settings}"), soft_wrap=True)
    else:
        text = f"Nothing is reliably better than the settings in force. Nearest was {name}: {figures}."
        to.print(Text(text, style="bold"), soft_wrap=True)


def _print_failure(to: Console, entry: Contender) -> None:
    assert entry.failed
    how = ending(entry.failed.measurement.status)
    to.print(Text(f"With {entry.policy.name}, the program {how}.", style="bold red"), soft_wrap=True)
    if entry.failed.stderr_end:
        to.print(Text(f"    it said: {entry.failed.stderr_end}"), soft_wrap=True)


def _entry(entry: Contender, tuning: Tuning) -> dict[str, Any]:
    time, memory = ratios_of(entry.matches) if entry.matches else (None, None)
    return {
        "name": entry.policy.name,
        "what": entry.policy.what,
        "settings": dict(entry.settings),
        "time_ratio": time,
        "peak_rss_ratio": memory,
        "advantage": entry.advantage(tuning.price),
        "matches": [_match_entry(match) for match in entry.matches],
        "failed": ending(entry.failed.measurement.status) if entry.failed else None,
    }


def _match_entry(match: Match) -> dict[str, float]:
    return {"time_ratio": match.time, "peak_rss_ratio": match.memory}
