"""The few ptrace requests needed to see a process at the moments it starts and ends, through ctypes."""

import ctypes
import os
import signal

# From <sys/ptrace.h> and <sys/wait.h>; the kernel keeps them stable.
_PTRACE_CONT = 7
_PTRACE_SEIZE = 0x4206
_PTRACE_LISTEN = 0x4208
_O_TRACEEXEC = 1 << 4
_O_TRACEEXIT = 1 << 6
EVENT_EXEC = 4
EVENT_EXIT = 6
_EVENT_STOP = 128
WAIT_ALL = 0x40000000

_TERMINAL_STOPS = (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)
_GROUP_STOPS = (signal.SIGSTOP, *_TERMINAL_STOPS)


def seize(pid: int) -> bool:
    """Traces `pid`'s first thread, its execs and its exit only; False if the system refuses."""
    return _ptrace(_PTRACE_SEIZE, pid, _O_TRACEEXEC | _O_TRACEEXIT)


def event_of(status: int) -> int:
    return status >> 16


def resume(pid: int, status: int) -> None:
    """Lets a process that reported `status` go on as if it were not traced."""
    stop_signal = os.WSTOPSIG(status)
    if event_of(status) == 0:
        _ptrace(_PTRACE_CONT, pid, stop_signal)  # about to get a signal: let it have it
    elif event_of(status) == _EVENT_STOP and stop_signal in _GROUP_STOPS:
        _ptrace(_PTRACE_LISTEN, pid, 0)  # it stays stopped until SIGCONT
        if stop_signal in _TERMINAL_STOPS:
            os.kill(os.getpid(), signal.SIGSTOP)  # the shell waits for this process to stop, too
    else:
        _ptrace(_PTRACE_CONT, pid, 0)


def _ptrace(request: int, pid: int, data: int) -> bool:
    # A failure to resume means that the process was killed meanwhile; waiting for it tells that.
    return int(_libc.ptrace(request, pid, None, ctypes.c_void_p(data))) == 0


_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.restype = ctypes.c_long
