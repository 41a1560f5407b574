"""PostgreSQL: a server of processes, started, loaded, queried in parallel and stopped."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from .harness import Runner, required_program

UNPRIVILEGED_USER = "postgres"
ORDERS_SCRIPT = """
CREATE TABLE orders AS SELECT i AS id, i % 1009 AS customer, (i * 7919) % 10007 AS amount,
  repeat(md5(i::text), 1 + i % 20) AS note FROM generate_series(1, 200000) AS i;
CREATE INDEX orders_customer ON orders (customer, amount);
CREATE TABLE customers AS SELECT i AS id, 'customer ' || i AS name FROM generate_series(0, 1008) AS i;
ANALYZE;
SET max_parallel_workers_per_gather = 2; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0; SET work_mem = '2MB';
SELECT count(*), sum(amount), sum(length(note)), md5(string_agg(note, '' ORDER BY id)) FROM orders;
SELECT name, count(*), sum(amount) FROM orders JOIN customers ON customers.id = customer
  GROUP BY name ORDER BY sum(amount) DESC, name LIMIT 20;
UPDATE orders SET note = upper(note) WHERE id % 3 = 0;
DELETE FROM orders WHERE id % 7 = 0;
VACUUM FULL orders;
SELECT count(*), md5(string_agg(jsonb_build_object('id', id, 'note', note)::text, ',' ORDER BY id))
  FROM orders;
"""


class Database:
    """One cluster in a directory of its own, reached through a socket in that directory."""

    def __init__(self, runner: Runner, directory: Path) -> None:
        self.runner = runner
        self.directory = directory
        self.data = directory / "data"
        bin_directory = subprocess.run(
            [required_program("pg_config"), "--bindir"], capture_output=True, text=True, check=True
        ).stdout.strip()
        self._path = os.pathsep.join([bin_directory, os.environ.get("PATH", os.defpath)])

    def tool(self, name: str) -> str:
        return required_program(name, path=self._path)

    def initialise(self) -> None:
        self.runner.run([self.tool("initdb"), "-D", self.data, "--no-sync", "-A", "trust", "-U", "tester"])

    def server_command(self) -> list[str | Path]:
        settings = ["-c", "listen_addresses=", "-c", "fsync=off"]
        return [self.tool("postgres"), "-D", self.data, "-k", self.directory, *settings]

    def client(self, name: str) -> list[str]:
        return [self.tool(name), "-h", str(self.directory), "-U", "tester"]

    def ready(self) -> bool:
        command = [*self.client("pg_isready"), "-d", "postgres"]
        return subprocess.run(command, check=False, capture_output=True).returncode == 0

    def query(self, sql: str) -> str:
        command = [*self.client("psql"), "-d", "postgres", "-XAtq", "-v", "ON_ERROR_STOP=1"]
        return self.runner.run(command, stdin=sql.encode()).text.strip()


@pytest.fixture
def database(library: Path) -> Iterator[Database]:
    # The server refuses to run as root, and another user reaches neither pytest's directory nor,
    # it may be, the build directory: both get a place that everyone may enter.
    directory = Path(tempfile.mkdtemp(prefix="hakmem-postgresql-"))
    try:
        reachable = Path(shutil.copy(library, directory / "libhakmem.so"))
        reachable.chmod(0o755)
        user = None
        if os.geteuid() == 0:
            try:
                pwd.getpwnam(UNPRIVILEGED_USER)
            except KeyError:
                pytest.fail(f"there is no user {UNPRIVILEGED_USER}: run tests/programs/setup.sh")
            user = UNPRIVILEGED_USER
            shutil.chown(directory, user, user)
        directory.chmod(0o755)
        yield Database(Runner(reachable, directory, user), directory)
    finally:
        shutil.rmtree(directory)


def test_postgresql_serves_transactions_and_parallel_queries(database: Database) -> None:
    database.initialise()
    with database.runner.server(database.server_command(), ready=database.ready, cwd=database.directory):
        mapped = database.query("SELECT pg_read_file('/proc/self/maps', 0, 10000000) LIKE '%libhakmem.so%'")
        assert mapped == "t", "the server's backends do not run on the library"
        answer = database.query(ORDERS_SCRIPT)
        first, *_, last = answer.splitlines()
        amounts = [i * 7919 % 10007 for i in range(1, 200001)]
        notes = sum(32 * (1 + i % 20) for i in range(1, 200001))
        assert first.startswith(f"200000|{sum(amounts)}|{notes}|"), answer
        assert last.startswith(f"{200000 - 200000 // 7}|"), answer
        database.runner.run([*database.client("pgbench"), "-i", "-q", "-s", "2", "postgres"])
        load = [*database.client("pgbench"), "-n", "-c", "6", "-j", "2", "-t", "400", "postgres"]
        assert "2400/2400" in database.runner.run(load).text
        sums = database.query(
            "SELECT (SELECT sum(abalance) FROM pgbench_accounts),"
            "(SELECT sum(tbalance) FROM pgbench_tellers),"
            "(SELECT sum(bbalance) FROM pgbench_branches), (SELECT sum(delta) FROM pgbench_history),"
            "(SELECT count(*) FROM pgbench_history)"
        )
        *balances, transactions = sums.split("|")
        assert len(set(balances)) == 1, f"the four sums differ: {sums}"
        assert transactions == "2400"
    # A second start finds the cluster cleanly shut down and the data in place.
    with database.runner.server(database.server_command(), ready=database.ready, cwd=database.directory):
        assert database.query("SELECT count(*) FROM pgbench_history") == "2400"
