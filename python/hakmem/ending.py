"""How a program ended, in words and as the shell's number."""

import os
import signal


def ending(status: int) -> str:
    """Of a status as wait gives it."""
    return ending_of_code(os.waitstatus_to_exitcode(status))


def ending_of_code(code: int) -> str:
    """Of an exit status, or the number of a signal, negated."""
    if code >= 0:
        return f"ended with exit status {code}"
    return f"was killed by {signal_name(-code)}"


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def shell_status(status: int) -> int:
    return shell_status_of_code(os.waitstatus_to_exitcode(status))


def shell_status_of_code(code: int) -> int:
    return code if code >= 0 else 128 - code
