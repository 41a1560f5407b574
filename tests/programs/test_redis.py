"""redis-server under load, with data that is known, through forks, dumps and a restart."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from .harness import Runner, required_program, wait_until
from .resp_client import RedisClient, RedisError, Word

KEYS = 12_000
BENCHMARK_TYPES = "ping,set,get,incr,lpush,rpush,lpop,rpop,sadd,hset,spop,zadd,zpopmin,lrange_100,mset"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def redis_server(runner: Runner, directory: Path, *options: str) -> Iterator[int]:
    port = free_port()

    def ready() -> bool:
        try:
            with RedisClient(port) as client:
                return client.call("PING") == b"PONG"
        except (ConnectionError, RedisError):
            return False

    command: list[str | Path] = [required_program("redis-server"), "--port", str(port), "--bind", "127.0.0.1"]
    command += ["--dir", directory, "--dbfilename", "dump.rdb", "--save", "", "--appendonly", "no"]
    command += ["--enable-debug-command", "yes", "--daemonize", "no", *options]
    with runner.server(command, ready=ready, cwd=directory):
        yield port


def value_of(key: int, generation: int) -> bytes:
    """Mostly small values, some of every size up to 200 kB, other ones in each generation."""
    source = random.Random(key * 31 + generation)
    ceiling = source.choice([8, 64, 64, 500, 500, 4000, 4000, 20_000, 200_000 if key % 50 == 0 else 1000])
    return source.randbytes(source.randrange(1, ceiling) * (1 + generation))


def structures() -> Iterator[tuple[Word, ...]]:
    for i in range(60):
        for j in range(150):
            filler = "x" * (j * 3)
            yield "RPUSH", f"list:{i}", f"{i}:{j}:{filler}"
            yield "SADD", f"set:{i}", f"member {j} {filler}"
            yield "HSET", f"hash:{i}", f"field {j}", f"{filler}{i}"
            yield "ZADD", f"zset:{i}", j * i, f"member {j} {filler}"
        yield "APPEND", f"string:{i}", "y" * (i * 997)


def check_values(client: RedisClient, generations: dict[int, int]) -> None:
    replies = client.pipeline(("GET", f"key:{key}") for key in generations)
    for (key, generation), reply in zip(generations.items(), replies, strict=True):
        assert reply == value_of(key, generation), f"key:{key} of generation {generation} came back different"


def background_save(client: RedisClient) -> None:
    client.call("BGSAVE")
    # Writes while the child saves make the parent copy pages and allocate.
    client.pipeline(("APPEND", f"string:{i % 60}", "z" * 50) for i in range(5000))

    def done() -> bool:
        return b"rdb_bgsave_in_progress:0" in persistence(client)

    wait_until(done, 120, lambda: f"BGSAVE does not end:\n{persistence(client).decode()}")
    assert b"rdb_last_bgsave_status:ok" in persistence(client)


def persistence(client: RedisClient) -> bytes:
    information = client.call("INFO", "persistence")
    assert isinstance(information, bytes)
    return information


def test_redis_keeps_data_through_refill_fork_and_restart(runner: Runner, tmp_path: Path) -> None:
    generations = dict.fromkeys(range(KEYS), 0)
    # Threads that read requests free what the main thread allocated.
    threads = ("--io-threads", "2", "--io-threads-do-reads", "yes")
    with redis_server(runner, tmp_path, *threads) as port, RedisClient(port) as client:
        client.pipeline(("SET", f"key:{key}", value_of(key, 0)) for key in generations)
        check_values(client, generations)
        client.pipeline(structures())
        for key in range(0, KEYS, 2):
            generations[key] = 1
        client.pipeline(("DEL", f"key:{key}") for key in range(0, KEYS, 2))
        client.pipeline(("SET", f"key:{key}", value_of(key, 1)) for key in range(0, KEYS, 2))
        background_save(client)
        check_values(client, generations)
        digest = client.call("DEBUG", "DIGEST")
        client.call("DEBUG", "RELOAD")
        assert client.call("DEBUG", "DIGEST") == digest
        client.call("SAVE")
    with redis_server(runner, tmp_path) as port, RedisClient(port) as client:
        assert client.call("DEBUG", "DIGEST") == digest, "the restarted server has other data"
        check_values(client, generations)
        client.call("FLUSHALL", "ASYNC")
        client.pipeline(structures())
        assert client.call("DBSIZE") == 60 * 5


@pytest.mark.parametrize("pipeline", [1, 16])
def test_redis_serves_its_benchmark(runner: Runner, tmp_path: Path, pipeline: int) -> None:
    with redis_server(runner, tmp_path) as port:
        requests = 10_000 * (1 if pipeline == 1 else 5)
        command = [required_program("redis-benchmark"), "-p", str(port), "-n", str(requests), "-r", "20000"]
        command += ["-P", str(pipeline), "-c", "20", "-d", "300", "-t", BENCHMARK_TYPES, "--csv"]
        finished = runner.run(command)
        results = [line.split(",") for line in finished.text.splitlines()[1:]]
        # Ping is two measurements; lrange_100 first fills its list.
        assert len(results) >= len(BENCHMARK_TYPES.split(",")) + 1, finished
        assert all(float(line[1].strip('"')) > 0 for line in results), finished
        with RedisClient(port) as client:
            assert client.call("PING") == b"PONG"
