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


def test_a_value_gives_the_terminal_no_commands(hakmem: Command) -> None:
    outcome = hakmem("options", HAKMEM_STATS_FILE="red\x1b[31m")
    assert "red" in outcome.stdout and "\x1b" not in outcome.stdout


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


@pytest.mark.parametrize(
    "arguments",
    [
        ["options", "--json"],
        ["--version"],
        ["allocators", "--json"],
        ["tune", "--try", "HAKMEM_DECAY_MS=oops", "true"],
    ],
)
def test_what_the_user_has_programs_write_is_not_written_of_this_command(
    hakmem: Command, tmp_path: Path, arguments: list[str]
) -> None:
    report, place = tmp_path / "report", tmp_path / "profiles"
    report.write_text("the service's last")
    place.mkdir()
    plain = hakmem(*arguments)
    variables = {
        "HAKMEM_STATS": "1",
        "HAKMEM_STATS_FILE": str(report),
        "HAKMEM_PROF": "1",
        "HAKMEM_PROF_LEAKS": "1",
        "HAKMEM_PROF_FILE": f"{place}/%p",
    }
    outcome = hakmem(*arguments, **variables)
    assert (outcome.status, outcome.stderr) == (plain.status, plain.stderr)
    assert report.read_text() == "the service's last"
    assert not list(place.iterdir())
    outcome = hakmem(*arguments, HAKMEM_STATS_JSON="1", HAKMEM_STATS_FILE="/dev/stdout")
    assert (outcome.status, outcome.stderr) == (plain.status, plain.stderr)
    if arguments[0] != "options":  # which tells of the settings
        assert outcome.stdout == plain.stdout


def test_the_settings_in_force_are_the_users(hakmem: Command, tmp_path: Path) -> None:
    found = options(hakmem, HAKMEM_STATS="1", HAKMEM_STATS_FILE=str(tmp_path / "report"))
    assert (found["stats"]["value"], found["stats"]["source"]) == ("1", "environment")
    assert found["stats_file"]["value"] == str(tmp_path / "report")


def test_a_setting_that_the_library_does_not_take_is_said(hakmem: Command) -> None:
    outcome = hakmem("options", "--json", HAKMEM_STATS="oops")
    assert outcome.status == 0
    assert "HAKMEM_STATS" in outcome.error_line()


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
