"""Node running a service's work: V8 maps its own heap, buffers and compression are malloc's."""

from pathlib import Path

from bench.programs import process
from bench.programs.job import Job, run_job
from bench.programs.program import Figures, Option, Order, Program

_SCRIPT = Path(__file__).parent / "inputs" / "service.js"


def _run(order: Order) -> Figures:
    requests = order.options["requests"]
    node = process.require("node", "nodejs")
    return run_job(Job(command=(node, _SCRIPT, str(requests)), operations=requests), order)


PROGRAM = Program(
    name="node",
    stands_for="A JavaScript service that packs and hashes what it sends; V8's own heap is not malloc's.",
    options=(Option("requests", 1000, "requests that the script serves to itself"),),
    run=_run,
)
