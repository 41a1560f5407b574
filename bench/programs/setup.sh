#!/bin/sh
# Installs the programs that `python -m bench.programs` runs. As root on a system with apt-get it installs what
# is missing; elsewhere it says what is missing and how to get it. Ends with status 1 while anything is missing:
# the benchmarks of what is there run all the same.
set -u

# Command, and the Debian package that has it.
PROGRAMS='
redis-server    redis-server
redis-benchmark redis-tools
redis-cli       redis-tools
setpriv         util-linux
sqlite3         sqlite3
g++             g++
clang++         clang
node            nodejs
cargo           cargo
rustc           rustc
'

missing_packages() {
    echo "$PROGRAMS" | while read -r command package; do
        [ -z "$command" ] || command -v "$command" >/dev/null 2>&1 || echo "$package"
    done | sort -u | tr '\n' ' ' | sed 's/ $//'
}

packages=$(missing_packages)
if [ -n "$packages" ] && [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1; then
    # shellcheck disable=SC2086 # a list of words
    { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $packages; } \
        </dev/null >&2
    packages=$(missing_packages)
fi
if [ -n "$packages" ]; then
    echo "setup: some programs to measure are missing; on Debian or Ubuntu: sudo apt-get install $packages" >&2
    exit 1
fi
