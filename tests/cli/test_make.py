"""The make targets a newcomer uses, the demo program, and the package on its own."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from .command import REPOSITORY, Command

DEMO = REPOSITORY / "build/examples/docserver"


@pytest.fixture
def demo(environment: dict[str, str]) -> Command:
    return Command([str(DEMO)], environment)


def test_make_does_nothing_when_nothing_changed(make: Command, library: Path) -> None:
    assert make().status == 0
    before = library.stat().st_mtime_ns
    outcome = make()
    assert outcome.status == 0
    assert "Building" not in outcome.stdout
    assert library.stat().st_mtime_ns == before


def test_make_run_compares_the_demo(make: Command) -> None:
    outcome = make("run", "RUNS=1", f"CMD={DEMO} --scale 0.02 --verify")
    assert outcome.status == 0, outcome.stderr
    assert re.search(r"^digest +[0-9a-f]{16}$", outcome.stdout, re.MULTILINE)
    assert "HAKMEM / libc" in outcome.stdout
    assert "HAKMEM's own summary" in outcome.stdout


def test_make_run_names_the_demo_by_itself(make: Command) -> None:
    assert "versus --runs 3 -- build/examples/docserver" in make("--just-print", "run").stdout


def test_make_run_takes_a_command_line(make: Command) -> None:
    command = f"""{sys.executable} -c 'print("two words", 6 * 7)'"""
    outcome = make("run", "RUNS=1", f"CMD={command}")
    assert outcome.status == 0, outcome.stderr
    assert "two words 42\n" in outcome.stdout


def test_make_run_redirects_as_a_shell_does(make: Command, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_text("from a file\n")
    assert "from a file\n" in make("run", "RUNS=1", f"CMD=cat < {source}").stdout


@pytest.mark.parametrize(
    ("command", "message"),
    [("", "no command given"), ("hak-no-such", "cannot run 'hak-no-such': not found in PATH")],
)
def test_make_run_of_what_is_not_there(make: Command, command: str, message: str) -> None:
    outcome = make("run", f"CMD={command}")
    assert outcome.status != 0
    assert f"hakmem: {message}" in outcome.stderr
    assert "Error 127" in outcome.stderr


def test_make_help_lists_the_targets(make: Command) -> None:
    outcome = make("help")
    for target in ("build", "run", "test", "lint", "install", "clean"):
        assert f"make {target} " in outcome.stdout


@pytest.mark.parametrize("prefix", ["{tmp}", "{tmp}/p q", "~/home"])
def test_make_install(make: Command, tmp_path: Path, prefix: str) -> None:
    folder = prefix.format(tmp=tmp_path)
    assert make("install", f"PREFIX={folder}", HOME=str(tmp_path)).status == 0
    place = Path(folder.replace("~", str(tmp_path)))
    found = {path.name for path in place.rglob("*") if path.is_file()}
    assert {"hakmem.h", "libhakmem.so", "libhakmem.a"} <= found


APPLICATION = """
#include <hakmem.h>
#include <stdio.h>
#include <stdlib.h>

int main(void) {
    void *block = malloc(1000);
    int is_hakmems = hak_usable_size(block) >= 1000 && hak_size_class_of(1000) >= 0;
    free(block);
    puts(is_hakmems ? "on HAKMEM" : "on another");
}
"""

PROJECT = """
cmake_minimum_required(VERSION 3.22)
project(application C)
find_package(hakmem 0.1 REQUIRED)
find_package(hakmem 0.1 QUIET COMPONENTS none_of_hakmems)
if(hakmem_FOUND)
  message(FATAL_ERROR "found what is not there")
endif()
add_executable(shared application.c)
target_link_libraries(shared PRIVATE hakmem::hakmem)
add_executable(static application.c)
target_link_libraries(static PRIVATE hakmem::hakmem_static)
"""


@pytest.fixture(name="installed")
def _installed(make: Command, tmp_path: Path) -> Path:
    """Where an installation has been moved to."""
    assert make("install", f"PREFIX={tmp_path}/first").status == 0
    return (tmp_path / "first").rename(tmp_path / "moved")


@pytest.fixture(name="application")
def _application(tmp_path: Path) -> Path:
    folder = tmp_path / "application"
    folder.mkdir()
    (folder / "application.c").write_text(APPLICATION)
    (folder / "CMakeLists.txt").write_text(PROJECT)
    return folder


def test_pkg_config_finds_what_is_installed(
    environment: dict[str, str], installed: Path, application: Path
) -> None:
    [described] = installed.rglob("hakmem.pc")
    shared = "cc application.c -o linked $(pkg-config --cflags --libs hakmem) && ./linked"
    # Optimised as a whole, where the linker is to find the static library by itself.
    whole = "cc -O2 -flto -static application.c -o whole"
    static = f"{whole} $(pkg-config --static --cflags --libs hakmem) && ./whole"
    script = f"{shared} && {static}"
    outcome = Command(["/bin/sh", "-c", f"cd {application} && {script}"], environment)(
        PKG_CONFIG_PATH=str(described.parent), LD_LIBRARY_PATH=str(described.parent.parent)
    )
    assert outcome.stdout == "on HAKMEM\non HAKMEM\n", outcome.stderr


def test_cmake_finds_what_is_installed(
    environment: dict[str, str], installed: Path, application: Path
) -> None:
    script = (
        f"cmake -S . -B build -DCMAKE_PREFIX_PATH={installed} && cmake --build build &&"
        " echo built && build/shared && build/static"
    )
    outcome = Command(["/bin/sh", "-c", f"cd {application} && {script}"], environment)()
    assert outcome.stdout.endswith("built\non HAKMEM\non HAKMEM\n"), outcome.stderr


# What Debian and Fedora ask of a package, link-time optimisation among it.
PACKAGERS_FLAGS = (
    "-O2 -flto=auto -ffat-lto-objects -fstack-protector-strong -fstack-clash-protection"
    " -Wformat -Werror=format-security -D_FORTIFY_SOURCE=2"
)


AS_A_PART = """
cmake_minimum_required(VERSION 3.22)
project(application C CXX)
add_subdirectory("{repository}" hakmem)
add_executable(shared application.c)
target_link_libraries(shared PRIVATE hakmem::hakmem)
add_executable(static application.c)
target_link_libraries(static PRIVATE hakmem::hakmem_static)
"""


def test_it_builds_as_a_part_of_another_project_with_the_flags_of_packagers(
    environment: dict[str, str], application: Path, tmp_path: Path
) -> None:
    (application / "CMakeLists.txt").write_text(AS_A_PART.format(repository=REPOSITORY))
    flags = " ".join(f"'-DCMAKE_{name}_FLAGS={PACKAGERS_FLAGS}'" for name in ("C", "CXX"))
    build = tmp_path / "build"
    script = (
        f"cmake -S {application} -B {build} {flags} -DCMAKE_BUILD_TYPE=RelWithDebInfo"
        f" && cmake --build {build} --parallel 2 && echo built"
        f" && {build}/shared && {build}/static && LD_PRELOAD={build}/hakmem/libhakmem.so ls {application}"
    )
    outcome = Command(["/bin/sh", "-c", script], {**environment, "CMAKE_GENERATOR": "Ninja"})()
    assert outcome.stdout.endswith("built\non HAKMEM\non HAKMEM\nCMakeLists.txt\napplication.c\n"), (
        outcome.stderr
    )


# A user's copy of the folder as it is, with what was built in it, or the folder by another name.
@pytest.fixture(name="copy")
def _copy(tmp_path: Path) -> Path:
    """The folder without what is in subfolders of what was built, which would take long to copy."""
    copy = tmp_path / "a copy"
    kept = "CMakeLists.txt Makefile pyproject.toml README.md include src tools python examples"
    copy.mkdir()
    for name in kept.split():
        subprocess.run(["cp", "-a", str(REPOSITORY / name), str(copy)], check=True)
    (copy / "build/.stamps").mkdir(parents=True)
    for name in ("CMakeCache.txt", "build.ninja", ".stamps/place", ".stamps/tools-build"):
        subprocess.run(["cp", "-a", str(REPOSITORY / "build" / name), str(copy / "build" / name)], check=True)
    return copy


def test_a_copy_of_the_folder_builds_what_it_holds(environment: dict[str, str], copy: Path) -> None:
    make = Command(["make", "--no-print-directory", "-C", str(copy)], environment)
    # Configured anew, and nothing is built: that is the same for any folder.
    outcome = make("build/.stamps/place")
    assert outcome.status == 0, outcome.stderr
    cache = (copy / "build/CMakeCache.txt").read_text()
    assert f"CMAKE_HOME_DIRECTORY:INTERNAL={copy}\n" in cache
    assert str(REPOSITORY) + "/src" not in (copy / "build/build.ninja").read_text()


def test_an_environment_whose_making_was_interrupted_is_made_anew(
    environment: dict[str, str], copy: Path
) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(copy / ".venv")], check=True)
    make = Command(["make", "--no-print-directory", "-C", str(copy)], environment)
    shown = make("--just-print", "python").stdout
    steps = shown[shown.index("# One whose making") :].split("\n")[1]
    outcome = Command(
        ["/bin/sh", "-c", f"cd '{copy}' && {steps} && .venv/bin/python -m pip --version"], environment
    )()
    assert outcome.stdout.startswith("pip "), outcome.stderr


def test_setup_names_what_is_missing(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "bash").symlink_to("/bin/bash")
    outcome = Command(["/bin/bash", str(REPOSITORY / "tools/setup.sh")], environment)(
        "build", PATH=str(tmp_path)
    )
    assert outcome.status == 1
    assert "no cmake" in outcome.stderr
    assert "apt-get install" in outcome.stderr
    assert "ninja-build" in outcome.stderr


def test_setup_refuses_an_old_compiler(environment: dict[str, str], tmp_path: Path) -> None:
    old = tmp_path / "old-cc"
    old.write_text("#!/bin/sh\necho '#define __GNUC__ 9'\n")
    old.chmod(0o755)
    setup = Command(["bash", str(REPOSITORY / "tools/setup.sh")], environment)
    path = f"{tmp_path}:{environment['PATH']}"
    # Without apt-get in reach nothing is installed.
    (tmp_path / "id").write_text("#!/bin/sh\necho 1000\n")
    (tmp_path / "id").chmod(0o755)
    outcome = setup("build", CC=str(old), PATH=path)
    assert outcome.status == 1
    assert "is GCC 9; GCC 11 or newer" in outcome.stderr


def test_setup_refuses_an_old_libc(environment: dict[str, str], tmp_path: Path) -> None:
    old = tmp_path / "old-libc"
    macros = ("__GNUC__ 12", "__GLIBC__ 2", "__GLIBC_MINOR__ 28")
    old.write_text("#!/bin/sh\n" + "".join(f"echo '#define {macro}'\n" for macro in macros))
    (tmp_path / "id").write_text("#!/bin/sh\necho 1000\n")
    for command in ("old-libc", "id"):
        (tmp_path / command).chmod(0o755)
    setup = Command(["bash", str(REPOSITORY / "tools/setup.sh")], environment)
    outcome = setup("build", CC=str(old), PATH=f"{tmp_path}:{environment['PATH']}")
    assert outcome.status == 1
    assert "glibc 2.28 is too old; glibc 2.33 or newer is needed" in outcome.stderr


def test_setup_refuses_an_unknown_task(environment: dict[str, str]) -> None:
    outcome = Command(["bash", str(REPOSITORY / "tools/setup.sh")], environment)("dance")
    assert outcome.status == 2
    assert "dance" in outcome.error_line()


@pytest.mark.parametrize("threads", ["1", "3", "16"])
def test_demo_gives_the_same_result_on_any_number_of_threads(demo: Command, threads: str) -> None:
    outcome = demo("--scale", "0.02", "--threads", threads, "--verify")
    assert outcome.status == 0, outcome.stderr
    assert outcome.stdout == demo("--scale", "0.02", "--threads", "2", "--verify").stdout


def test_demo_gives_the_same_result_on_hakmem(demo: Command, library: Path) -> None:
    arguments = ("--scale", "0.05", "--verify")
    assert demo(*arguments, LD_PRELOAD=str(library)).stdout == demo(*arguments).stdout


@pytest.mark.parametrize(
    "arguments",
    [["--scale", "0"], ["--scale"], ["--scale", "x"], ["--threads", "0"], ["--threads", "1.5"], ["more"]],
)
def test_demo_refuses_bad_options(demo: Command, arguments: list[str]) -> None:
    outcome = demo(*arguments)
    assert outcome.status == 2
    assert arguments[0] in outcome.stderr
    assert "usage:" in outcome.stderr


def test_demo_help(demo: Command) -> None:
    outcome = demo("--help")
    assert outcome.status == 0
    assert "--scale" in outcome.stdout


def test_demo_knows_nothing_of_hakmem() -> None:
    linked = subprocess.run(["ldd", DEMO], capture_output=True, text=True, check=True).stdout
    assert "hakmem" not in linked
    assert "libc.so" in linked


def test_pip_install_needs_nothing_else(environment: dict[str, str], tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", tmp_path], check=True)
    pip = [str(tmp_path / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, str(REPOSITORY)], check=True, env=environment)
    hakmem = Command([str(tmp_path / "bin/hakmem")], environment)
    library = next(tmp_path.rglob("hakmem/lib/libhakmem.so"))
    assert (library.parents[1] / "include/hakmem.h").is_file()
    assert f"({library})" in hakmem("--version").stdout
    mapped = f"print('{library}' in open('/proc/self/maps').read())"
    assert hakmem("run", sys.executable, "-c", mapped).stdout == "True\n"
