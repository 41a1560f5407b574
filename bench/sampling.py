"""What sampling costs: HAKMEM with it on beside the same library with it off, in rounds of their own.

The two are variants of one allocator, measured as two allocators are: alternating, until their times are
known well. They are in no comparison with other allocators.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from hakmem.allocators import Allocator

from bench.results import Results, WorkloadResult
from bench.runner import Interrupted, Runner
from bench.schedule import Plan
from bench.session import Session
from bench.suite import Workload

OFF = "off"
ON = "on"

# Two that are almost alike take more rounds to tell apart than two allocators.
_TIMES_THE_ROUNDS = 3
_SHARE_OF_THE_BUDGET = 1 / 9


def measure(
    workloads: Sequence[Workload],
    hakmem: Allocator,
    runner: Runner,
    plan: Plan,
    say: Callable[[str], None],
) -> list[WorkloadResult]:
    """Of the workloads that ask for it, with runs of OFF and ON; `plan` is that of the comparison."""
    wanted = [
        replace(workload, command=(*workload.command, *workload.args_sampling))
        for workload in workloads
        if workload.sampling
    ]
    found = Results(started="", full=runner.full, machine={}, method={}, allocators=[])
    if wanted:
        session = Session(
            runner,
            [_variant(hakmem, OFF, "0"), _variant(hakmem, ON, "1")],
            Plan(
                plan.rounds * _TIMES_THE_ROUNDS,
                plan.rounds_of_memory,
                plan.budget_seconds * _SHARE_OF_THE_BUDGET,
            ),
            lambda progress: say(f"{progress.doing}, with and without sampling"),
        )
        session.measure(wanted, found)
    if found.interrupted:
        raise Interrupted
    return found.workloads


def _variant(hakmem: Allocator, name: str, value: str) -> Allocator:
    """Both have the same variables, of the same length; a profile at exit would be measured as well."""
    settings = {"HAKMEM_PROF": value, "HAKMEM_PROF_AT_EXIT": "0"}
    return replace(hakmem, name=name, environment={**hakmem.environment, **settings})
