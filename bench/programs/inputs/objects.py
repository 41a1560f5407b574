"""A fixed piece of work that makes and drops many Python objects; its one argument is how often."""

import json
import sys
from collections import OrderedDict, deque
from collections.abc import Iterator


class Node:
    """In a tree whose nodes come and go."""

    def __init__(self, key: int) -> None:
        self.key = key
        self.label = f"node-{key:08x}"
        self.left: Node | None = None
        self.right: Node | None = None


def numbers(seed: int, count: int) -> Iterator[int]:
    state = seed
    for _ in range(count):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        yield state >> 33


def documents(seed: int) -> int:
    """Text of JSON and back: small dictionaries, lists and strings."""
    records = [
        {"id": number, "name": f"customer {number % 9973}", "tags": [f"t{number % k}" for k in (3, 7, 31)]}
        for number in numbers(seed, 4_000)
    ]
    text = json.dumps(records)
    assert json.loads(text) == records
    return len(text) + sum(int(record["id"]) for record in json.loads(text))


def tree(seed: int) -> int:
    root = Node(2**30)
    for key in numbers(seed, 8_000):
        node = root
        while True:
            below = node.left if key < node.key else node.right
            if below is None:
                break
            node = below
        if key < node.key:
            node.left = Node(key)
        else:
            node.right = Node(key)
    keys = []
    pending: list[Node] = []
    current: Node | None = root
    while pending or current:
        while current:
            pending.append(current)
            current = current.left
        current = pending.pop()
        keys.append(current.key)
        current = current.right
    assert keys == sorted(keys)
    return sum(keys)


def text(seed: int) -> int:
    words = [f"{number:x}" * (1 + number % 5) for number in numbers(seed, 20_000)]
    joined = " ".join(words)
    assert joined.split() == words
    counts: dict[str, int] = {}
    for word in joined.upper().replace("A", "aa").split():
        counts[word[:3]] = counts.get(word[:3], 0) + len(word)
    return sum(counts.values()) + len(counts)


def cache(seed: int) -> int:
    """Least recently used goes: values of many sizes are replaced all the time."""
    entries: OrderedDict[int, bytes] = OrderedDict()
    hits = 0
    for number in numbers(seed, 20_000):
        key = number % 4_000
        if key in entries:
            entries.move_to_end(key)
            hits += len(entries[key])
        else:
            entries[key] = bytes(1 + number % 3_000)
        if len(entries) > 2_000:
            entries.popitem(last=False)
    return hits


def queue(seed: int) -> int:
    waiting: deque[tuple[int, list[float]]] = deque()
    total = 0.0
    for number in numbers(seed, 20_000):
        waiting.append((number, [float(number)] * (number % 20)))
        if len(waiting) > 500:
            _, values = waiting.popleft()
            total += sum(values)
    return int(total) % 2**61


def main() -> None:
    kept: deque[list[str]] = deque(maxlen=3)  # some of each round outlives it
    for round_number in range(int(sys.argv[1])):
        seed = 1 + round_number
        results = [part(seed) for part in (documents, tree, text, cache, queue)]
        kept.append([f"kept {number}" for number in numbers(seed, 10_000)])
        print(round_number, *results, sum(map(len, kept[0])))


main()
