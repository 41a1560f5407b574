"""The sqlite3 shell working through generated SQL on a database in memory."""

from collections.abc import Iterator

from bench.programs import process
from bench.programs.job import Job, run_job
from bench.programs.program import Figures, Option, Order, Program, RunFailed

_SCHEMA = """
create table account (id integer primary key, owner text, balance integer);
create table entry (id integer primary key, account integer, amount integer, note text);
create index entry_of_account on entry (account, amount);
"""
_REPORTS = """
pragma integrity_check;
select count(*), sum(amount), sum(length(note)) from entry;
select account.owner, count(*), group_concat(entry.note, '/') from account
    join entry on entry.account = account.id group by account.owner order by sum(amount) desc limit 3;
select length(note) % 10, max(upper(note)) from entry group by 1 order by 1;
with recursive walk(id, path) as (
    select 1, 'start' union all
    select id + 7, path || '-' || (select substr(note, 1, 5) from entry where entry.id = walk.id)
    from walk where id < 2000)
select max(length(path)) from walk;
"""
_ACCOUNTS = 200
_ENTRIES_A_TRANSACTION = 500


def _run(order: Order) -> Figures:
    shell = process.require("sqlite3", "sqlite3")
    script = order.scratch / "input.sql"
    entries = order.options["entries"]
    sql = "".join([_SCHEMA, *_statements(entries), _REPORTS])
    script.write_text(sql, encoding="utf-8")
    output = order.scratch / "result"
    figures = run_job(
        Job(
            # Without the user's ~/.sqliterc.
            command=(
                shell,
                "-batch",
                "-bail",
                "-init",
                "/dev/null",
                "-cmd",
                f".output '{output}'",
                ":memory:",
            ),
            operations=sql.count(";"),
            stdin=script,
            result=output,
        ),
        order,
    )
    if not output.read_text(encoding="utf-8", errors="replace").startswith("ok\n"):
        raise RunFailed("sqlite3: the database is damaged (pragma integrity_check)")
    return figures


def _statements(entries: int) -> Iterator[str]:
    for account in range(_ACCOUNTS):
        yield f"insert into account values ({account}, 'owner {account % 50}', {account * 10});\n"
    for number in range(entries):
        if number % _ENTRIES_A_TRANSACTION == 0:
            yield "begin;\n" if number == 0 else "commit; begin;\n"
        account = number * 7919 % _ACCOUNTS
        note = f"{number:x} " * (1 + number * 31 % 60)
        yield f"insert into entry values ({number}, {account}, {number * 104729 % 10007}, '{note}');\n"
        if number % 5 == 0:
            yield f"update entry set note = note || ' changed' where id = {number // 2};\n"
        if number % 11 == 0:
            yield f"delete from entry where account = {account} and amount < 200;\n"
    yield "commit;\n"


PROGRAM = Program(
    name="sqlite",
    stands_for="Programs that keep their data in SQLite: parsing, b-trees, sorting, text.",
    options=(Option("entries", 20000, "rows that are inserted, some of them changed or deleted later"),),
    run=_run,
)
