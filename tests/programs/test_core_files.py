"""What a debugger or the kernel writes of a process: its memory, and not what is only reserved."""

from __future__ import annotations

import re
import sys

from .harness import Runner

# Prints the bytes of mappings that belong into a core file, and whether the heap's are among them.
LOOK = r"""
import re
kept = [bytes([i % 256]) * 700 for i in range(40_000)]
address = id(kept[20_000])
total, found = 0, False
for mapping in re.split(r"(?m)^(?=[0-9a-f]+-[0-9a-f]+ )", open("/proc/self/smaps").read())[1:]:
    start, end = (int(part, 16) for part in mapping.split(maxsplit=1)[0].split("-"))
    dumped = " dd" not in re.search("VmFlags:(.*)", mapping)[1]
    total += (end - start) * dumped
    found |= dumped and start <= address < end
print(total, found)
"""


def test_a_core_file_has_the_heap_and_little_else(runner: Runner) -> None:
    finished = runner.run([sys.executable, "-c", LOOK], env={"PYTHONMALLOC": "malloc"})
    shown = re.fullmatch(r"(\d+) True\n", finished.text)
    assert shown, finished
    plain = runner.run_plain([sys.executable, "-c", LOOK], env={"PYTHONMALLOC": "malloc"})
    assert int(shown[1]) < int(plain.text.split()[0]) + (64 << 20), f"{finished}\n{plain}"
