# HAKMEM: build, run, test. `make help` lists the targets.
.DEFAULT_GOAL := build
.DELETE_ON_ERROR:
.NOTPARALLEL:
SHELL := bash
.SHELLFLAGS := -o pipefail -c
MAKEFLAGS += --no-print-directory

BUILD := build
VENV := .venv
PYTHON ?= python3
PREFIX ?= /usr/local
RUNS ?= 3
DEMO := $(BUILD)/examples/docserver
CMD ?= $(DEMO)

HAKMEM := $(VENV)/bin/hakmem
CONFIGURE := cmake -G Ninja -S . -DCMAKE_EXPORT_COMPILE_COMMANDS=ON -DHAKMEM_WERROR=ON
# A test that hangs fails after the timeout. Tests take two places each, but for those that mostly sleep: they wait as long
# as they work, so that two for each processor keep it busy.
CTEST := ctest --output-on-failure --timeout 300 --parallel $(shell expr 4 '*' "$$(nproc)")
# Files side by side, the tests of one after each other, and in their order: those of real programs take longest, and
# come first. Half as many again as there are processors, because many tests wait for a program to go on.
PYTEST := $(VENV)/bin/python -m pytest --numprocesses $(shell expr 3 '*' "$$(nproc)" / 2) --dist loadfile --no-loadscope-reorder

C_FILES = $(shell find src include examples tests bench -name '*.[ch]' -o -name '*.[ch]pp')
PYTHON_FOLDERS := python bench tests

# A file that stands for a task done, newer than what the task depends on.
STAMPS := $(BUILD)/.stamps
tools_ready = $(STAMPS)/tools-$(1)

# CMake and the virtual environment keep absolute paths: in a copy of the folder, or where it was moved, they would
# build what the first one holds. So both note where they are, and are set up anew elsewhere.
PLACE := $(STAMPS)/place
ifneq ($(shell cat $(PLACE) $(VENV)/.ready 2>/dev/null | grep -vxF "$$(pwd -P)"),)
$(shell rm -rf $(foreach folder,$(BUILD) $(wildcard $(BUILD)-* $(BUILD)/lint),$(folder)/CMakeCache.txt $(folder)/CMakeFiles \
    $(folder)/build.ninja) $(PLACE) $(VENV)/.ready $(VENV)/.ready-bench)
endif

.PHONY: build library python run bench bench-full bench-programs test test-unit test-asan test-tsan test-clang \
        test-programs test-cli test-bench setup-programs setup-bench lint format install clean help

build: library python ## Build the library, and the hakmem command in .venv (the default)

library: $(BUILD)/build.ninja $(PLACE)
	@cmake --build $(BUILD)

$(STAMPS)/tools-%: tools/setup.sh
	@PYTHON='$(PYTHON)' tools/setup.sh $*
	@mkdir -p $(STAMPS)
	@touch $@

$(BUILD)/build.ninja: | $(call tools_ready,build)
	@$(CONFIGURE) -B $(BUILD) -DCMAKE_BUILD_TYPE=Release

$(PLACE): $(BUILD)/build.ninja
	@pwd -P > $@

# The package is installed in place and finds the library in build/: nothing is built a second time.
python: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml include/hakmem.h | $(call tools_ready,build)
	@# One whose making was interrupted has no pip.
	@$(VENV)/bin/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check \
	    --config-settings=wheel.cmake=false --editable '.[dev]'
	@pwd -P > $@

# What the benchmarks and their tests import beyond what the command needs.
$(VENV)/.ready-bench: $(VENV)/.ready
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check \
	    --config-settings=wheel.cmake=false --editable '.[dev,bench]'
	@touch $@

run: build ## Compare a program on HAKMEM and on libc: the demo, or CMD='program arguments'; RUNS=3
	@$(HAKMEM) versus --runs $(RUNS) -- $(CMD)

bench: bench-programs ## Measure HAKMEM and its peers: docs/benchmarks (20 minutes of comparing, 40 in all or more); ARGS='--only larson*'
bench-full: bench-programs ## The same with long runs (hours)
bench-full: ARGS += --full
bench bench-full:
	@for setup in 'tools/setup.sh bench' bench/programs/setup.sh; do \
	    $$setup || echo "make: what needs these is left out" >&2; done
	@$(VENV)/bin/python -m bench.peers
	@$(VENV)/bin/python -m bench run $(ARGS)

bench-programs: build $(VENV)/.ready-bench
	@$(CONFIGURE) -B $(BUILD) -DHAKMEM_BUILD_BENCH=ON >/dev/null
	@cmake --build $(BUILD)

test: test-unit test-asan test-tsan setup-programs setup-bench ## Run every test (25 minutes)
	@$(PYTEST) tests/programs tests/cli tests/bench

test-unit: build $(call tools_ready,test) ## Unit tests
	@$(CONFIGURE) -B $(BUILD) -DHAKMEM_BUILD_TESTS=ON >/dev/null
	@cmake --build $(BUILD)
	@echo "== unit tests"
	@$(CTEST) --test-dir $(BUILD)

test-asan: BUILT := -DCMAKE_BUILD_TYPE=RelWithDebInfo -DHAKMEM_SANITIZE=address ## Unit tests with AddressSanitizer and UndefinedBehaviorSanitizer
test-tsan: BUILT := -DCMAKE_BUILD_TYPE=RelWithDebInfo -DHAKMEM_SANITIZE=thread ## Unit tests with ThreadSanitizer
test-clang: BUILT := -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ ## Unit tests, built by Clang; not a part of `make test`
test-asan test-tsan test-clang: test-%: $(call tools_ready,build) $(call tools_ready,test)
	@$(CONFIGURE) -B build-$* $(BUILT) -DHAKMEM_BUILD_TESTS=ON >/dev/null
	@cmake --build build-$*
	@echo "== unit tests, $*"
	@$(CTEST) --test-dir build-$*

setup-programs: build
	@PYTHON=$(CURDIR)/$(VENV)/bin/python tests/programs/setup.sh

test-programs: setup-programs ## Real programs on the preloaded library
	@$(PYTEST) tests/programs

test-cli: build $(VENV)/.ready-bench ## The hakmem command and the make targets
	@$(PYTEST) tests/cli

setup-bench: bench-programs $(call tools_ready,bench)
	@bench/programs/setup.sh

test-bench: setup-bench ## The workloads, the peers and the harness of the benchmarks
	@$(PYTEST) tests/bench

CLANG_TIDY := xargs -0 -n 1 -P $(shell nproc) clang-tidy --quiet -p $(BUILD)/lint
# Warnings that are not shown are of the system's headers.
HIDE_COUNTS := sed -E '/^[0-9]+ warnings? generated\.$$/d'
lint: build $(VENV)/.ready-bench $(call tools_ready,lint) $(call tools_ready,test) ## Check format, and what static analysis finds
	@clang-format --dry-run --Werror $(C_FILES)
	@$(CONFIGURE) -B $(BUILD)/lint -DCMAKE_BUILD_TYPE=Release -DHAKMEM_BUILD_TESTS=ON -DHAKMEM_BUILD_BENCH=ON >/dev/null
	@find src -name '*.c' -print0 | sort -z | $(CLANG_TIDY) 2>&1 | $(HIDE_COUNTS)
	@# Of the rest, what Clang warns of: it is built by GCC, as a rule. Files that are built as one are read as one.
	@sed -n 's/^  "file": "\(.*\)",\{0,1\}$$/\1/p' $(BUILD)/lint/compile_commands.json | grep -v '/src/.*[.]c$$\|/cmake_pch[.]' | \
	    sort -u | tr '\n' '\0' | $(CLANG_TIDY) --header-filter='/(bench|examples|include|src|tests)/' \
	    --checks='-*,clang-diagnostic-*,bugprone-infinite-loop,bugprone-use-after-move' 2>&1 | $(HIDE_COUNTS)
	@$(VENV)/bin/ruff check $(PYTHON_FOLDERS)
	@$(VENV)/bin/ruff format --check $(PYTHON_FOLDERS)
	@$(VENV)/bin/mypy python/hakmem bench tests

format: build $(call tools_ready,lint) ## Put all files into the house format
	@clang-format -i $(C_FILES)
	@$(VENV)/bin/ruff check --quiet --fix $(PYTHON_FOLDERS)
	@$(VENV)/bin/ruff format $(PYTHON_FOLDERS)

install: library ## Install the library and its header under PREFIX=/usr/local
	@# Not every shell replaces the ~ of an argument PREFIX=~/.local.
	@prefix='$(PREFIX)' && cmake --install $(BUILD) --prefix "$${prefix/#'~/'/$$HOME/}"

clean: ## Remove all that was built, .venv included
	rm -rf build build-asan build-tsan build-clang $(VENV) .pytest_cache .mypy_cache .ruff_cache
	find python bench tests -name __pycache__ -type d -prune -exec rm -rf {} +

help: ## Print this
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
