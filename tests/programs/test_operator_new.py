"""operator new and delete in all forms, in a C++ program and in a plugin of a C program."""

from __future__ import annotations

import pytest

from .builder import Builder
from .harness import Runner

CHECKS = [
    "plain_forms",
    "aligned_forms",
    "bad_alloc_is_thrown",
    "nothrow_gives_null",
    "new_handler_is_called",
    "objects_and_containers",
]


@pytest.mark.parametrize("check", CHECKS)
def test_operator_new(runner: Runner, builder: Builder, check: str) -> None:
    # Some compilers leave the sized forms of delete undeclared unless told.
    runner.run([builder.program("cpp/operator_new_forms.cpp", "-fsized-deallocation"), check])


def test_c_program_loads_and_unloads_cpp_plugin(runner: Runner, builder: Builder) -> None:
    host = builder.program("c/plugin_host.c")
    plugin = builder.plugin("cpp/plugin.cpp")
    runner.same_output([host, plugin, "300"])


# Each runtime unwinds its own code only.
@pytest.mark.parametrize("order", ["own", "own shared", "shared own"])
def test_plugin_gets_bad_alloc_from_its_own_runtime(runner: Runner, builder: Builder, order: str) -> None:
    host = builder.program("c/plugin_stays.c")
    flags = {"own": ["-static-libstdc++", "-static-libgcc"], "shared": []}
    plugins = [
        builder.plugin("cpp/plugin.cpp", *flags[kind], suffix=f"_{kind}_runtime") for kind in order.split()
    ]
    runner.same_output([host, *plugins])


@pytest.mark.parametrize("linked", [False, True], ids=["preloaded", "static"])
@pytest.mark.parametrize("forms", ["ALL", "ARRAYS"])
def test_forms_that_a_program_replaces_serve_the_others(
    runner: Runner, builder: Builder, forms: str, linked: bool
) -> None:
    flags = ["-fsized-deallocation", "-faligned-new", "-Wno-sized-deallocation", "-O0", f"-D{forms}"]
    if linked:
        flags.append(str(runner.library.with_suffix(".a")))
    program = builder.program("cpp/operator_new_replaced.cpp", *flags, suffix=f"_{forms}_{linked}")
    run = runner.run_plain if linked else runner.same_output
    assert run([program]).text == "taken given refused\n"
