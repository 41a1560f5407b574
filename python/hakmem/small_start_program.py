"""Run as a script: makes a child of this process's own parent, which waits for a word to become a program.

Nothing of the package is imported, and little else: what is in memory here, the child begins with.
"""

from __future__ import annotations

import ctypes
import marshal
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from hakmem.small_start import Order

_NOT_EXECUTABLE = 126  # the exit status
_CLONE = {"x86_64": 56, "aarch64": 220}  # the system call's number
_CLONE_PARENT = 0x8000
_SIGCHLD = 17
_SIG_SETMASK = 2


def become(order: Order) -> NoReturn:
    """Says its process's number, waits for the word, and becomes the program."""
    try:
        try:
            # Cannot be; what is needed to try is in memory from now on, and adds nothing later.
            os.execve(order["program"] + b"/", order["arguments"], order["environment"])
        except OSError:
            os.write(order["ready"], str(os.getpid()).encode())
        if os.read(order["go"], 1):
            for target, descriptor in enumerate(order["streams"]):
                os.dup2(descriptor, target)
            os.execve(order["program"], order["arguments"], order["environment"])
    except OSError as error:
        os.write(order["error"], str(error.errno).encode())
    finally:
        os._exit(_NOT_EXECUTABLE)


def _main(descriptor: int) -> NoReturn:
    order: Order = marshal.loads(os.pread(descriptor, os.fstat(descriptor).st_size, 0))
    libc = ctypes.CDLL(None)
    for number in order["default_signals"]:
        libc.signal(number, None)
    libc.pthread_sigmask(_SIG_SETMASK, order["blocked_signals"], None)
    for own in (descriptor, order["ready"], order["go"], order["error"], *order["streams"]):
        if own > 2:
            os.set_inheritable(own, False)
    nothing = ctypes.c_long(0)
    call = _CLONE.get(os.uname().machine)
    child = call and libc.syscall(call, _CLONE_PARENT | _SIGCHLD, nothing, nothing, nothing, nothing)
    if child == 0:
        become(order)
    os._exit(child is None or child < 0)


if __name__ == "__main__":
    _main(int(sys.argv[1]))
