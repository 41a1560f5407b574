"""Fixtures for all tests of this folder."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

import pytest

from ..c_source import A_LIBRARY, compile_c
from ..cli.command import REPOSITORY


@pytest.fixture(scope="session")
def workload_programs() -> Mapping[str, Path]:
    """The built workload programs by name: those in HAKMEM_BENCH_PROGRAMS, or in build/bench."""
    folder = Path(os.environ.get("HAKMEM_BENCH_PROGRAMS") or REPOSITORY / "build/bench")
    programs = {
        path.name: path
        for path in (folder.iterdir() if folder.is_dir() else ())
        if path.is_file() and os.access(path, os.X_OK)
    }
    if not programs:
        pytest.fail(
            f"no workload programs in '{folder}': build with -DHAKMEM_BUILD_BENCH=ON, "
            "or say in HAKMEM_BENCH_PROGRAMS where they are"
        )
    return programs


class BrokenMalloc(Protocol):
    def __call__(self, *, size: int, offset: int) -> Path: ...


SmallMalloc = Callable[[str], Path]


@pytest.fixture
def broken_malloc(tmp_path: Path) -> BrokenMalloc:
    """broken_malloc(size=..., offset=...): a library to preload whose fifth block of this size lies `offset`
    bytes, 64 at most, from the start of the fourth."""

    def build(*, size: int, offset: int) -> Path:
        source = f"""
            #include <stddef.h>
            extern void *__libc_malloc(size_t);
            void *malloc(size_t size) {{
                static char *last;
                static int calls;
                if (size == {size} && ++calls == 5)
                    return last + {offset};
                void *block = __libc_malloc(size == {size} ? size + 64 : size);
                if (size == {size})
                    last = block;
                return block;
            }}"""
        return compile_c(source, tmp_path / "broken.so", *A_LIBRARY)

    return build


@pytest.fixture
def small_malloc(tmp_path: Path) -> SmallMalloc:
    """small_malloc(source): a library to preload with a malloc and this source, which may say(what) on stderr
    was called."""

    def build(more: str) -> Path:
        source = f"""
            #include <stddef.h>
            #include <string.h>
            #include <unistd.h>
            extern void *__libc_malloc(size_t);
            void *malloc(size_t size) {{ return __libc_malloc(size); }}
            static inline void say(const char *what) {{
                (void)!write(2, what, strlen(what));
                (void)!write(2, "\\n", 1);
            }}
            {more}"""
        return compile_c(source, tmp_path / "small.so", *A_LIBRARY)

    return build
