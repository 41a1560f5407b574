"""`hakmem top`: looks at a process again and again, until it ends."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.live import Live
from rich.segment import Segment
from rich.text import Text

from hakmem import preload
from hakmem.ending import ending_of_code
from hakmem.errors import HakmemError
from hakmem.inside.freshness import LIVE_SECONDS, change_since, shown_age
from hakmem.inside.heap_profile import parse_heap_profile
from hakmem.inside.history import History
from hakmem.inside.live_file import Kind
from hakmem.inside.process import ending_of, family, resident_bytes, resident_now
from hakmem.inside.profile_report import Place, heaviest
from hakmem.inside.stats_report import heading_of
from hakmem.inside.symbols import Symbolizer, parse_mappings
from hakmem.inside.target import Target, open_target
from hakmem.inside.top_output import passed_on
from hakmem.inside.top_view import top_view
from hakmem.program import cannot_execute, name_to_execute
from hakmem.signals import Handlers

_PLAIN_HEIGHT = 30  # where there is no terminal to fit in
_SITES = 5
_SITE_DEPTH = 3
_PROFILE_WAIT_SECONDS = 0.3
_PROFILE_EVERY = 5  # looks
_PROFILE_RETRY = 30  # looks, where nothing is sampled
_LOOKS_FOR_RATES = 2
_AT_ONCE_SECONDS = 0.25  # what is seen so soon after a publication belongs to it


class Watcher:
    """All that is known of one process while it is looked at."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.looks = 0
        self._target: Target | None = None
        self._history = History()
        self._sites: list[Place] = []
        self._symbolizer = Symbolizer([])
        self._next_profile = 1
        self._whole_then = 0  # what the process had when it last published; 0: not seen

    def look(self, size: tuple[int, int]) -> tuple[Target, RenderableType]:
        """What there is to see now; HakmemError if nothing."""
        if self._target is None or self._target.file.is_replaced():
            self.close()
            # A program that becomes another by exec gets another file.
            self._target = open_target(self.pid)
        target = self._target
        publication = target.read()
        self.looks += 1
        now = resident_now(target.pid)
        whole = now.whole if now else 0
        statistics = self._history.add(publication, whole)
        age = publication.age_seconds()
        if not self._history.idle:
            self._whole_then = whole if age <= _AT_ONCE_SECONDS else 0
        change = change_since(publication, statistics, now, self._whole_then)
        state = shown_age(publication) if age > LIVE_SECONDS else "live"
        self._look_at_profile(target)
        headings = [heading_of(statistics, target.pid, state), *([change] if change else [])]
        return target, top_view(headings, statistics, self._history, self._sites, size)

    def close(self) -> None:
        if self._target:
            self._target.file.close()
            self._target = None

    def _look_at_profile(self, target: Target) -> None:
        """Where the process samples, or did, which call sites hold most; asked for now and then."""
        if self.looks < self._next_profile or not target.alive():
            return
        with suppress(HakmemError, OSError):
            sampling = target.file.header().sampling
            if not sampling.interval and not sampling.run:  # it never did
                return
            raw = target.file.request_text(Kind.HEAP, _PROFILE_WAIT_SECONDS, alive=target.alive)
            profile = parse_heap_profile(raw, "the profile")
            self._symbolizer.renew(parse_mappings(profile.mappings), target.root())
            places = heaviest(profile, self._symbolizer, "live", "bytes", depth=_SITE_DEPTH)
            self._sites = places[:_SITES]
        self._next_profile = self.looks + (_PROFILE_EVERY if self._sites else _PROFILE_RETRY)


class _FamilyWatcher:
    """Watches whichever of a command's processes holds most memory: a compiler, not who calls it."""

    def __init__(self, pid: int) -> None:
        self._first = pid
        self.current = Watcher(pid)

    def look(self, size: tuple[int, int]) -> RenderableType:
        refusal = HakmemError("none has been published")
        for pid in sorted(family(self._first), key=resident_bytes, reverse=True):
            watcher = self.current if pid == self.current.pid else Watcher(pid)
            try:
                _, picture = watcher.look(size)
            except HakmemError as error:
                refusal = error
                watcher.close()
                continue
            if watcher is not self.current:
                self.current.close()
                self.current = watcher
            return picture
        raise refusal


def top_of_process(pid: int, interval: float, to: Console, *, once: bool) -> None:
    watcher = Watcher(pid)
    target, picture = watcher.look(_size(to))  # says what is wrong, if anything is
    with _screen(to, once) as show, ending_of(pid) as ended:
        if not once:
            show(picture)
        while target.alive() and not ended(interval):
            target, picture = watcher.look(_size(to))
            show(picture)
            if once:
                return
        if once:
            show(picture)  # without rates: there is no other
    if not target.alive():
        to.print(Text(_how_it_ended(target)), soft_wrap=True)
    watcher.close()


def top_of_command(
    program: Path, command: Sequence[str], library: Path, interval: float, to: Console, *, once: bool
) -> int:
    """Runs the command preloaded to its end; gives its exit status, or the number of a signal, negated."""
    live = _is_drawn_over(to, once)
    output = (subprocess.PIPE, subprocess.STDOUT) if live else (None, None)
    environment = preload.with_hakmem(os.environ, library)
    with _Signals() as signals:
        try:
            child = subprocess.Popen(
                command,
                executable=name_to_execute(program),
                env=environment,
                stdout=output[0],
                stderr=output[1],
            )
        except OSError as error:
            raise cannot_execute(program, error) from error
        signals.go_to(child)
        watcher = _FamilyWatcher(child.pid)
        with _screen(to, once) as show, passed_on(child.stdout, to), ending_of(child.pid) as ended:
            last: RenderableType | None = None
            is_shown = False
            while not ended(interval):
                try:
                    last = watcher.look(_size(to))
                except HakmemError as error:
                    if live:
                        show(Text(f"no figures yet: {error}"))
                    continue
                if not once or (watcher.current.looks >= _LOOKS_FOR_RATES and not is_shown):
                    show(last)
                    is_shown = True
            if last is not None and not is_shown:
                show(last)  # without rates: there is no other
        code = child.wait()
    early = "" if watcher.current.looks else "; it published no figures before that"
    watcher.current.close()
    to.print(Text(f"process {child.pid} ({program.name}) {ending_of_code(code)}{early}"), soft_wrap=True)
    return code


@contextmanager
def _screen(to: Console, once: bool) -> Iterator[Callable[[RenderableType], None]]:
    """A place that each picture takes from the last; without a terminal that can do that, they follow each
    other."""
    if not _is_drawn_over(to, once):
        yield lambda picture: to.print(picture, "")
        return
    with Live(console=to, auto_refresh=False, vertical_overflow="crop") as live:
        yield lambda picture: live.update(_Folded(picture, _columns(to)), refresh=True)


def _is_drawn_over(to: Console, once: bool) -> bool:
    return to.is_terminal and not to.is_dumb_terminal and not once


class _Folded:
    """A picture in lines that the terminal does not break: it is drawn over by going back as many."""

    def __init__(self, picture: RenderableType, columns: int) -> None:
        self._picture = picture
        self._columns = columns

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in console.render_lines(self._picture, options, pad=False):
            width = max(1, Segment.get_line_length(line))
            for part in Segment.divide(line, range(self._columns, width + self._columns, self._columns)):
                yield from part
                yield Segment.line()


def _columns(to: Console) -> int:
    """Of the terminal itself, which may be fewer than tables need."""
    try:
        return os.get_terminal_size(to.file.fileno()).columns or to.width
    except (OSError, ValueError):
        return to.width


class _Signals(Handlers):
    """Passes signals on to the program, from before it starts. The terminal interrupts it by itself, and it
    may have its own way to end: only the second interrupt ends it."""

    def __init__(self) -> None:
        super().__init__()
        self._child: subprocess.Popen[bytes] | None = None
        self._early: list[int] = []
        self._interrupts = 0

    def __enter__(self) -> "_Signals":
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            self.set(number, self._pass_on)
        return self

    def __exit__(self, *_: object) -> None:
        self.put_back()

    def go_to(self, child: "subprocess.Popen[bytes]") -> None:
        self._child = child
        for number in self._early:
            child.send_signal(number)

    def _pass_on(self, number: int, _: FrameType | None) -> None:
        if number == signal.SIGINT:
            self._interrupts += 1
            if self._interrupts == 1:
                return
            number = signal.SIGTERM
        if self._child:
            self._child.send_signal(number)
        else:
            self._early.append(number)


def _how_it_ended(target: Target) -> str:
    if not target.file.is_left():
        return f"{target} has ended"
    return (
        f"{target} has ended without tidying up: a crash, a signal or _exit; "
        f"'hakmem stats {target.pid}' shows its last figures again"
    )


def _size(to: Console) -> tuple[int, int]:
    return to.width, to.height if to.is_terminal else _PLAIN_HEIGHT
