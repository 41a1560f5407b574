"""Runs a program once and measures it, down to the memory it still holds at the moment it exits."""

import os
import resource
import select
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from hakmem import trace
from hakmem.errors import EXIT_NOT_EXECUTABLE
from hakmem.program import cannot_execute

_POLL_SECONDS = 0.002
# A process that lives longer than its memory takes to unmap has gone on after its first thread ended.
_TEARDOWN_SECONDS = 0.05
_TEARDOWN_SECONDS_PER_BYTE = 1 / 2**30


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
        # The name, in parentheses, may hold spaces; minor faults are the 10th field, major ones the 12th.
        numbers = (
            Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        )
        status = _fields(Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace"))
        return cls(
            minor_faults=int(numbers[7]),
            major_faults=int(numbers[9]),
            voluntary_switches=int(status["voluntary_ctxt_switches"]),
            involuntary_switches=int(status["nonvoluntary_ctxt_switches"]),
        )


@dataclass
class _Observed:
    """What was seen of the process itself while it ran."""

    on_exec: Callable[[int], None]
    started: float = 0.0
    peak_rss: int = 0
    end_rss: int = 0
    exited: float | None = None
    before_exec: "_Counts | None" = None
    mapped: bool | None = None

    def look(self, pid: int) -> None:
        try:
            text = Path(f"/proc/{pid}/status").read_text(
                encoding="utf-8", errors="replace"
            )  # names may be any bytes
        except OSError:
            return
        fields = _fields(text)
        if "VmRSS" in fields:  # a process that has let go of its memory has none
            self.end_rss = _kilobytes(fields["VmRSS"])
            self.peak_rss = max(self.peak_rss, _kilobytes(fields["VmHWM"]))

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
        guard.pid = child.pid
        traced = not polling and trace.seize(child.pid)
        guard.kill_after(timeout_seconds)
        on_start()
        observed = _Observed(on_exec)
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
    return Measurement(
        pid=child.pid,
        status=status,
        wall_seconds=ended - observed.started,
        cpu_seconds=usage.ru_utime + usage.ru_stime,
        peak_rss=_peak(observed, usage),
        end_rss=observed.end_rss,
        end_rss_exact=_is_exact(observed, ended),
        minor_faults=max(0, usage.ru_minflt - before.minor_faults),
        major_faults=max(0, usage.ru_majflt - before.major_faults),
        voluntary_switches=max(0, usage.ru_nvcsw - before.voluntary_switches),
        involuntary_switches=max(0, usage.ru_nivcsw - before.involuntary_switches),
        interrupted=guard.interrupted,
        mapped=observed.mapped,
        timed_out=guard.timed_out,
    )


class _Child:
    """A forked process that waits for the word to become the program."""

    def __init__(
        self,
        program: Path,
        arguments: tuple[str, ...],
        environment: Mapping[str, str],
        streams: Streams,
        guard: "SignalGuard",
    ) -> None:
        self._program = program
        go_reader, self._go_writer = os.pipe()
        self._error_reader, error_writer = os.pipe()  # closed by a successful exec
        self.pid = os.fork()
        if self.pid == 0:
            try:
                guard.restore()
                os.close(self._go_writer)
                if os.read(go_reader, 1):
                    for descriptor, target in ((streams.stdin, 0), (streams.stdout, 1), (streams.stderr, 2)):
                        os.dup2(descriptor, target)
                    os.execve(program, arguments, environment)
            except OSError as error:
                os.write(error_writer, str(error.errno).encode())
            finally:
                os._exit(EXIT_NOT_EXECUTABLE)
        os.close(go_reader)
        os.close(error_writer)

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


@dataclass
class SignalGuard:
    """Leaves the terminal's signals to the program, passes others on, and notes that they came.

    Around several runs, which have their own, it notes what comes between them.
    """

    pid: int = 0
    interrupted: bool = False
    timed_out: bool = False
    _saved: dict[int, object] = field(default_factory=dict)

    def __enter__(self) -> "SignalGuard":
        for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._saved[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        if signal.SIGALRM in self._saved:
            signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in self._saved.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def ignore_terminal_stop(self) -> None:
        # A tracer that stopped before it has let its tracee have the same signal would leave it stuck.
        self._saved[signal.SIGTSTP] = signal.signal(signal.SIGTSTP, signal.SIG_IGN)

    def kill_after(self, seconds: float | None) -> None:
        if seconds is not None:
            self._saved[signal.SIGALRM] = signal.signal(signal.SIGALRM, self._on_timeout)
            signal.setitimer(signal.ITIMER_REAL, seconds)

    def restore(self) -> None:
        """In the child: the dispositions that a program expects to start with."""
        for number in (*self._saved, signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores the last two
            signal.signal(number, signal.SIG_DFL)

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        self.interrupted = True
        # The terminal sends SIGINT and SIGQUIT to the program as well.
        if number in (signal.SIGTERM, signal.SIGHUP) and self.pid:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def _on_timeout(self, *_: object) -> None:
        self.timed_out = True
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)


def _wait_traced(pid: int, observed: _Observed, look_for: Path | None) -> tuple[int, resource.struct_rusage]:
    while True:
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
    ended = os.pidfd_open(pid)
    try:
        while not select.select([ended], [], [], _POLL_SECONDS)[0]:
            observed.look(pid)
    finally:
        os.close(ended)
    _, status, usage = os.wait4(pid, 0)
    return status, usage


def _peak(observed: _Observed, usage: resource.struct_rusage) -> int:
    """The program's peak, or that of a child of its if that is higher."""
    # The kernel's figure includes what the process was before exec: a copy of this interpreter.
    before_exec = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with_children = usage.ru_maxrss if usage.ru_maxrss > before_exec else 0
    return max(observed.peak_rss, with_children * 1024)


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


def _fields(status: str) -> dict[str, str]:
    """Of /proc/PID/status."""
    # The name may hold other ends of lines than the kernel's.
    return dict(line.split(":", 1) for line in status.split("\n") if ":" in line)


def _kilobytes(text: str) -> int:
    return int(text.split(maxsplit=1)[0]) * 1024
