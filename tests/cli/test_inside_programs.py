"""The commands that look inside, on real programs: what was planted is found, with the right weight."""

import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hakmem.inside.process import resident_bytes

from .command import Command
from .conftest import Compile
from .test_flame import boxes

LEAK_BYTES = 64 << 20
# What the program's work may hold at the moment of a measurement: it is asked while it works.
WORK_BYTES = 4000 // 50 * sum(64 * n for n in range(1, 51))
BURST_BLOCKS = 200_000
# The program allocates all the time, so that it comes to publish what it has.
PUBLISHED_AFTER_S = 1.0
TURNED_OVER_BYTES = 32 << 20
# Does what it is told line by line, and allocates a little meanwhile, as a program does that is not idle.
SOURCE = """
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BURST 200000
static void *kept[BURST];

__attribute__((noinline)) void *planted_leak(void) {
    void *block = malloc(1000);
    memset(block, 1, 1000);
    return block;
}

__attribute__((noinline)) void *planted_keeper(void) { return malloc(200); }
__attribute__((noinline)) void *innocent(void) { return malloc(200); }

static void leak(void) {
    for (int i = 0; i < 67109; i++) {
        kept[i % BURST] = planted_leak();
    }
}

static void fragment(void) {
    for (int i = 0; i < BURST; i++) {
        kept[i] = i % 64 == 0 ? planted_keeper() : innocent();
    }
    for (int i = 0; i < BURST; i++) {
        if (i % 64 != 0) {
            free(kept[i]);
        }
    }
}

static void work(void) {
    static void *blocks[4000];
    for (int i = 0; i < 4000; i++) {
        blocks[i] = malloc((size_t)(i % 50 + 1) * 64);
    }
    for (int i = 0; i < 4000; i++) {
        free(blocks[i]);
    }
}

int main(void) {
    struct pollfd input = {.fd = 0, .events = POLLIN};
    char line[80];
    setvbuf(stdin, NULL, _IONBF, 0);
    for (;;) {
        if (poll(&input, 1, 5) == 0) {
            work();
        } else if (fgets(line, sizeof line, stdin) == NULL) {
            return 0;
        } else {
            if (strcmp(line, "leak\\n") == 0) {
                leak();
            } else if (strcmp(line, "fragment\\n") == 0) {
                fragment();
            } else if (strcmp(line, "work\\n") == 0) {
                work();
            } else if (strcmp(line, "crash\\n") == 0) {
                abort();
            }
            puts("done");
            fflush(stdout);
        }
    }
}
"""

# Behind SOURCE, whose main has another name then: a server whose first thread starts the others and ends.
IN_ANOTHER_THREAD = """
#undef main
#include <pthread.h>

static void *go_on(void *unused) {
    (void)unused;
    exit(serve());
}

int main(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, go_on, NULL) != 0) {
        abort();
    }
    pthread_exit(NULL);
}
"""

# Holds 32 MiB at any time, and replaces all of it many times a second, a sixteenth at once.
TURNING_OVER = """
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCKS 8192
#define AT_ONCE 512
static char *held[BLOCKS];

__attribute__((noinline)) void *planted_holder(void) { return memset(malloc(4096), 1, 4096); }

int main(void) {
    for (int first = 0;; first = (first + AT_ONCE) % BLOCKS) {
        for (int i = 0; i < AT_ONCE; i++) {
            free(held[first + i]);
        }
        for (int i = 0; i < AT_ONCE; i++) {
            held[first + i] = planted_holder();
        }
        usleep(1000);
    }
}
"""

Told = Callable[[str], None]


@pytest.fixture
def inside(hakmem: Command) -> Command:
    """With the library that HAKMEM_LIBRARY names, if it does, as for the tests of programs."""
    named = {name: value for name, value in os.environ.items() if name == "HAKMEM_LIBRARY"}
    return Command(hakmem.arguments, {**hakmem.environment, **named})


@pytest.fixture
def program(compiled: Compile) -> Path:
    return compiled(SOURCE, "-fno-omit-frame-pointer", "-g", name="planted")


# With processes of its own, as a container, but no other file system.
OWN_NUMBERS = ("unshare", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc")


@contextmanager
def started(
    inside: Command, program: Path, wrapper: tuple[str, ...] = (), **variables: str
) -> Iterator[tuple[str, Told]]:
    """Its process id (that of the wrapper, if there is one), and how to tell it what to do."""
    with subprocess.Popen(
        [*wrapper, *inside.arguments, "run", program],
        env={**inside.environment, **variables},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:

        def tell(line: str) -> None:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(f"{line}\n")
            process.stdin.flush()
            process.stdout.readline()

        tell("hello")
        yield str(process.pid), tell
        if process.poll() is None:
            assert process.stdin is not None
            process.stdin.close()
            process.stdin = None


def only_child(pid: str) -> str:
    (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return child


def test_containers_that_share_the_folder_take_no_page_from_each_other(
    inside: Command, program: Path
) -> None:
    with (
        started(inside, program, OWN_NUMBERS) as (first, tell_first),
        started(inside, program, OWN_NUMBERS) as (second, _),
    ):
        tell_first("leak")
        leaking, other = only_child(first), only_child(second)
        time.sleep(PUBLISHED_AFTER_S)
        live = {
            pid: json.loads(inside("stats", pid, "--json").stdout)["memory"]["live_bytes"]
            for pid in (leaking, other)
        }
        assert live[leaking] > LEAK_BYTES > live[other]


def test_a_process_whose_first_thread_has_ended_is_one_that_runs(inside: Command, compiled: Compile) -> None:
    program = compiled(SOURCE + IN_ANOTHER_THREAD, "-Dmain=serve", "-pthread", name="headless")
    with started(inside, program) as (pid, tell):
        tell("leak")
        have_it_publish(pid, tell)
        time.sleep(PUBLISHED_AFTER_S)
        (entry,) = (e for e in json.loads(inside("ps", "--json").stdout) if e["pid"] == int(pid))
        assert not entry["ended"]
        assert entry["process_resident_bytes"] > LEAK_BYTES
        stats = inside("stats", pid)
        assert stats.status == 0
        assert "ended" not in stats.stdout + stats.stderr
        assert inside("map", pid, "--text").status == 0
        assert pid not in inside("ps", "--ended").stdout.split()


def live_files(pid: str) -> list[Path]:
    return list(Path("/dev/shm").glob(f"hakmem-*-{pid}"))


def have_it_publish(pid: str, tell: Told) -> None:
    """It does not at once, and then when it allocates."""
    while not any(publications(file) for file in live_files(pid)):
        tell("work")


def publications(file: Path) -> int:
    return int.from_bytes(file.read_bytes()[48:56], "little")


def figures(inside: Command, pid: str) -> dict[str, dict[str, int]]:
    outcome = inside("stats", pid, "--json", "--measure")
    assert outcome.status == 0, outcome.stderr
    document: dict[str, dict[str, int]] = json.loads(outcome.stdout)
    return document


def test_statistics_see_what_is_allocated(inside: Command, program: Path) -> None:
    with started(inside, program) as (pid, tell):
        before = figures(inside, pid)["memory"]["live_bytes"]
        tell("leak")
        after = figures(inside, pid)["memory"]["live_bytes"]
        assert LEAK_BYTES - WORK_BYTES <= after - before < LEAK_BYTES * 1.1 + WORK_BYTES
        table = inside("stats", pid)
        assert (table.status, table.stderr) == (0, "")
        assert re.search(r"^ ?live +\d+\.\d MiB", table.stdout, re.MULTILINE)
        assert "hakmem_live_bytes{" in inside("stats", pid, "--prometheus").stdout


def test_statistics_of_a_crash(inside: Command, program: Path) -> None:
    with started(inside, program) as (pid, tell):
        tell("leak")
        have_it_publish(pid, tell)
        tell("crash")
    try:
        outcome = inside("stats", pid)
        assert outcome.status == 0, outcome.stderr
        assert "it has ended, and left these figures behind" in outcome.stdout
    finally:
        for file in live_files(pid):
            file.unlink()


def test_an_orderly_end_leaves_nothing_behind(inside: Command, program: Path) -> None:
    with started(inside, program) as (pid, tell):
        have_it_publish(pid, tell)
    assert not live_files(pid)


def test_a_profile_names_the_leak_with_its_weight(inside: Command, program: Path, tmp_path: Path) -> None:
    """Of 1000 samples, so that its error is about 3 %."""
    file = tmp_path / "leak.heap"
    with started(inside, program, HAKMEM_PROF="1", HAKMEM_PROF_INTERVAL="64K", HAKMEM_PROF_AT_EXIT="0") as (
        pid,
        tell,
    ):
        tell("leak")
        outcome = inside("profile", pid, "-o", file, "--top", "1")
        assert outcome.status == 0, outcome.stderr
        heaviest, function = (line.split() for line in outcome.stdout.splitlines()[:2])
        assert function == ["planted_leak", "(planted)"]
        assert heaviest[1] == "MiB"
        assert float(heaviest[0]) == pytest.approx(64, rel=0.2)
    assert inside("flame", file).status == 0
    found = boxes(tmp_path / "leak.heap.svg")
    assert found["planted_leak"].width > 0.9
    assert {"main", "leak"} <= found.keys()


def test_sampling_starts_and_stops_in_a_running_process(
    inside: Command, program: Path, tmp_path: Path
) -> None:
    file = tmp_path / "leak.heap"
    with started(inside, program) as (pid, tell):
        assert "has sampled nothing" in inside("profile", pid, "-o", file).error_line()
        assert inside("profile", pid, "--start", "--interval", "64K").status == 0
        tell("leak")
        assert inside("profile", pid, "--stop").status == 0
        outcome = inside("profile", pid, "-o", file, "--top", "1")
        assert outcome.status == 0, outcome.stderr
        assert "planted_leak (planted)" in outcome.stdout


def test_sampling_that_was_started_goes_on_after_another_has_looked_for_a_while(
    inside: Command, program: Path, tmp_path: Path
) -> None:
    file = tmp_path / "leak.heap"
    with started(inside, program) as (pid, tell):
        assert inside("profile", pid, "--start", "--interval", "64K").status == 0
        tell("leak")
        outcome = inside("profile", pid, "--seconds", "0", "-o", file, "--top", "1")
        assert outcome.status == 0, outcome.stderr
        assert "planted_leak (planted)" in outcome.stdout
        refused = inside("profile", pid, "--seconds", "0", "--interval", "1M", "-o", file)
        assert "samples already, once in 64.0 KiB" in refused.error_line()
        tell("leak")
        outcome = inside("profile", pid, "-o", file, "--top", "1")
        assert float(outcome.stdout.split()[0]) == pytest.approx(128, rel=0.2)  # MiB


def test_a_program_that_turns_its_memory_over_is_seen_to_hold_it(
    inside: Command, compiled: Compile, tmp_path: Path
) -> None:
    turning_over = compiled(TURNING_OVER, "-fno-omit-frame-pointer", name="turning_over")
    with subprocess.Popen([*inside.arguments, "run", turning_over], env=inside.environment) as process:
        pid = str(process.pid)
        try:
            while not any(publications(file) for file in live_files(pid)):
                assert process.poll() is None
            options = ("--seconds", "2", "--interval", "64K")
            outcome = inside("profile", pid, *options, "-o", tmp_path / "heap", "--top", "1")
            kept = inside("profile", pid, *options, "--kind", "fragmentation", "--top", "1")
        finally:
            process.kill()
            process.wait()
            for file in live_files(pid):
                file.unlink()
    assert outcome.status == 0, outcome.stderr
    heaviest, function = (line.split() for line in outcome.stdout.splitlines()[:2])
    assert function == ["planted_holder", "(turning_over)"]
    assert heaviest[1] == "MiB"
    # Of 512 samples, while up to a sixteenth is just replaced.
    assert float(heaviest[0]) == pytest.approx(TURNED_OVER_BYTES >> 20, rel=0.3)
    assert "planted_holder (turning_over)" in kept.stdout


def test_fragmentation_names_who_keeps_the_slabs(inside: Command, program: Path) -> None:
    with started(inside, program, HAKMEM_PROF="1", HAKMEM_PROF_INTERVAL="4K", HAKMEM_PROF_AT_EXIT="0") as (
        pid,
        tell,
    ):
        tell("fragment")
        outcome = inside("profile", pid, "--kind", "fragmentation", "--top", "1")
        assert outcome.status == 0, outcome.stderr
        total, heaviest, function = outcome.stdout.splitlines()[:3]
        assert function.split() == ["planted_keeper", "(planted)"]
        # All of the burst but the blocks that were kept.
        freed = BURST_BLOCKS * 208 * 63 / 64 / (1 << 20)
        assert total.split()[1] == "MiB"
        assert float(total.split()[0]) == pytest.approx(freed, rel=0.3)
        assert float(heaviest.split()[2].rstrip("%")) > 90
        text = inside("map", pid, "--text")
        assert text.status == 0, text.stderr
        assert int(re.search(r"(\d+) under a quarter", text.stdout)[1]) > 500  # type: ignore[index]


# More is kept than the settings of any profile would have it keep: nothing goes by itself.
@pytest.mark.parametrize("how", ["its only thread", "another thread"])
def test_collect_has_a_process_give_back_what_is_free(
    inside: Command, program: Path, compiled: Compile, how: str
) -> None:
    if how == "another thread":
        program = compiled(SOURCE + IN_ANOTHER_THREAD, "-Dmain=serve", "-pthread", name="headless")
    with started(inside, program, HAKMEM_RETAIN_MIN="256M", HAKMEM_DECAY_MS="1000000") as (pid, tell):
        tell("fragment")
        before = resident_bytes(int(pid))
        outcome = inside("collect", pid)
        after = resident_bytes(int(pid))
        assert (outcome.status, outcome.stderr) == (0, "")
        # Of the pages, some were never touched, and a third holds a block that stays.
        assert before - after > BURST_BLOCKS * 208 / 4
        assert re.fullmatch(
            rf"process {pid} \(\S+\) has [\d.]+ MiB resident, \d+.\d+ MiB less; "
            rf"'hakmem stats {pid}' says of what\n",
            outcome.stdout,
        )
        again = inside("collect", pid)
        assert again.status == 0, again.stderr


def test_a_leak_report_with_names(inside: Command, program: Path) -> None:
    with subprocess.Popen(
        [*inside.arguments, "run", program],
        env={**inside.environment, "HAKMEM_PROF_LEAKS": "1", "HAKMEM_PROF_INTERVAL": "64K"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        _, report = process.communicate("leak\n")
    assert re.search(r"^hakmem: in use and sampled", report, re.MULTILINE)
    named = inside("symbols", stdin=report).stdout
    leak = re.search(r"^1\. about ([\d.]+) MiB in [^\n]*\n[^\n]+  planted_leak$", named, re.MULTILINE)
    assert leak, named
    assert float(leak[1]) == pytest.approx(64, rel=0.2)  # of 1000 samples


def test_top_watches_a_command_to_its_end(inside: Command, program: Path) -> None:
    command = ["sh", "-c", f'(echo leak; sleep 1) | exec "{program}"']
    with started(inside, program) as (pid, tell):
        tell("leak")
        picture = inside("top", pid, "--once", "--interval", "0.3")
        assert picture.status == 0, picture.stderr
        assert "1,040 B" in picture.stdout or "1,000 B" in picture.stdout or "1,024 B" in picture.stdout
        assert re.search(r"refills +[\d,.]+/s", picture.stdout)
    outcome = inside("top", "--interval", "0.2", "--", *command)
    assert outcome.status == 0, outcome.stderr
    assert "ended with exit status 0" in outcome.stdout
