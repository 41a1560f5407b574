"""Asks a library, through its C interface, for its version and options."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hakmem.ending import ending_of_code, last_words
from hakmem.errors import HakmemError
from hakmem.preload import without_hakmem
from hakmem.script import run_python

_PROGRAM = Path(__file__).with_name("library_facts_program.py")


@dataclass(frozen=True)
class Option:
    name: str
    environment: str
    type: str
    default: str
    value: str
    source: str
    description: str


@dataclass(frozen=True)
class Facts:
    version: str
    options: list[Option]
    said: str  # on stderr, as of settings that the library does not take


def facts_of(library: Path, environment: Mapping[str, str]) -> Facts:
    """What `library` says of itself in `environment`, which has nothing written of that."""
    # Not preloaded, too: it would publish the small program's figures.
    done = run_python(str(_PROGRAM), str(library), environment=without_hakmem(environment))
    try:
        found = json.loads(done.stdout)
        if "problem" in found:
            raise HakmemError(found["problem"])
        return Facts(found["version"], [Option(**entry) for entry in found["options"]], done.stderr)
    except (ValueError, KeyError, TypeError) as error:
        raise HakmemError(
            f"'{library}' does not tell its version and options: a small program that loads it "
            f"{ending_of_code(done.returncode)}{last_words(done.stderr)}"
        ) from error
