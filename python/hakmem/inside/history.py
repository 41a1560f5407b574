"""What was seen of a process over time, and how fast its counters ran."""

from collections import deque
from dataclasses import dataclass, field

from hakmem.inside.live_file import Publication
from hakmem.inside.statistics import Statistics, statistics_of

_MOST_LOOKS = 400
# What `hakmem top` draws over time.
CURVES = ("live", "resident", "retained", "whole process")


@dataclass
class History:
    curves: dict[str, deque[int]] = field(
        default_factory=lambda: {name: deque(maxlen=_MOST_LOOKS) for name in CURVES}
    )
    rates: dict[str, float] = field(default_factory=dict)  # a second, between the last two publications
    idle: bool = False  # nothing was published since the look before
    _last: Publication | None = None

    def add(self, publication: Publication, whole_process: int) -> Statistics:
        statistics = statistics_of(publication)
        self._measure_rates(publication, statistics)
        self._last = publication
        figures = {
            "live": statistics.memory("live_bytes"),
            "resident": statistics.memory("heap_resident_bytes"),
            "retained": statistics.memory("retained_bytes"),
            "whole process": whole_process or statistics.memory("heap_resident_bytes"),
        }
        for name, value in figures.items():
            self.curves[name].append(value)
        return statistics

    def _measure_rates(self, publication: Publication, statistics: Statistics) -> None:
        last = self._last
        self.idle = last is not None and last.sequence == publication.sequence
        if last is None:
            return
        seconds = (publication.published_ms - last.published_ms) / 1000
        before = Statistics(last.statistics)
        names = statistics.numbers("counters")
        if self.idle or seconds <= 0:
            self.rates = dict.fromkeys(names, 0.0)
        else:
            # A program may set its counters back.
            self.rates = {
                name: max(0, statistics.counter(name) - before.counter(name)) / seconds for name in names
            }
