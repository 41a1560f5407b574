"""HAKMEM's benchmarks: what is run, how it is measured, and the page that comes of it.

Run from the repository's root: `python -m bench --help`.
"""
