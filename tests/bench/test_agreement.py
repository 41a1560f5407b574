"""How far two runs agree."""

import pytest

from bench.agreement import differences, obstacles, share_agreeing
from bench.view import View

from .synthetic import TIMES, results


def test_the_same_run_agrees_with_itself() -> None:
    found = differences(View(results()), View(results()))
    assert [entry.workload for entry in found] == list(TIMES)
    assert all(entry.change == 0 for entry in found)
    assert share_agreeing(found) == 1


@pytest.mark.parametrize(("factor", "change"), [(1.2, 0.2), (1 / 1.2, -0.2), (1.04, 0.04)])
def test_a_change_is_the_same_whichever_run_is_the_higher(factor: float, change: float) -> None:
    changed = {**TIMES, "mix/small": {**TIMES["mix/small"], "hakmem": 10.0 * factor}}
    (found, *rest) = differences(View(results(noise=0)), View(results(changed, noise=0)))
    assert found.change == pytest.approx(change)
    assert found.agrees == (abs(change) < 0.05)
    assert all(entry.agrees for entry in rest)


def test_only_what_both_have_is_compared() -> None:
    part = results({"mix/small": TIMES["mix/small"]})
    assert len(differences(View(part), View(results()))) == 1
    assert share_agreeing([]) == 0


def test_what_is_no_repetition_is_said() -> None:
    before, after = results(), results()
    assert obstacles(View(before), View(after)) == []
    after.full = True
    after.machine = {**after.machine, "CPU": "another"}
    after.allocators[2] = type(after.allocators[2])("mimalloc3", "mimalloc 3.4", "3.4", "here", "other")
    assert obstacles(View(before), View(after)) == [
        "one was a full run, the other was not",
        "the machine differs (CPU)",
        "mimalloc 3.4 is another build",
    ]
