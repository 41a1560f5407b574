"""How far two runs agree: the ratio of two allocators in one run, over the same ratio in the other."""

from dataclasses import dataclass

from bench.view import TIME, Measure, View

LIMIT = 0.05  # ratios that differ by less are taken for the same


@dataclass(frozen=True)
class Difference:
    workload: str
    before: float
    after: float

    @property
    def change(self) -> float:
        """0.1: the ratio is 10 % higher in the later run; -0.1: it was 10 % higher in the earlier one."""
        quotient = self.after / self.before
        return quotient - 1 if quotient >= 1 else 1 - 1 / quotient

    @property
    def agrees(self) -> bool:
        return abs(self.change) < LIMIT


def differences(before: View, after: View, measure: Measure = TIME) -> list[Difference]:
    """Of the subject over the reference, for the workloads that both runs have."""
    result = []
    for workload in after.workloads(measure):
        old = before.results.workload(workload.name)
        if old is None or old.kind not in measure.kinds:
            continue
        earlier = before.ratio(old, before.subject, before.reference, measure)
        later = after.ratio(workload, after.subject, after.reference, measure)
        if earlier and later:
            result.append(Difference(workload.name, earlier.value, later.value))
    return result


def share_agreeing(found: list[Difference]) -> float:
    return sum(entry.agrees for entry in found) / len(found) if found else 0


def obstacles(before: View, after: View) -> list[str]:
    """Why the two runs are not repetitions of each other; nothing if they are."""
    reasons = []
    if before.results.full != after.results.full:
        reasons.append("one was a full run, the other was not")
    changed_facts = [
        fact
        for fact in ("CPU", "cores", "kernel")
        if before.results.machine.get(fact) != after.results.machine.get(fact)
    ]
    if changed_facts:
        reasons.append(f"the machine differs ({', '.join(changed_facts)})")
    old = {entry.name: entry.digest for entry in before.results.allocators}
    new = {entry.name: entry.digest for entry in after.results.allocators}
    reasons += [
        f"{after.title(name)} is another build"
        for name in new
        if name in (after.subject, after.reference) and old.get(name) != new[name]
    ]
    return reasons
