"""sqlite3: a database of several hundred thousand rows, indexed, joined, rewritten and checked."""

from __future__ import annotations

from .harness import Runner, required_program

ROWS = 300_000

SCRIPT = f"""
PRAGMA threads = 2;
PRAGMA cache_size = -20000;
CREATE TABLE item (id INTEGER PRIMARY KEY, owner INTEGER, weight INTEGER, name TEXT, body BLOB);
CREATE TABLE owner (id INTEGER PRIMARY KEY, title TEXT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS})
  INSERT INTO item SELECT i, (i * 7919) % 5003, (i * 104729) % 100003,
    printf('item %d of %x', i, i * 2654435761 % 4294967296),
    CASE WHEN i % 100 = 0 THEN zeroblob(i % 5000) ELSE CAST(i AS BLOB) END FROM n;
WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 5002)
  INSERT INTO owner SELECT i, printf('owner %d', i * i) FROM n;
CREATE INDEX item_owner ON item (owner, weight);
CREATE INDEX item_name ON item (name);
SELECT count(*), sum(weight), sum(length(body)), max(name) FROM item;
SELECT owner.title, count(*), sum(item.weight) FROM item JOIN owner ON owner.id = item.owner
  GROUP BY owner.id ORDER BY 3 DESC, 1 LIMIT 50;
SELECT id, rank FROM (SELECT id, rank() OVER (PARTITION BY owner ORDER BY weight DESC, id) AS rank FROM item)
  WHERE rank = 17 ORDER BY id LIMIT 50;
SELECT length(group_concat(name, '|')), count(DISTINCT weight) FROM item;
UPDATE item SET name = name || ' (' || weight || ')' WHERE id % 3 = 0;
DELETE FROM item WHERE id % 5 = 1;
BEGIN; DELETE FROM item WHERE id % 2 = 0; ROLLBACK;
SELECT count(*), sum(length(name)) FROM item;
VACUUM;
REINDEX;
PRAGMA integrity_check;
SELECT name, weight FROM item WHERE name LIKE 'item 29%' ORDER BY weight DESC, name LIMIT 50;
"""


def test_sqlite_gives_the_same_database(runner: Runner) -> None:
    sqlite = required_program("sqlite3")
    plain = runner.run_plain([sqlite, "-batch", "plain.db"], stdin=SCRIPT.encode())
    preloaded = runner.run([sqlite, "-batch", "preloaded.db"], stdin=SCRIPT.encode())
    assert preloaded.stdout == plain.stdout, preloaded
    assert "\nok\n" in preloaded.text, f"integrity_check is not ok\n{preloaded}"
    plain_dump = runner.run_plain([sqlite, "-batch", "plain.db", ".dump"]).stdout
    preloaded_dump = runner.run([sqlite, "-batch", "preloaded.db", ".dump"]).stdout
    # Not as an operand of assert, which would print tens of megabytes.
    same = plain_dump == preloaded_dump
    assert same, "the two databases differ"
