"""A Rust program that uses nothing but the standard library, whose system allocator is malloc."""

from pathlib import Path

from hakmem.peer_cache import peers_folder

from bench.programs import process
from bench.programs.job import Job, run_job
from bench.programs.program import Figures, Option, Order, Program

_CRATE = Path(__file__).parent / "inputs" / "rust"
_BINARY = "ledger"


def _run(order: Order) -> Figures:
    lines = order.options["lines"]
    return run_job(Job(command=(_built(), str(lines)), operations=lines), order)


def _built() -> Path:
    """The program; cargo itself sees when it has to be built again."""
    cargo = process.require("cargo", "cargo")
    process.require("rustc", "rustc")
    target = peers_folder().with_name("programs") / "rust"
    process.run_plain(
        [
            *(cargo, "build", "--release", "--offline", "--locked", "--quiet"),
            *("--manifest-path", _CRATE / "Cargo.toml", "--target-dir", target),
        ]
    )
    return target / "release" / _BINARY


PROGRAM = Program(
    name="rust",
    stands_for="A Rust service: owned values that are parsed by worker threads and dropped by another.",
    options=(Option("lines", 40000, "lines that each of the two worker threads parses"),),
    run=_run,
)
