"""What threads wait for: in one run for each workload of several threads, HAKMEM's own statistics are read.

The run is apart from the timed ones and only counts. The statistics are those of all processes that the
workload consists of, from their start to their end; docs/statistics.md says what each counter counts.
"""

import json
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from hakmem.allocators import Allocator

from bench.results import Contention
from bench.runner import Runner
from bench.suite import Workload


def count(
    workloads: Sequence[Workload], hakmem: Allocator, runner: Runner, say: Callable[[str], None]
) -> list[Contention]:
    """Of the workloads that ask for it; one whose run fails has the reason in place of the counters."""
    wanted = [workload for workload in workloads if workload.contention and runner.problem(workload) is None]
    found = []
    for workload in wanted:
        say(f"{workload.name}: what threads wait for")
        found.append(_counted(workload, hakmem, runner))
    return found


def _counted(workload: Workload, hakmem: Allocator, runner: Runner) -> Contention:
    with tempfile.TemporaryDirectory(prefix="hakmem-bench-") as folder:
        settings = {"HAKMEM_STATS_JSON": "1", "HAKMEM_STATS_FILE": f"{folder}/%p"}
        run = runner.run(workload, replace(hakmem, environment={**hakmem.environment, **settings}), 1)
        if run.failure:
            return Contention(workload.name, failure=run.failure)
        try:
            counters = _sum(Path(folder))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            return Contention(workload.name, failure=f"wrote statistics that cannot be read: {error}")
    if counters is None:
        return Contention(workload.name, failure="wrote no statistics")
    return Contention(workload.name, run.operations or 1, counters)


def _sum(folder: Path) -> dict[str, int] | None:
    """The counters of all processes; None if none wrote any."""
    total: Counter[str] = Counter()
    files = sorted(folder.iterdir())
    for file in files:
        counters = json.loads(file.read_text(encoding="utf-8", errors="replace"))["counters"]
        total.update({name: int(value) for name, value in counters.items()})
    return dict(total) if files else None
