"""`hakmem options`, `--version` and `--help`."""

import ctypes
import json
import re
from pathlib import Path

import pytest

from .command import REPOSITORY, Command

FIELDS = ["name", "environment", "type", "default", "value", "source", "description"]


def header_version() -> str:
    header = (REPOSITORY / "include/hakmem.h").read_text()
    return ".".join(re.findall(r"#define HAKMEM_VERSION_\w+ (\d+)", header))


def options(hakmem: Command, **variables: str) -> dict[str, dict[str, str]]:
    outcome = hakmem("options", "--json", **variables)
    assert outcome.status == 0, outcome.stderr
    return {option["name"]: option for option in json.loads(outcome.stdout)}


def test_json_lists_every_option_of_the_library(hakmem: Command, library: Path) -> None:
    found = options(hakmem)
    assert len(found) == ctypes.CDLL(str(library)).hak_option_count()
    for name, option in found.items():
        assert list(option) == FIELDS
        assert option["environment"] == "HAKMEM_" + name.upper()
        assert option["type"] in ("bool", "size", "int", "string", "choice")
        assert option["description"]
        assert option["source"] == "default"


def test_value_and_source_follow_the_environment(hakmem: Command) -> None:
    before = options(hakmem)["wrap_diag"]
    after = options(hakmem, HAKMEM_WRAP_DIAG="1")["wrap_diag"]
    assert (before["value"], before["source"]) == ("0", "default")
    assert (after["value"], after["source"]) == ("1", "environment")
    assert before["default"] == after["default"] == "0"


def test_table_has_all_columns_and_options(hakmem: Command) -> None:
    outcome = hakmem("options")
    header = next(line for line in outcome.stdout.splitlines() if line.strip())
    assert header.split() == ["Name", "Environment", "Type", "Default", "Value", "Source", "Description"]
    for name, option in options(hakmem).items():
        assert re.search(
            rf"^ {name} +{option['environment']} +{option['type']} ", outcome.stdout, re.MULTILINE
        )


@pytest.mark.parametrize("columns", ["80", "200"])
def test_table_fits_the_terminal(hakmem: Command, columns: str) -> None:
    lines = hakmem("options", COLUMNS=columns).stdout.splitlines()
    assert max(map(len, lines)) <= int(columns)


@pytest.mark.parametrize("columns", ["0", "1", "20", "79"])
def test_table_keeps_its_columns_on_a_narrow_terminal(hakmem: Command, columns: str) -> None:
    """The terminal breaks the lines then."""
    assert hakmem("options", COLUMNS=columns).stdout == hakmem("options", COLUMNS="80").stdout


def test_version_names_command_and_library(hakmem: Command, library: Path) -> None:
    version = header_version()
    outcome = hakmem("--version")
    assert (outcome.status, outcome.stdout) == (0, f"hakmem {version}\nlibrary {version} ({library})\n")


def test_version_without_a_library_says_so(hakmem: Command) -> None:
    outcome = hakmem("--version", HAKMEM_LIBRARY="/no/such/libhakmem.so")
    assert outcome.status == 0
    assert outcome.stdout.startswith(f"hakmem {header_version()}\nlibrary: HAKMEM_LIBRARY is set to")


def test_help_explains_with_examples(hakmem: Command) -> None:
    outcome = hakmem("--help")
    assert outcome.status == 0
    for expected in ("Usage: hakmem", "Examples:", "hakmem run", "hakmem versus", "hakmem options"):
        assert expected in outcome.stdout


@pytest.mark.parametrize("subcommand", ["run", "versus", "options"])
@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_of_each_subcommand(hakmem: Command, subcommand: str, flag: str) -> None:
    outcome = hakmem(subcommand, flag)
    assert outcome.status == 0
    assert outcome.stdout.startswith(f"Usage: hakmem {subcommand}")
