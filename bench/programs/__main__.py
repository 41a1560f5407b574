"""Runs one program on the allocator that the environment preloads, and prints its figures as a JSON line."""

import argparse
import json
import signal
import sys
import tempfile
from pathlib import Path
from typing import NoReturn

from hakmem.errors import HakmemError

from bench.programs import compilers, cpython, node, redis, rust, sqlite
from bench.programs.program import Order, Program

PROGRAMS = (
    cpython.PROGRAM,
    redis.PROGRAM,
    sqlite.PROGRAM,
    *compilers.PROGRAMS,
    rust.PROGRAM,
    node.PROGRAM,
)


def main() -> int:
    arguments = _parser().parse_args()
    program: Program = arguments.program
    # As Ctrl-C does: an exception, so that what was started is ended and what was made is removed.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with tempfile.TemporaryDirectory(prefix="hakmem-bench-") as scratch:
            options = {option.name: getattr(arguments, option.name) for option in program.options}
            figures = program.run(Order(options, Path(scratch), arguments.verify))
    except HakmemError as error:
        print(f"{program.name}: {error}", file=sys.stderr)
        return error.exit_status
    except KeyboardInterrupt:
        print(f"{program.name}: interrupted", file=sys.stderr)
        return 128 + signal.SIGINT
    print(json.dumps({"workload": program.name, **figures}))
    return 0


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; --help lists what there is\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="python -m bench.programs", description=__doc__)
    commands = parser.add_subparsers(title="programs", required=True, metavar="PROGRAM")
    for program in PROGRAMS:
        command = commands.add_parser(
            program.name,
            help=program.stands_for,
            description=program.stands_for,
            formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        )
        command.set_defaults(program=program)
        for option in program.options:
            command.add_argument(
                f"--{option.name}", type=_above_zero, default=option.default, metavar="N", help=option.help
            )
        command.add_argument(
            "--verify",
            action="store_true",
            help="run more checks, against the system's malloc where it applies",
        )
    return parser


def _above_zero(text: str) -> int:
    if text.isascii() and text.isdecimal() and int(text) > 0:
        return int(text)
    raise argparse.ArgumentTypeError(f"give a whole number above 0, not '{text}'")


if __name__ == "__main__":
    sys.exit(main())
