"""HAKMEM's benchmarks: what is run, how it is measured, and the page that comes of it.

Run from the repository's root: `python -m bench --help`; `make bench` does all. In the order of a run:

    suite.toml, suite.py     the workloads and their parameters
    workloads/, programs/    the programs that are run: our own in C, and real ones
    peers/                   the other allocators: built from package registries, and cached
    benchmark.py             one order of the user's, carried out
    session.py               every workload on every allocator, in turn
    schedule.py, load.py     which workload gets the next round; how busy others keep the machine
    runner.py                one run
    host_memory.py           what makes page faults take the same time for all
    instructions.py          instructions per operation
    system_calls.py          how often each allocator asks the kernel
    children.py              runs of the tools that count both
    scaling.py               what more threads bring
    contention.py            how often threads wait for each other in HAKMEM
    sampling.py              HAKMEM with sampling on, beside itself with it off
    results.py               what is kept: results.json, results.csv
    estimate.py              what many runs come to, ratios, how sure they are
    view.py                  who is best where, and by how much
    agreement.py             how far two runs agree
    memory_model.py, phases.py    what blocks cost beyond their data; memory over a program's phases
    page/, plots.py          docs/benchmarks/README.md and its pictures
"""
