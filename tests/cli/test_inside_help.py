"""Whoever asks for help finds all that looks inside, and how to call it."""

import re

import pytest

from .command import Command

COMMANDS = ["stats", "top", "profile", "flame", "symbols", "map", "collect"]


def test_help_lists_every_command_with_an_example(hakmem: Command) -> None:
    text = hakmem("--help").stdout
    for command in COMMANDS:
        assert re.search(rf"^  {command} +[A-Z]", text, re.MULTILINE), command
        assert re.search(rf"^    hakmem {command} \S+", text, re.MULTILINE), command


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_and_option_says_what_it_does(hakmem: Command, command: str) -> None:
    outcome = hakmem(command, "--help")
    assert outcome.status == 0
    assert outcome.stdout.startswith(f"Usage: hakmem {command} ")
    _, _, options = outcome.stdout.partition("Options:\n")
    entries = re.findall(r"^  (-.*)\n(.*)", options, re.MULTILINE)
    assert entries
    for entry, next_line in entries:
        explained = re.search(r"  [A-Z(.]", entry.lstrip()) or re.match(r" {20}", next_line)
        assert explained, entry
