"""Programs that run once, from start to end, and leave a result."""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hakmem.measure import Measurement, Streams, run_measured

from bench.programs import process
from bench.programs.program import Figures, Order, RunFailed

_CHECKSUM_DIGITS = 16


@dataclass(frozen=True)
class Job:
    command: tuple[str | Path, ...]  # the first word is a path
    operations: int
    environment: Mapping[str, str] = field(default_factory=dict)  # besides the allocator's
    stdin: Path | None = None
    result: Path | None = None  # the file that it makes; None: what it writes to stdout


def run_job(job: Job, order: Order) -> Figures:
    """Runs `job` on the chosen allocator. What it leaves must be what it leaves on the system's malloc: with
    `order.verify` this is compared here, and always the result's checksum is among the figures."""
    allocator = process.chosen_allocator()
    environment = {**process.measured_environment(), **job.environment}
    measurement, result = _run(job, environment, order.scratch, allocator)
    if order.verify:
        _, expected = _run(job, {**process.plain_environment(), **job.environment}, order.scratch, None)
        if result != expected:
            raise RunFailed("the result differs from that of the same run on the system's malloc")
    return {
        "operations": job.operations,
        "seconds": measurement.wall_seconds,
        "cpu_seconds": measurement.cpu_seconds,
        "peak_rss_bytes": measurement.peak_rss,
        "end_rss_bytes": measurement.end_rss,
        "minor_faults": measurement.minor_faults,
        "checksum": hashlib.sha256(result).hexdigest()[:_CHECKSUM_DIGITS],
    }


def _run(
    job: Job, environment: Mapping[str, str], scratch: Path, allocator: Path | None
) -> tuple[Measurement, bytes]:
    output, errors = scratch / "stdout", scratch / "stderr"
    words = tuple(str(word) for word in job.command)
    with (
        (job.stdin or Path(os.devnull)).open("rb") as stdin,
        output.open("wb") as stdout,
        errors.open("wb") as stderr,
    ):
        measurement = run_measured(
            Path(words[0]),
            words,
            environment,
            Streams(stdin.fileno(), stdout.fileno(), stderr.fileno()),
            look_for=allocator.resolve() if allocator else None,
        )
    if measurement.interrupted:
        raise RunFailed("interrupted")
    process.require_success(_name(job), os.waitstatus_to_exitcode(measurement.status), errors.read_bytes())
    if allocator and measurement.mapped is False:
        raise process.not_loaded(_name(job), allocator)
    result = (job.result or output).read_bytes()
    if not result:
        raise RunFailed("it left no result")
    return measurement, result


def _name(job: Job) -> str:
    return Path(job.command[0]).name
