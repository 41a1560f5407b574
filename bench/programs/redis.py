"""redis-server under redis-benchmark: only the server runs on the allocator."""

import csv
import io
import os
import resource
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hakmem.proc import fields_of, kilobytes, status_fields

from bench.programs import process
from bench.programs.program import Figures, Option, Order, Program, RunFailed

# Relative to the scratch folder: the path of a socket may not be long.
_SOCKET = "redis.sock"
_TESTS = "set,get,incr,lpush,lpop,sadd,spop,hset,zadd,mset"
# Values of these sizes, one after the other, over the same keys: what is freed is of another size.
_VALUE_BYTES = (32, 400, 3000)
_KEYS = 20_000
_CLIENTS = 20
_PIPELINE = 16
_READY_SECONDS = 30.0
_CHECKED_KEYS = 300
_CHECKED_KEYS_WHEN_VERIFYING = 20_000


@dataclass
class _Server:
    process: subprocess.Popen[bytes]
    log: Path
    usage: resource.struct_rusage | None = None  # once it has ended

    @property
    def pid(self) -> int:
        return self.process.pid

    def end(self) -> None:
        """Reaps the server, after a SIGTERM if it still lives."""
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGTERM)
            _, status, self.usage = os.wait4(self.pid, 0)
            self.process.returncode = os.waitstatus_to_exitcode(status)
        process.require_success("redis-server", self.process.returncode, self.log.read_bytes())

    def resident(self) -> int:
        return kilobytes(fields_of(Path(f"/proc/{self.pid}/smaps_rollup"))["Rss"])

    def peak(self) -> int:
        return max(kilobytes(status_fields(self.pid)["VmHWM"]), self.resident())


@dataclass(frozen=True)
class _Client:
    program: Path
    folder: Path

    def call(self, commands: str) -> list[str]:
        """The replies, one line each, to commands that are one line each."""
        output = process.run_plain(
            [self.program, "-s", _SOCKET, "--raw"], cwd=self.folder, stdin=commands.encode()
        )
        return output.decode().splitlines()


def _run(order: Order) -> Figures:
    program = process.require("redis-server", "redis-server")
    benchmark = process.require("redis-benchmark", "redis-tools")
    client = _Client(process.require("redis-cli", "redis-tools"), order.scratch)
    checked = _CHECKED_KEYS_WHEN_VERIFYING if order.verify else _CHECKED_KEYS
    with _serving(program, order.scratch) as server:
        client.call("".join(f"SET checked:{key} {_value(key)}\n" for key in range(checked)))
        begun = time.monotonic()
        operations = sum(
            _load(benchmark, order.scratch, size, order.options["requests"]) for size in _VALUE_BYTES
        )
        seconds = time.monotonic() - begun
        end, peak = server.resident(), server.peak()
        _require_intact(client, checked)
        client.call("FLUSHALL SYNC\n")
        flushed = server.resident()
    assert server.usage
    return {
        "operations": operations,
        "seconds": seconds,
        "cpu_seconds": server.usage.ru_utime + server.usage.ru_stime,
        "peak_rss_bytes": peak,
        "end_rss_bytes": end,
        "flushed_rss_bytes": flushed,
        "minor_faults": server.usage.ru_minflt,
    }


@contextmanager
def _serving(program: Path, folder: Path) -> Iterator[_Server]:
    log = folder / "server.log"
    command: list[str | Path] = [
        # A runner that is killed leaves no server behind.
        *(process.require("setpriv", "util-linux"), "--pdeathsig", "KILL", "--"),
        *(program, "--port", "0", "--unixsocket", _SOCKET, "--daemonize", "no"),
        *("--save", "", "--appendonly", "no"),
    ]
    with log.open("wb") as sink:
        server = _Server(
            subprocess.Popen(
                command,
                cwd=folder,
                # Debian's redis-server is linked to jemalloc.
                env=process.measured_environment(over_its_own=True),
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
            ),
            log,
        )
    try:
        _wait_until_ready(server, folder)
        process.require_loaded("redis-server", server.pid)
        yield server
    except BaseException:
        server.process.kill()
        server.process.wait()
        raise
    server.end()


def _wait_until_ready(server: _Server, folder: Path) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while not (folder / _SOCKET).is_socket():
        if server.process.poll() is not None:
            process.require_success("redis-server", server.process.returncode or 1, server.log.read_bytes())
        if time.monotonic() > deadline:
            raise RunFailed(f"redis-server does not listen after {_READY_SECONDS:.0f} s")
        time.sleep(0.005)


def _load(benchmark: Path, folder: Path, value_bytes: int, requests: int) -> int:
    """Sends each kind of command `requests` times and returns the number of all that were answered."""
    output = process.run_plain(
        [
            *(benchmark, "-s", _SOCKET, "-t", _TESTS, "--csv", "-n", str(requests), "-r", str(_KEYS)),
            *("-d", str(value_bytes), "-c", str(_CLIENTS), "-P", str(_PIPELINE)),
        ],
        cwd=folder,
    ).decode()
    results = list(csv.DictReader(io.StringIO(output)))
    if len(results) != len(_TESTS.split(",")) or not all(float(row["rps"]) > 0 for row in results):
        raise RunFailed(f"redis-benchmark did not do what it was asked for; it wrote: {output!r}")
    return requests * len(results)


def _value(key: int) -> str:
    return f"{key:x}-" * (1 + key * 37 % 700)


def _require_intact(client: _Client, checked: int) -> None:
    """Raises if a value that was stored before the load came back different, or a command had failed."""
    replies = client.call("".join(f"GET checked:{key}\n" for key in range(checked)))
    if len(replies) != checked:
        raise RunFailed(f"redis-server: {len(replies)} replies to {checked} GETs")
    for key, reply in enumerate(replies):
        if reply != _value(key):
            raise RunFailed(f"redis-server: checked:{key} came back different from what was stored")
    errors = [line for line in client.call("INFO errorstats\n") if line.startswith("errorstat_")]
    if errors:
        raise RunFailed(f"redis-server: commands of the load failed: {' '.join(errors)}")


PROGRAM = Program(
    name="redis",
    stands_for="A store in memory under load: small values that are overwritten by larger ones, lists, sets.",
    options=(
        Option("requests", 8000, "requests of each kind and value size; there are 10 kinds and 3 sizes"),
    ),
    run=_run,
)
