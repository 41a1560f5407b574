#!/usr/bin/env bash
# Makes sure that the tools a task needs are there: as root on a Debian-like system it installs what is
# missing, elsewhere it says exactly what to install.
#   tools/setup.sh [build] [test] [lint] [bench]      (build when nothing is named)
set -euo pipefail

tasks=("$@")
((${#tasks[@]})) || tasks=(build)

missing=()   # what is wrong, one sentence each
packages=()  # Debian packages that put it right

lack() { # lack <sentence> <package>...
    missing+=("$1")
    packages+=("${@:2}")
}

have() { command -v "$1" >/dev/null 2>&1; }

# The compilers CMake will pick, unless CC and CXX say otherwise.
compiler_problem() { # compiler_problem <command> <language>
    local command=$1 language=$2 macros major
    if ! have "${command%% *}"; then
        echo "no $language compiler (${command})"
        return
    fi
    # shellcheck disable=SC2086 # CC may carry arguments, as in "ccache gcc"
    macros=$($command -dM -E -x "$language" /dev/null 2>/dev/null) || {
        echo "'$command' does not work as a $language compiler"
        return
    }
    if major=$(grep -oP '#define __clang_major__ \K\d+' <<<"$macros"); then
        ((major >= 14)) || echo "'$command' is Clang $major; Clang 14 or newer (or GCC 11 or newer) is needed"
    elif major=$(grep -oP '#define __GNUC__ \K\d+' <<<"$macros"); then
        ((major >= 11)) || echo "'$command' is GCC $major; GCC 11 or newer (or Clang 14 or newer) is needed"
    else
        echo "'$command' is neither GCC nor Clang"
    fi
}

libc_problem() {
    local version major minor
    # shellcheck disable=SC2086 # as above
    version=$(echo '#include <malloc.h>' | ${CC:-cc} -dM -E -x c - 2>/dev/null |
        sed -nE 's/^#define __GLIBC(_MINOR)?__ ([0-9]+)$/\2/p' | tr '\n' ' ')
    read -r major minor <<<"$version"
    if [[ -z ${minor:-} ]]; then
        echo "no headers of glibc"
    elif ((major * 1000 + minor < 2033)); then
        echo "glibc $major.$minor is too old; glibc 2.33 or newer is needed"
    fi
}

check_build() {
    local problem
    problem=$(compiler_problem "${CC:-cc}" c)
    problem=${problem:-$(libc_problem)}
    [[ -z $problem ]] || lack "$problem" gcc libc6-dev
    problem=$(compiler_problem "${CXX:-c++}" c++)
    [[ -z $problem ]] || lack "$problem" g++
    have cmake || lack "no cmake" cmake
    have ninja || lack "no ninja" ninja-build
    local python=${PYTHON:-python3} # as the Makefile's
    if ! have "$python"; then
        lack "no $python" python3 python3-venv
    elif ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))'; then
        lack "$("$python" --version) is too old; Python 3.10 or newer is needed" python3 python3-venv
    elif ! "$python" -c 'import venv, ensurepip' 2>/dev/null; then
        lack "$python cannot make virtual environments" python3-venv
    fi
}

check_test() {
    # The header alone is not enough: the distribution may ship it without the library.
    if ! "${CXX:-c++}" -x c++ -std=c++17 -o /dev/null - -lgtest -lgtest_main -pthread 2>/dev/null <<'CODE'; then
#include <gtest/gtest.h>
TEST(Setup, Links) {}
CODE
        lack "no GoogleTest" libgtest-dev
    fi
    have pkg-config || lack "no pkg-config" pkg-config
}

check_lint() {
    have clang-format || lack "no clang-format" clang-format
    have clang-tidy || lack "no clang-tidy" clang-tidy
}

# What counts instructions and system calls; bench/programs/setup.sh installs the real programs.
check_bench() {
    have valgrind || lack "no valgrind" valgrind
    have strace || lack "no strace" strace
}

check_all() {
    missing=() packages=()
    local task
    for task in "${tasks[@]}"; do
        case $task in
            build | test | lint | bench) "check_$task" ;;
            *)
                echo "setup.sh: no task named '$task' (there are: build test lint bench)" >&2
                exit 2
                ;;
        esac
    done
    ((${#missing[@]} == 0))
}

check_all && exit 0

if [[ $(id -u) == 0 ]] && have apt-get; then
    echo "setup: installing ${packages[*]}" >&2
    export DEBIAN_FRONTEND=noninteractive
    if log=$({ apt-get update -q && apt-get install -q -y --no-install-recommends "${packages[@]}"; } 2>&1 </dev/null); then
        check_all && exit 0
    else
        tail -n 20 <<<"$log" >&2
    fi
fi

{
    echo "setup: the tool chain is not complete:"
    printf '  - %s\n' "${missing[@]}"
    echo "On Debian or Ubuntu: sudo apt-get install ${packages[*]}"
} >&2
exit 1
