"""Counts the instructions of a pair of malloc and free under callgrind and holds them to a budget.

The program runs twice with different numbers of pairs: the difference holds neither start-up nor
slow paths, and toggling collection in malloc and free leaves out the loop and the PLT.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

FEW = 10_000
MANY = 110_000


def collected_instructions(valgrind: str, program: str, pairs: int, size: int, directory: Path) -> int:
    """Instructions inside malloc and free in one run of the program."""
    profile = directory / f"callgrind.{pairs}"
    command = [
        valgrind,
        "--tool=callgrind",
        "--toggle-collect=malloc",
        "--toggle-collect=free",
        f"--callgrind-out-file={profile}",
        program,
        str(pairs),
        str(size),
    ]
    # What is published every so often is published by whichever malloc comes then.
    environment = {**os.environ, "HAKMEM_LIVE": "0"}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {run.returncode}:\n{run.stderr}")
    totals = re.search(r"^(?:totals|summary): (\d+)", profile.read_text(), re.MULTILINE)
    if totals is None:
        sys.exit(f"{profile}: no totals line; did callgrind finish?\n{run.stderr}")
    return int(totals.group(1))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--valgrind", required=True)
    parser.add_argument("--program", required=True, help="linked to the library, takes pairs and size")
    parser.add_argument("--size", required=True, type=int, help="of the blocks, in bytes")
    parser.add_argument("--budget", required=True, type=float, help="most instructions a pair may take")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        few = collected_instructions(arguments.valgrind, arguments.program, FEW, arguments.size, directory)
        many = collected_instructions(arguments.valgrind, arguments.program, MANY, arguments.size, directory)
    pair = (many - few) / (MANY - FEW)
    print(f"instructions for malloc({arguments.size}) and free: {pair:.2f} (budget {arguments.budget:g})")
    if pair < 4:
        print("fewer than two functions can have: callgrind did not see malloc and free")
        return 1
    return 0 if pair <= arguments.budget else 1


if __name__ == "__main__":
    sys.exit(main())
