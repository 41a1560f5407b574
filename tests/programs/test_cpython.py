"""CPython, every object of it on malloc, runs a good part of its own test suite."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import partial

import pytest

from .harness import Runner

# Slow modules first: the workers share a group's modules in this order.
GROUPS = {
    "objects": (
        "test_gc test_weakref test_descr test_dict test_list test_set test_tuple test_deque test_heapq "
        "test_collections test_ordered_dict test_itertools test_functools test_generators test_coroutines "
        "test_asyncgen test_context test_exceptions test_sort test_copy"
    ),
    "text_and_numbers": (
        "test_email test_decimal test_pickle test_buffer test_bytes test_unicode|test_str test_re test_json "
        "test_string test_codecs test_csv test_datetime test_random test_long test_struct test_array "
        "test_memoryview test_marshal"
    ),
    "files": (
        "test_io test_bz2 test_zlib test_gzip test_fileio test_tempfile test_shelve test_dbm test_mailbox"
    ),
    "native_code": (
        "test_ctypes test_mmap test_hashlib test_pyexpat test_xml_etree test_xml_etree_c test_dynamic "
        "test_ast test_compile test_traceback test_tracemalloc test_inspect test_sys test_embed test_code"
    ),
    "extension_packages": "test_sqlite3 test_capi",
    "threads": (
        "test_logging test_threading test_queue test_thread test_threading_local test_threadedtempfile"
    ),
    "processes": (
        "test_multiprocessing_fork test_subprocess test_faulthandler test_fork1 test_wait4 test_posix "
        "test_os test_popen test_pty test_atexit test_select"
    ),
}
WORKERS = 3
MODULE_SECONDS = 200
# Where the interpreter's own Pool.terminate may wait for ever, on any allocator and seldom (its issues 73945
# and 78178): a module that was stopped there has its turn once more.
STUCK_POOL = "in _help_stuff_finish"


RESOLVE = """
import importlib.util, sys
for names in sys.argv[1:]:
    found = [name for name in names.split("|") if importlib.util.find_spec("test." + name)]
    print(found[0])
"""


def resolve(interpreter: str, modules: list[str]) -> list[str] | None:
    """The names under which this interpreter has the modules ("old|new"), or None if it lacks one."""
    command = [interpreter, "-c", RESOLVE, *modules]
    finished = subprocess.run(command, check=False, capture_output=True, text=True)
    return finished.stdout.split() if finished.returncode == 0 else None


def interpreter_with(modules: list[str]) -> tuple[str, list[str]]:
    """Distributions ship CPython without some or all of its test suite: takes one that has these.

    The system's comes first: what is installed into another one may break tests of its startup.
    """
    candidates = [shutil.which("python3", path=os.defpath), sys.executable, shutil.which("python3")]
    for candidate in candidates:
        if candidate and (resolved := resolve(candidate, modules)):
            return candidate, resolved
    tried = ", ".join(sorted({candidate for candidate in candidates if candidate}))
    pytest.fail(f"none of {tried} has the test modules {' '.join(modules)}: run tests/programs/setup.sh")


@pytest.mark.parametrize("group", GROUPS)
def test_cpython_passes_its_own_tests(runner: Runner, group: str) -> None:
    interpreter, modules = interpreter_with(GROUPS[group].split())
    command = [interpreter, "-m", "test", f"-j{WORKERS}", "--timeout", str(MODULE_SECONDS), *modules]
    run = partial(runner.run, command, env={"PYTHONMALLOC": "malloc"}, timeout_s=400, status=None)
    finished = run()
    if STUCK_POOL in finished.text:
        finished = run()
    assert finished.returncode == 0, str(finished)
    assert f"All {len(modules)} tests OK" in finished.text, str(finished)
