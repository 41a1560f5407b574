"""Says whether an allocator really serves malloc when it is preloaded here, and in which version."""

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hakmem.ending import ending_of_code, last_words
from hakmem.errors import HakmemError
from hakmem.script import run_python

_PROGRAM = Path(__file__).with_name("probe_program.py")
_HANG_SECONDS = 30
_LIBC_NAMES = ("libc.so", "libc-", "libc.musl", "ld-musl")


@dataclass(frozen=True)
class Probe:
    version: str | None  # as the allocator itself tells it
    libc_growth: int | None  # bytes that libc's own allocator handed out for the 4 MB the program asked for


def probe(library: Path | None, environment: Mapping[str, str]) -> Probe:
    """Runs a small program in `environment`; raises, with the reason, unless `library` serves its malloc.

    None stands for the system's own malloc.
    """
    try:
        done = run_python(str(_PROGRAM), environment=_without_settings(environment), timeout=_HANG_SECONDS)
    except subprocess.TimeoutExpired:
        raise HakmemError(f"a small program hung for {_HANG_SECONDS} s on it") from None
    if done.returncode != 0:
        raise HakmemError(f"a small program {ending_of_code(done.returncode)} on it{last_words(done.stderr)}")
    try:
        found = json.loads(done.stdout)
        servers, facts = found["servers"], Probe(found["version"], found["libc_growth"])
    except (ValueError, KeyError, TypeError) as error:
        raise HakmemError(
            "a small program's answer on it cannot be read: something else writes to its output, too"
            f"{last_words(done.stderr)}"
        ) from error
    for function, server in servers.items():
        if not _is_served_by(library, server):
            by = f"'{server}' serves it" if server else "nobody serves it"
            raise HakmemError(f"it does not serve {function}: {by}{last_words(done.stderr)}")
    return facts


def _without_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """None of HAKMEM's: what the user has it write of programs must not be written of this one."""
    return {name: value for name, value in environment.items() if not name.startswith("HAKMEM_")}


def _is_served_by(library: Path | None, server: str | None) -> bool:
    if server is None:
        return False
    if library is None:
        return Path(server).name.startswith(_LIBC_NAMES)
    return os.path.realpath(server) == os.path.realpath(library)
