"""Results as if measured: times and memory that a test chooses, with noise that is the same every time."""

import random
from collections.abc import Mapping

from bench.results import AllocatorInfo, Results, Run, WorkloadResult

TITLES = {
    "hakmem": "HAKMEM 0.1.0",
    "system": "glibc 2.36",
    "mimalloc3": "mimalloc 3.3.2",
    "jemalloc": "jemalloc 5.3.1",
}
MEBIBYTE = 1 << 20

# Nanoseconds an operation, and MiB: the subject wins the first, loses the second, is even in the third.
TIMES = {
    "mix/small": {"hakmem": 10.0, "system": 30.0, "mimalloc3": 12.0, "jemalloc": 15.0},
    "mix/large": {"hakmem": 50.0, "system": 90.0, "mimalloc3": 40.0, "jemalloc": 60.0},
    "pairs/64": {"hakmem": 4.0, "system": 9.0, "mimalloc3": 5.0, "jemalloc": 4.0},
}
MEMORY = {
    "mix/small": {"hakmem": 2.0, "system": 1.5, "mimalloc3": 6.0, "jemalloc": 4.0},
    "mix/large": {"hakmem": 20.0, "system": 25.0, "mimalloc3": 30.0, "jemalloc": 28.0},
    "pairs/64": {"hakmem": 1.5, "system": 1.5, "mimalloc3": 6.0, "jemalloc": 4.0},
}


def results(
    times: Mapping[str, Mapping[str, float]] = TIMES,
    memory: Mapping[str, Mapping[str, float]] = MEMORY,
    *,
    rounds: int = 8,
    noise: float = 0.005,
    seed: int = 1,
) -> Results:
    """Of workloads by name: for each allocator, nanoseconds an operation and MiB."""
    workloads = []
    for workload, by_allocator in times.items():
        result = WorkloadResult(workload, "time", f"What {workload} stands for.", "{workloads}/x --y")
        for position, (name, nanoseconds) in enumerate(by_allocator.items()):
            # The noise belongs to the place in the list, not to the name.
            draw = random.Random(f"{seed} {workload} {position}")
            result.runs[name] = [
                run(number, nanoseconds * 1e-9 * draw.uniform(1 - noise, 1 + noise), memory[workload][name])
                for number in range(1, rounds + 1)
            ]
        workloads.append(result)
    names = next(iter(times.values()))
    return Results(
        started="2026-01-02T03:04+00:00",
        full=False,
        machine={
            "CPU": "a processor",
            "kernel": "Linux 6.1",
            "cores": "2",
            "transparent huge pages": "madvise",
        },
        method={"rounds": "as many as it takes"},
        allocators=[
            AllocatorInfo(
                name, TITLES[name], TITLES[name].rpartition(" ")[2], f"origin of {name}", f"d-{name}"
            )
            for name in names
        ],
        workloads=workloads,
        duration_seconds=600,
    )


def run(number: int, seconds: float, mebibytes: float = 1.0, **figures: float) -> Run:
    operations = 1_000_000.0
    return Run(
        round=number,
        wall_seconds=seconds * operations + 0.001,
        cpu_seconds=seconds * operations,
        peak_rss_bytes=mebibytes * MEBIBYTE,
        end_rss_bytes=mebibytes * MEBIBYTE,
        minor_faults=100,
        seconds=seconds * operations,
        operations=operations,
        figures=figures,
    )


def failed(number: int, reason: str) -> Run:
    return Run(number, 0, 0, 0, 0, 0, failure=reason)
