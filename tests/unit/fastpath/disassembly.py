"""Checks that malloc and free begin with a fast path that saves, calls and locks nothing.

A register that is saved, a call or a locked instruction before the first `ret` means that a slow
path has leaked into the few instructions that every program runs all the time.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys

FORBIDDEN = re.compile(r"^(push|call|lock|xchg .*\()")
INSTRUCTION = re.compile(r"^\s*[0-9a-f]+:\s+(?P<text>\S.*)$")


def address_range(objdump: str, library: str, function: str) -> tuple[int, int]:
    """Where an exported function begins and ends; one address may have several names."""
    command = [objdump, "-T", library]
    table = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for line in table.splitlines():
        # address, flags (of which some are blank), section, size, version (may be missing), name
        fields = line.split()
        if line.endswith(f" {function}") and ".text" in fields:
            begin = int(fields[0], 16)
            return begin, begin + int(fields[fields.index(".text") + 1], 16)
    sys.exit(f"{library}: exports no function {function}")


def instructions_of(objdump: str, library: str, function: str) -> list[str]:
    """The instructions of a function up to and with its first `ret`."""
    begin, end = address_range(objdump, library, function)
    command = [
        objdump,
        "-d",
        "--no-show-raw-insn",
        f"--start-address={begin:#x}",
        f"--stop-address={end:#x}",
        library,
    ]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    instructions: list[str] = []
    for line in listing.splitlines():
        match = INSTRUCTION.match(line)
        if match is None:
            continue
        text = match.group("text").strip()
        instructions.append(text)
        if re.match(r"^(repz? )?ret", text):
            return instructions
    sys.exit(f"{library}: {function} has no `ret` from {begin:#x} to {end:#x}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--objdump", required=True)
    parser.add_argument("--library", required=True)
    parser.add_argument("functions", nargs="+")
    arguments = parser.parse_args()
    leaks = 0
    for function in arguments.functions:
        instructions = instructions_of(arguments.objdump, arguments.library, function)
        print(f"{function}: {len(instructions)} instructions to the first ret")
        for text in instructions:
            leak = FORBIDDEN.match(text) is not None
            leaks += leak
            print(f"  {'!' if leak else ' '} {text}")
    if leaks > 0:
        print(f"{leaks} instructions marked ! belong behind a tail call to a slow path")
    return 0 if leaks == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
