#!/bin/sh
# Installs every program that the tests of this folder run. As root on a system with apt-get it
# installs what is missing; elsewhere it says what is missing and how to get it. Ends with status 1
# while anything is missing.
set -u

PROGRAMS='
redis-server    redis-server
redis-benchmark redis-tools
sqlite3         sqlite3
gcc             gcc
g++             g++
clang           clang
clang++         clang
node            nodejs
git             git
perl            perl
php             php-cli
java            default-jdk-headless
javac           default-jdk-headless
pg_config       postgresql-common
bash            bash
awk             gawk
openssl         openssl
xz              xz-utils
bzip2           bzip2
gzip            gzip
tar             tar
diff            diffutils
cargo           cargo
rustc           rustc
addr2line       binutils
'
PYTHON=${PYTHON:-python3}
SYSTEM_PATH=$(getconf PATH)

may_install() { [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1; }

refreshed=no
install_packages() {
    may_install || return 1
    if [ "$refreshed" = no ]; then
        apt-get update || return 1
        refreshed=yes
    fi
    # The input is the list of programs, which apt-get must not read.
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" </dev/null
}

missing=0
require() { # what, package, check command...
    what=$1 package=$2
    shift 2
    "$@" >/dev/null 2>&1 && return
    install_packages "$package" && "$@" >/dev/null 2>&1 && return
    echo "missing: $what (package $package: apt-get install $package)" >&2
    missing=1
}

has_pg_server() { [ -x "$(pg_config --bindir)/initdb" ] && [ -x "$(pg_config --bindir)/pgbench" ]; }
has_static_libc() { echo 'int main(void){return 0;}' | gcc -x c -static -o /dev/null -; }
has_python_modules() { # interpreter, modules...
    interpreter=$1
    shift
    "$interpreter" -c 'import importlib.util, sys
sys.exit(any(importlib.util.find_spec("test." + name) is None for name in sys.argv[1:]))' "$@"
}
any_python_has() {
    has_python_modules "$PYTHON" "$@" || has_python_modules "$(PATH=$SYSTEM_PATH command -v python3)" "$@"
}

while read -r program package; do
    [ -n "$program" ] && require "$program" "$package" command -v "$program"
done <<END
$PROGRAMS
END
require "PostgreSQL server programs" postgresql has_pg_server
require "static C library" libc6-dev has_static_libc
has_go() { PATH=$PATH:/usr/local/go/bin command -v go; }
require "go" golang-go has_go
if [ "$(id -u)" -eq 0 ]; then
    require "user postgres" postgresql id postgres
fi

version=$(PATH=$SYSTEM_PATH python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null || echo 3)
require "CPython's test suite" "libpython$version-testsuite" any_python_has test_gc test_multiprocessing_fork
if ! any_python_has test_sqlite3 test_capi; then
    echo "missing: the test packages test_sqlite3 and test_capi, which some distributions leave out of their" \
        "Python: run pytest with a Python built from source (for example by pyenv: pyenv install 3.12)" >&2
    missing=1
fi
has_pytest() { "$PYTHON" -c 'import pytest'; }
has_pytest 2>/dev/null || "$PYTHON" -m pip install --quiet pytest 2>/dev/null
require "pytest for $PYTHON" python3-pytest has_pytest

if [ "$missing" -ne 0 ]; then
    may_install || echo "run this script as root on Debian or Ubuntu to have packages installed" >&2
    exit 1
fi
echo "everything that the program tests need is installed"
