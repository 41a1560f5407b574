"""Finds the program a command names and says, before it runs, why it could not be preloaded."""

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from hakmem.errors import EXIT_NOT_EXECUTABLE, EXIT_NOT_FOUND, HakmemError
from hakmem.library import find_library

# The kernel itself follows a script's interpreter this deep.
_MAX_INTERPRETERS = 5
_SHEBANG_BYTES = 256


def program_and_library(command: Sequence[str]) -> tuple[Path, Path]:
    """The program that `command` runs, and the library, which fits it."""
    if not command:
        raise no_command()
    library = find_library()
    program = resolve(command[0])
    require_preloadable(program, library)
    return program, library


def no_command() -> HakmemError:
    return HakmemError("no command given: name the program to run, with its arguments", EXIT_NOT_FOUND)


def resolve(command: str) -> Path:
    """The file that running `command` would execute, found as the shell does."""
    if not command:
        raise HakmemError("the command is empty", EXIT_NOT_FOUND)
    if "/" in command:
        candidates = [Path(command)]
    else:
        candidates = [Path(folder or ".", command) for folder in os.get_exec_path()]
    blocked: str | None = None
    for path in candidates:
        try:
            is_folder = stat.S_ISDIR(path.stat().st_mode)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            reason, passed_over = error.strerror, True
        else:
            if not is_folder and os.access(path, os.X_OK):
                return path
            missing = "permission to execute it is missing (chmod +x?)"
            reason, passed_over = ("it is a directory" if is_folder else missing), is_folder
        # In PATH, a shell takes no notice of what it may not look at.
        if "/" in command or not passed_over:
            blocked = blocked or f"cannot run '{path}': {reason}"
    if blocked:
        raise HakmemError(blocked, EXIT_NOT_EXECUTABLE)
    where = "no such file" if "/" in command else "not found in PATH"
    raise HakmemError(f"cannot run '{command}': {where}", EXIT_NOT_FOUND)


def require_preloadable(program: Path, library: Path, what: str = "HAKMEM") -> None:
    """Raises if the dynamic linker would not, or not be asked to, load `library` into `program`."""
    from hakmem.elf import misfit  # noqa: PLC0415 # its library takes a while to load

    path = program
    for _ in range(_MAX_INTERPRETERS):
        interpreter = _interpreter_of_script(path)
        if interpreter is None:
            break
        path = interpreter
    problem = _privilege_problem(path) or misfit(path, library)
    if problem:
        shown = f"'{program}'" if path == program else f"'{program}' (through '{path}')"
        raise HakmemError(f"cannot preload {what} into {shown}: {problem}", EXIT_NOT_EXECUTABLE)


def _interpreter_of_script(path: Path) -> Path | None:
    try:
        with path.open("rb") as file:
            start = file.read(_SHEBANG_BYTES)
    except OSError:
        return None  # executable but not readable: nothing to learn
    if not start.startswith(b"#!"):
        return None
    words = start[2:].split(b"\n", 1)[0].split()
    return Path(os.fsdecode(words[0])) if words else None


def _privilege_problem(path: Path) -> str | None:
    try:
        status = path.stat()
    except OSError as error:
        return error.strerror
    gains_user = status.st_mode & stat.S_ISUID and status.st_uid != os.geteuid()
    # Without the group's execute bit the kernel takes set-group-ID as a lock mark.
    group_bits = stat.S_ISGID | stat.S_IXGRP
    gains_group = status.st_mode & group_bits == group_bits and status.st_gid != os.getegid()
    if gains_user or gains_group or (os.geteuid() != 0 and _has_capabilities(path)):
        return "it is set-user-ID, set-group-ID or has file capabilities, so the system ignores LD_PRELOAD"
    return None


def _has_capabilities(path: Path) -> bool:
    try:
        return bool(os.getxattr(path, "security.capability"))
    except OSError:
        return False


def name_to_execute(program: Path) -> str:
    """The program's path for exec: without a slash, it would be looked for in PATH, here or by a script that
    runs itself again."""
    name = os.fspath(program)
    return name if "/" in name else f"./{name}"


def cannot_execute(program: Path, error: OSError | int) -> HakmemError:
    """The kernel's own refusal, given as the exception or its number."""
    code = error if isinstance(error, int) else error.errno or 0
    return HakmemError(f"cannot run '{program}': {os.strerror(code)}", EXIT_NOT_EXECUTABLE)
