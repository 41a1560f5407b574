"""CPython with every object on malloc: a script of dictionaries, JSON, objects and text."""

import sys
from pathlib import Path

from bench.programs.job import Job, run_job
from bench.programs.program import Figures, Option, Order, Program

_SCRIPT = Path(__file__).parent / "inputs" / "objects.py"


def _run(order: Order) -> Figures:
    rounds = order.options["rounds"]
    return run_job(
        Job(
            command=(Path(sys.executable), "-S", _SCRIPT, str(rounds)),
            operations=rounds,
            environment={"PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "1", "PYTHONDONTWRITEBYTECODE": "1"},
        ),
        order,
    )


PROGRAM = Program(
    name="cpython",
    stands_for="Python services and scripts with PYTHONMALLOC=malloc: dictionaries, JSON, objects, text.",
    options=(Option("rounds", 4, "times that the script does all its work"),),
    run=_run,
)
