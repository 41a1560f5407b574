"""Merges the stacks of a profile into one tree, from the program's start down to where it allocates."""

from collections.abc import Callable
from dataclasses import dataclass, field

from hakmem.inside.heap_profile import Counts, HeapProfile
from hakmem.inside.symbols import Frame, Symbolizer


@dataclass
class Node:
    """A function, as called by the functions above it."""

    frame: Frame
    value: float = 0.0  # with that of all it calls
    children: dict[Frame, "Node"] = field(default_factory=dict)

    def child(self, frame: Frame) -> "Node":
        return self.children.setdefault(frame, Node(frame))

    def sorted_children(self) -> list["Node"]:
        return sorted(self.children.values(), key=lambda node: node.frame)


def call_tree(
    profile: HeapProfile, symbolizer: Symbolizer, value: Callable[[Counts], float], root: str
) -> Node:
    tree = Node(Frame(root))
    for sample in profile.samples:
        amount = value(sample.counts)
        if amount <= 0:
            continue
        node = tree
        node.value += amount
        for address in reversed(sample.stack):
            # Two places in one function are one node.
            node = node.child(symbolizer.frame(address))
            node.value += amount
    return tree
