"""Forks at bad moments, calls of the kernel that fail, and threads that are cancelled inside malloc."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from .builder import Builder
from .conftest import REPOSITORY
from .harness import Runner

# Each program here ends within a few seconds; one that has not by then waits for itself.
HANGS_AFTER_S = 60.0
# Frees keep all memory: what is given back is given back by malloc_trim alone.
RETAIN_ALL = {"HAKMEM_RETAIN_MIN": "4G"}

# Failures of mremap after which the place that it should have moved to can be used again.
HARMLESS_FAILURES = [
    "dontunmap_unknown",
    "mapping_limit",
    "target_unmapped",
    "address_space_limit",
    "pages_advised",
]

LOAD_AND_USE = """
import ctypes, os, sys, threading
library = ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_LOCAL)
library.hak_version.restype = ctypes.c_char_p
library.hak_malloc.restype = library.hak_realloc.restype = ctypes.c_void_p
library.hak_malloc.argtypes = [ctypes.c_size_t]
library.hak_realloc.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
library.hak_free.argtypes = [ctypes.c_void_p]
failures = []

def use():
    for size in (1, 100, 5000, 70000, 300000, 9000000):
        block = library.hak_malloc(size)
        ctypes.memset(block, 0x5A, size)
        block = library.hak_realloc(block, size * 2)
        if ctypes.string_at(block, size) != b"Z" * size:
            failures.append(size)
        library.hak_free(block)

use()
threads = [threading.Thread(target=use) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
child = os.fork()
if child == 0:
    use()
    os._exit(len(failures))
assert os.waitpid(child, 0)[1] == 0, "the child could not use the library"
assert not failures, failures
print(library.hak_version().decode())
"""


def test_fork_does_not_wait_for_thread_that_allocates_inside_stdio(runner: Runner, builder: Builder) -> None:
    runner.same_output([builder.program("c/fork_while_stdio_allocates.c")], timeout_s=HANGS_AFTER_S)


@pytest.mark.parametrize("settings", [{}, {"HAKMEM_PROF": "1", "HAKMEM_PROF_INTERVAL": "4K"}])
def test_fork_and_statistics_on_a_signal_do_not_wait_for_each_other(
    runner: Runner, builder: Builder, tmp_path: Path, settings: dict[str, str]
) -> None:
    files = {
        "HAKMEM_STATS_FILE": str(tmp_path / "statistics"),
        "HAKMEM_PROF_FILE": str(tmp_path / "%p.%n.heap"),
    }
    finished = runner.run(
        [builder.program("c/fork_while_statistics_are_written.c")],
        env={"HAKMEM_STATS_SIGNAL": "10", **files, **settings},
        timeout_s=HANGS_AFTER_S,
    )
    assert finished.text == "400 forks\n"


@pytest.mark.parametrize("handlers", ["allocate", "await_worker"])
def test_atfork_handlers_of_other_libraries_can(runner: Runner, builder: Builder, handlers: str) -> None:
    library = builder.plugin("c/atfork_library.c")
    program = builder.program("c/allocation_in_atfork_handlers.c", str(library))
    runner.same_output([program, handlers], timeout_s=HANGS_AFTER_S)


def test_child_can_free_inherited_blocks_and_reuse_their_slabs(runner: Runner, builder: Builder) -> None:
    runner.same_output([builder.program("c/child_frees_inherited_blocks.c")], timeout_s=HANGS_AFTER_S)


def test_fork_during_purge_loses_no_memory_of_the_child(runner: Runner, builder: Builder) -> None:
    program = builder.program("c/fork_while_purging.c")
    runner.same_output([program], env=RETAIN_ALL, timeout_s=HANGS_AFTER_S)


@pytest.mark.parametrize("failure", [*HARMLESS_FAILURES, "target_taken_by_others", "data_limit"])
def test_huge_realloc_loses_nothing_when_mremap_fails(runner: Runner, builder: Builder, failure: str) -> None:
    program = builder.program("c/huge_realloc_when_mremap_fails.c", "-rdynamic")
    runner.run([program, failure, "grow"], timeout_s=HANGS_AFTER_S)


@pytest.mark.parametrize("failure", HARMLESS_FAILURES)
def test_failing_mremap_uses_up_no_address_space(runner: Runner, builder: Builder, failure: str) -> None:
    program = builder.program("c/huge_realloc_when_mremap_fails.c", "-rdynamic")
    runner.run([program, failure, "repeat"], timeout_s=HANGS_AFTER_S)


def test_calloc_reads_as_zero_where_huge_block_moved_away(runner: Runner, builder: Builder) -> None:
    runner.same_output([builder.program("c/calloc_after_huge_realloc.c")], timeout_s=HANGS_AFTER_S)


def test_memory_below_what_the_kernel_does_not_take_goes_back(runner: Runner, builder: Builder) -> None:
    runner.run([builder.program("c/pages_that_stay_locked.c", "-rdynamic")], timeout_s=HANGS_AFTER_S)


def test_cancelled_thread_leaves_no_lock_held(runner: Runner, builder: Builder) -> None:
    program = builder.program("c/cancelled_thread_that_logs.c", "-rdynamic")
    finished = runner.run([program], env={"HAKMEM_WRAP_DIAG": "1"}, timeout_s=HANGS_AFTER_S, may_speak=True)
    logged = "\n".join(finished.library_lines)
    for reason in ("foreign free", "huge block copied", "purge failed"):
        assert f"fall-back: {reason}" in logged, f"no fall-back '{reason}' was logged\n{finished}"


def test_blocks_of_libc_are_handed_to_libc_when_no_file_can_be_opened(
    runner: Runner, builder: Builder
) -> None:
    runner.same_output([builder.program("c/libc_blocks_without_files.c")], timeout_s=HANGS_AFTER_S)


def test_library_works_in_plain_process_that_loads_it_locally(runner: Runner, library: Path) -> None:
    header = (REPOSITORY / "include" / "hakmem.h").read_text()
    version = ".".join(re.findall(r"#define HAKMEM_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header))
    loaded = runner.run_plain([sys.executable, "-c", LOAD_AND_USE, library], timeout_s=HANGS_AFTER_S)
    assert loaded.text.strip() == version, loaded
    assert not loaded.library_lines, loaded
