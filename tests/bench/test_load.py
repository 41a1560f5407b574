"""The time that others take of the processors."""

import time

import pytest

from bench import load
from bench.load import OtherLoad


def test_others_are_all_that_is_not_own(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = {"busy": 100.0, "own": 10.0, "now": 1000.0}
    monkeypatch.setattr(load, "_busy_seconds", lambda: readings["busy"])
    monkeypatch.setattr(load, "_own_seconds", lambda: readings["own"])
    monkeypatch.setattr(load, "cores", lambda: 2)
    monkeypatch.setattr(time, "monotonic", lambda: readings["now"])
    others = OtherLoad()
    readings.update(busy=112.0, own=14.0, now=1010.0)  # 12 s of the 20 s of two processors, 4 s of them own
    assert others.share() == pytest.approx(8 / 20)
    readings.update(busy=112.0, own=30.0)  # a child's time is known all at once
    assert others.share() == 0
    readings.update(busy=112.0, own=10.0, now=1000.1)  # more than there is
    assert others.share() == 1


def test_the_kernel_tells_it() -> None:
    others = OtherLoad()
    time.sleep(0.1)
    assert 0 <= others.share() <= 1
