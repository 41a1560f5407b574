"""Memory that is made ready before a run."""

import resource

from bench.host_memory import make_ready

MEBIBYTE = 1 << 20


def test_it_is_touched_by_a_process_of_its_own() -> None:
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    size = (own << 10) + 200 * MEBIBYTE  # more than any child of the tests has taken, or than it starts with
    make_ready(size)
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10 >= size
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < own + (50 << 10)


def test_too_little_is_not_worth_a_process() -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt
    make_ready(0)
    make_ready(1000)
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt == before
