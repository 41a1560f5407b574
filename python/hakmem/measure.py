"""Runs a program once and measures it, down to the memory it still holds at the moment it exits."""

import os
import resource
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from hakmem import small_start, trace
from hakmem.inside.process import ending_of
from hakmem.proc import kilobytes, stat_fields, status_fields
from hakmem.program import cannot_execute, name_to_execute
from hakmem.signals import SignalGuard

_POLL_SECONDS = 0.002
# A process that lives longer than its memory takes to unmap has gone on after its first thread ended.
_TEARDOWN_SECONDS = 0.05
_TEARDOWN_SECONDS_PER_BYTE = 1 / 2**30
# What a process may grow by while it becomes the program: next to nothing, but the kernel's counts are rough.
_EXEC_BYTES = 1 << 20
_ENDINGS = (os.CLD_EXITED, os.CLD_KILLED, os.CLD_DUMPED)
# Of stat_fields.
_MINOR_FAULTS, _MINOR_FAULTS_OF_CHILDREN, _MAJOR_FAULTS = 7, 8, 9


@dataclass(frozen=True)
class Measurement:
    pid: int
    status: int  # as wait gives it
    wall_seconds: float
    cpu_seconds: float
    peak_rss: int  # bytes, as all sizes here
    end_rss: int
    end_rss_exact: bool
    minor_faults: int
    major_faults: int
    voluntary_switches: int
    involuntary_switches: int
    interrupted: bool  # the user asked to stop
    mapped: bool | None  # whether the file looked for was mapped at the end; None if not known
    timed_out: bool = False  # it was killed because its time was over
    # None of the processes that it started took more; None if `peak_rss` is theirs, too, or there were none.
    children_peak_at_most: int | None = None


@dataclass(frozen=True)
class Streams:
    """The descriptors a program gets as its standard ones."""

    stdin: int = 0
    stdout: int = 1
    stderr: int = 2


@dataclass(frozen=True)
class _Counts:
    """What the kernel had counted of the process before it became the program."""

    minor_faults: int = 0
    major_faults: int = 0
    voluntary_switches: int = 0
    involuntary_switches: int = 0

    @classmethod
    def of_process(cls, pid: int) -> "_Counts":
        numbers = stat_fields(pid)
        status = status_fields(pid)
        return cls(
            minor_faults=int(numbers[_MINOR_FAULTS]),
            major_faults=int(numbers[_MAJOR_FAULTS]),
            voluntary_switches=int(status["voluntary_ctxt_switches"]),
            involuntary_switches=int(status["nonvoluntary_ctxt_switches"]),
        )


@dataclass
class _Observed:
    """What was seen of the process itself while it ran."""

    on_exec: Callable[[int], None]
    size_before_exec: int  # the most it was before it became the program
    started: float = 0.0
    peak_rss: int = 0
    end_rss: int = 0
    exited: float | None = None
    before_exec: "_Counts | None" = None
    mapped: bool | None = None
    had_children: bool = False  # and waited for them

    def look(self, pid: int) -> None:
        try:
            fields = status_fields(pid)
        except OSError:
            return
        if "VmRSS" in fields:  # a process that has let go of its memory has none
            self.end_rss = kilobytes(fields["VmRSS"])
            self.peak_rss = max(self.peak_rss, kilobytes(fields["VmHWM"]))

    def look_at_ended(self, pid: int) -> None:
        """Before it is waited for."""
        self.had_children = int(stat_fields(pid)[_MINOR_FAULTS_OF_CHILDREN]) > 0

    def start(self, pid: int) -> None:
        if self.before_exec is None:
            self.before_exec = _Counts.of_process(pid)
            self.on_exec(pid)
            self.started = time.monotonic()


def run_measured(
    program: Path,
    arguments: tuple[str, ...],
    environment: Mapping[str, str],
    streams: Streams | None = None,
    *,
    polling: bool = False,
    look_for: Path | None = None,
    timeout_seconds: float | None = None,
    on_start: Callable[[], None] = lambda: None,
    on_exec: Callable[[int], None] = lambda pid: None,
) -> Measurement:
    """Runs `program` to its end; `on_start` is called once it has been forked, `on_exec` once it runs.

    With `timeout_seconds`, it is killed when it has run for so long; only the main thread may ask for that.

    With `polling`, or where the system refuses tracing, the memory at the end is the last seen.
    """
    with SignalGuard() as guard:
        child = _Child(program, arguments, environment, streams or Streams(), guard)
        guard.pass_on_to(child.pid)
        traced = not polling and trace.seize(child.pid)
        guard.kill_after(timeout_seconds)
        on_start()
        observed = _Observed(on_exec, size_before_exec=_peak_of_process(child.pid))
        if traced:
            guard.ignore_terminal_stop()
            child.go()
            status, usage = _wait_traced(child.pid, observed, look_for)
            ended = time.monotonic()
            child.require_executed()
        else:
            child.go()
            child.require_executed()
            observed.start(child.pid)
            status, usage = _wait_polling(child.pid, observed)
            ended = time.monotonic()
    before = observed.before_exec or _Counts()
    peak, children_peak_at_most = _peaks(observed, usage)
    return Measurement(
        pid=child.pid,
        status=status,
        wall_seconds=ended - observed.started,
        cpu_seconds=usage.ru_utime + usage.ru_stime,
        peak_rss=peak,
        end_rss=observed.end_rss,
        end_rss_exact=_is_exact(observed, ended),
        minor_faults=max(0, usage.ru_minflt - before.minor_faults),
        major_faults=max(0, usage.ru_majflt - before.major_faults),
        voluntary_switches=max(0, usage.ru_nvcsw - before.voluntary_switches),
        involuntary_switches=max(0, usage.ru_nivcsw - before.involuntary_switches),
        interrupted=guard.interrupted,
        mapped=observed.mapped,
        timed_out=guard.timed_out,
        children_peak_at_most=children_peak_at_most,
    )


class _Child:
    """A process that waits for the word to become the program."""

    def __init__(
        self,
        program: Path,
        arguments: tuple[str, ...],
        environment: Mapping[str, str],
        streams: Streams,
        guard: SignalGuard,
    ) -> None:
        self._program = program
        go_reader, self._go_writer = os.pipe()
        self._error_reader, error_writer = os.pipe()  # closed by a successful exec
        order = small_start.Order(
            program=os.fsencode(name_to_execute(program)),
            arguments=[os.fsencode(argument) for argument in arguments],
            environment={os.fsencode(name): os.fsencode(value) for name, value in environment.items()},
            streams=(streams.stdin, streams.stdout, streams.stderr),
            ready=-1,
            go=go_reader,
            error=error_writer,
            default_signals=[int(number) for number in guard.default_signals()],
            blocked_signals=small_start.blocked_signals(),
        )
        self._guard = guard
        self.pid = small_start.start(order, self._prepare_copy)
        os.close(go_reader)
        os.close(error_writer)

    def _prepare_copy(self) -> None:
        self._guard.restore()
        os.close(self._go_writer)

    def go(self) -> None:
        with suppress(BrokenPipeError):  # killed before it began
            os.write(self._go_writer, b"g")
        os.close(self._go_writer)

    def require_executed(self) -> None:
        """Returns when the child has become the program, or raises if it could not."""
        code = os.read(self._error_reader, 16)
        os.close(self._error_reader)
        if code:
            raise cannot_execute(self._program, int(code))


def _wait_traced(pid: int, observed: _Observed, look_for: Path | None) -> tuple[int, resource.struct_rusage]:
    while True:
        seen = os.waitid(os.P_PID, pid, os.WEXITED | os.WSTOPPED | os.WNOWAIT | trace.WAIT_ALL)
        if seen and seen.si_code in _ENDINGS:
            observed.look_at_ended(pid)
        _, status, usage = os.wait4(pid, trace.WAIT_ALL)
        if not os.WIFSTOPPED(status):
            return status, usage
        if trace.event_of(status) == trace.EVENT_EXEC:
            observed.start(pid)
        elif trace.event_of(status) == trace.EVENT_EXIT:
            observed.look(pid)
            if look_for is not None:
                observed.mapped = _is_mapped(pid, look_for)
            observed.exited = time.monotonic()
        trace.resume(pid, status)


def _wait_polling(pid: int, observed: _Observed) -> tuple[int, resource.struct_rusage]:
    with ending_of(pid) as ended:
        while not ended(_POLL_SECONDS):
            observed.look(pid)
        observed.look_at_ended(pid)
    _, status, usage = os.wait4(pid, 0)
    return status, usage


def _peaks(observed: _Observed, usage: resource.struct_rusage) -> tuple[int, int | None]:
    """The program's peak, or that of a child if that is higher, and Measurement.children_peak_at_most."""
    # Of the program, of children that it waited for, and of the process before exec.
    most = usage.ru_maxrss * 1024
    if most > observed.size_before_exec + _EXEC_BYTES or observed.peak_rss == 0:  # or nothing was seen
        return max(observed.peak_rss, most), None
    hidden = observed.had_children and most > observed.peak_rss
    return observed.peak_rss, most if hidden else None


def _peak_of_process(pid: int) -> int:
    fields = status_fields(pid)
    return kilobytes(fields.get("VmHWM", "0"))  # an ended one has none


def _is_exact(observed: _Observed, ended: float) -> bool:
    if observed.exited is None:
        return False
    limit = _TEARDOWN_SECONDS + observed.peak_rss * _TEARDOWN_SECONDS_PER_BYTE
    return ended - observed.exited < limit


def _is_mapped(pid: int, file: Path) -> bool | None:
    try:
        return os.fsencode(file) in Path(f"/proc/{pid}/maps").read_bytes()
    except OSError:
        return None
