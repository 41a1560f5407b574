"""`hakmem collect`."""

import click

from hakmem.errors import HakmemError
from hakmem.inside.asking import WAIT_OPTION, ask
from hakmem.inside.live_file import Kind
from hakmem.inside.parameters import PID
from hakmem.inside.process import resident_bytes
from hakmem.inside.target import open_running
from hakmem.units import shown_bytes


@click.command()
@click.argument("pid", type=PID)
@WAIT_OPTION
def collect(*, pid: int, wait: float) -> None:
    """Have process PID give back what is free, now, as if it had called malloc_trim(0).

    What sleeping threads cache goes, too; what running threads cache stays. One of the process's threads
    does it in the middle of a malloc, which takes some 20 ms for each 100 MiB that go.
    """
    with open_running(pid) as target:
        before = resident_bytes(pid)
        ask(target, Kind.COLLECT, wait)
        after = resident_bytes(pid)
        if after == 0 or not target.alive():
            raise HakmemError(f"{target} has ended since it answered: nothing of it is resident any more")
        less = f"{shown_bytes(before - after)} less" if after < before else "no less than before"
        click.echo(f"{target} has {shown_bytes(after)} resident, {less}; 'hakmem stats {pid}' says of what")
