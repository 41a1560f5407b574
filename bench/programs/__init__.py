"""Real programs as benchmarks: each is run on the allocator that the environment preloads.

`python -m bench.programs NAME [--option value]…`, from the repository's root, prints one JSON line. What
prepares and checks a run is not part of what is measured, and runs on the system's malloc where it is a
process of its own.
"""
