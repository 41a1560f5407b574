"""`hakmem versus`: what the user sees of the program, and the comparison."""

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hakmem.signals import SignalGuard

from .command import REPOSITORY, Command
from .conftest import Compile

ROWS = [
    "wall time",
    "CPU time",
    "peak RSS",
    "RSS at the end",
    "minor page faults",
    "major page faults",
]
TRACING = pytest.mark.parametrize("tracing", [[], ["--polling"]], ids=["tracing", "polling"])

# A line for each round: the side, told by whether the library is mapped.
NOTE_SIDE = """
import sys
side = "HAKMEM" if "libhakmem.so" in open("/proc/self/maps").read() else "libc"
print(side, file=open(sys.argv[1], "a"))
"""

# Holds `peak` MiB for a moment and `end` MiB when it exits.
HOLD = """
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
static void *map(size_t mebibytes) {
    return mmap(0, mebibytes << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}
static void hold(size_t mebibytes) {
    memset(map(mebibytes), 1, mebibytes << 20);
}
int main(int count, char **arguments) {
    size_t peak = strtoul(arguments[1], 0, 10), end = strtoul(arguments[2], 0, 10);
    hold(end);
    void *more = map(peak - end);
    memset(more, 1, (peak - end) << 20);
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, 0);
    munmap(more, (peak - end) << 20);
    if (count > 3)
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, 0);
    return 0;
}
"""


def mebibytes(cell: str) -> float:
    number, unit = cell.strip().lstrip("~≥").split()
    assert unit == "MiB"
    return float(number)


def cells(row: list[str]) -> list[str]:
    return [cell.strip() for cell in row if cell.strip()]


@TRACING
def test_sides_take_turns(hakmem: Command, tmp_path: Path, tracing: list[str]) -> None:
    notes = tmp_path / "notes"
    outcome = hakmem("versus", *tracing, "--runs", "2", "--", sys.executable, "-c", NOTE_SIDE, notes)
    assert outcome.status == 0, outcome.stderr
    assert notes.read_text().split() == ["HAKMEM", "libc", "HAKMEM", "libc", "HAKMEM"]


def test_three_rounds_each_unless_told(hakmem: Command, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    outcome = hakmem("versus", sys.executable, "-c", NOTE_SIDE, notes)
    assert len(notes.read_text().split()) == 3 + 3 + 1  # the last for the summary
    assert "3 rounds each" in outcome.stdout


@TRACING
def test_table_and_summary(hakmem: Command, tracing: list[str]) -> None:
    outcome = hakmem(
        "versus", *tracing, "--runs", "1", sys.executable, "-c", "x = [str(i) for i in range(99999)]"
    )
    lines = [line.strip() for line in outcome.stdout.splitlines()]
    assert any(line.split() == ["HAKMEM", "libc", "HAKMEM", "/", "libc"] for line in lines)
    for name in ROWS:
        assert len(cells(outcome.row(name))) == 3, name
    summary = lines.index("HAKMEM's own summary of one more round, whose figures do not count")
    assert any("fall-backs" in line for line in lines[summary:])


def test_the_round_for_the_summary_does_not_count(hakmem: Command, tmp_path: Path) -> None:
    """What the program takes there would be set against rounds that write none."""
    program = "import os; block = b'x' * ((64 << 20) * ('HAKMEM_STATS' in os.environ))"
    notes = tmp_path / "notes"
    outcome = hakmem(
        *("versus", "--runs", "1", "sh", "-c"),
        f'echo "${{HAKMEM_STATS-none}}" >> {notes}; exec "$@"',
        *("sh", sys.executable, "-c", program),
    )
    assert outcome.status == 0, outcome.stderr
    assert notes.read_text().split() == ["none", "none", "1"]
    assert mebibytes(cells(outcome.row("peak RSS"))[0]) < 64


@TRACING
def test_output_appears_once_and_in_order(hakmem: Command, tracing: list[str]) -> None:
    outcome = hakmem("versus", *tracing, "--runs", "2", "sh", "-c", "echo one; echo two >&2; echo three")
    assert outcome.stdout.startswith("one\nthree\n\n")
    assert outcome.stdout.count("three\n") == 1
    assert outcome.stderr == "two\n"


def test_much_output_is_no_obstacle(hakmem: Command) -> None:
    size = 5_000_000
    outcome = hakmem("versus", "--runs", "1", "sh", "-c", f"head -c {size} /dev/zero | tr '\\0' x; echo")
    assert outcome.stdout.startswith("x" * size + "\n")


def test_output_to_a_reader_that_leaves(hakmem: Command) -> None:
    pipeline = f"{hakmem.arguments[0]} versus --runs 1 --report /dev/stderr yes | head -n 1"
    done = subprocess.run(
        ["sh", "-c", pipeline],
        env=hakmem.environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )
    assert done.stdout == "y\n"
    assert "Interrupted: no further rounds." in done.stderr
    assert "was killed by SIGPIPE" in done.stderr


@TRACING
@pytest.mark.parametrize("status", [1, 42, 255])
def test_exit_status(hakmem: Command, tracing: list[str], status: int) -> None:
    outcome = hakmem("versus", *tracing, "--runs", "1", "sh", "-c", f"exit {status}")
    assert outcome.status == status
    assert f"ended with exit status {status} in every round" in outcome.stdout


@TRACING
@pytest.mark.parametrize("number", [signal.SIGABRT, signal.SIGSEGV, signal.SIGKILL, signal.SIGUSR1])
def test_death_by_signal(hakmem: Command, tracing: list[str], number: signal.Signals) -> None:
    outcome = hakmem("versus", *tracing, "--runs", "1", "sh", "-c", f"kill -{number.value} $$")
    assert outcome.status == 128 + number
    assert f"was killed by {number.name} in every round" in outcome.stdout
    assert "left no HAKMEM summary" in outcome.stdout


def test_sides_that_differ_are_named(hakmem: Command) -> None:
    program = 'case "$LD_PRELOAD" in *hakmem*) exit 0;; esac; echo reason >&2; kill -SEGV $$'
    outcome = hakmem("versus", "--runs", "2", "sh", "-c", program)
    assert "did not end alike" in outcome.stdout
    assert "HAKMEM: ended with exit status 0 in rounds 1, 3" in outcome.stdout
    assert "libc: was killed by SIGSEGV in rounds 2, 4" in outcome.stdout
    assert "it said: reason" in outcome.stdout
    assert outcome.status == 128 + signal.SIGSEGV


def test_rounds_of_one_side_that_differ_are_named(hakmem: Command, tmp_path: Path) -> None:
    program = f"echo >> {tmp_path}/n; test $(wc -l < {tmp_path}/n) != 3"
    outcome = hakmem("versus", "--runs", "2", "sh", "-c", program)
    assert "HAKMEM: ended with exit status 1 in round 3" in outcome.stdout
    assert outcome.status == 1


def test_memory_at_the_end_and_at_the_peak_are_exact(hakmem: Command, compiled: Compile) -> None:
    outcome = hakmem("versus", "--runs", "1", compiled(HOLD), "120", "30")
    for cell in cells(outcome.row("peak RSS"))[:2]:
        assert 120 <= mebibytes(cell) < 130
    for cell in cells(outcome.row("RSS at the end"))[:2]:
        assert not cell.startswith("~")
        assert 30 <= mebibytes(cell) < 40


def test_polled_memory_is_marked_approximate(hakmem: Command, compiled: Compile) -> None:
    outcome = hakmem("versus", "--polling", "--runs", "1", compiled(HOLD), "120", "30", "linger")
    for cell in cells(outcome.row("RSS at the end"))[:2]:
        assert cell.startswith("~")
        assert 30 <= mebibytes(cell) < 40
    for cell in cells(outcome.row("peak RSS"))[:2]:
        assert 120 <= mebibytes(cell) < 130


def test_memory_of_a_program_that_outlives_its_first_thread_is_marked(
    hakmem: Command, compiled: Compile
) -> None:
    source = """
    #include <pthread.h>
    #include <unistd.h>
    static void *go_on(void *nothing) { usleep(500000); return nothing; }
    int main(void) { pthread_t t; pthread_create(&t, 0, go_on, 0); pthread_exit(0); }
    """
    outcome = hakmem("versus", "--runs", "1", compiled(source, "-pthread"))
    assert outcome.status == 0
    assert cells(outcome.row("RSS at the end"))[0].startswith("~")


def test_memory_at_the_end_when_another_thread_ends_the_program(hakmem: Command, compiled: Compile) -> None:
    source = """
    #include <pthread.h>
    #include <stdlib.h>
    #include <unistd.h>
    static void *leave(void *nothing) { usleep(50000); exit(9); return nothing; }
    int main(void) { pthread_t t; pthread_create(&t, 0, leave, 0); for (;;) pause(); }
    """
    outcome = hakmem("versus", "--runs", "1", compiled(source, "-pthread"))
    assert outcome.status == 9
    assert not cells(outcome.row("RSS at the end"))[0].startswith("~")


def test_peak_and_faults_of_children_count(hakmem: Command, compiled: Compile) -> None:
    program = compiled(HOLD)
    outcome = hakmem("versus", "--runs", "1", "sh", "-c", f"'{program}' 200 1; true")
    assert mebibytes(cells(outcome.row("peak RSS"))[0]) >= 200
    faults = int(cells(outcome.row("minor page faults"))[0].replace(",", ""))
    assert faults > 100


@TRACING
def test_the_peak_of_a_child_that_is_smaller_than_the_command_counts(
    hakmem: Command, compiled: Compile, tracing: list[str]
) -> None:
    outcome = hakmem("versus", *tracing, "--runs", "1", "sh", "-c", f"'{compiled(HOLD)}' 12 1; true")
    for cell in cells(outcome.row("peak RSS"))[:2]:
        assert 12 <= mebibytes(cell) < 16
    assert "≥" not in outcome.stdout


def test_a_peak_that_may_be_less_than_that_of_children_is_marked(hakmem: Command) -> None:
    outcome = hakmem("versus", "--runs", "1", "sh", "-c", "sleep 0; true")
    assert all(cell.startswith("≥") for cell in cells(outcome.row("peak RSS"))[:2])
    assert "≥: of the first process; those that it started took at most " in outcome.stdout
    alone = hakmem("versus", "--runs", "1", "sleep", "0")
    assert "≥" not in alone.stdout


def test_where_no_small_process_can_start_it_the_peak_of_children_is_marked(
    hakmem: Command, compiled: Compile
) -> None:
    """The command's own interpreter is not to be found."""
    python = str(REPOSITORY / ".venv/bin/python")
    code = "import sys, hakmem.cli; sys.executable = '/nowhere'; hakmem.cli.main()"
    program = f"'{compiled(HOLD)}' 7 1; exit 3"
    outcome = Command([python, "-c", code], hakmem.environment)("versus", "--runs", "1", "sh", "-c", program)
    assert (outcome.status, outcome.stderr) == (3, "")
    assert all(cell.startswith("≥") for cell in cells(outcome.row("peak RSS"))[:2])


def test_the_program_begins_as_if_alone(hakmem: Command) -> None:
    """With the descriptors, the signals and the directory that it would have without the command."""
    program = [
        "sh",
        "-c",
        "pwd; ls /proc/self/fd; grep ^Sig...: /proc/self/status; ulimit -a; cat /proc/$$/cmdline",
    ]
    alone = Command(["env"], hakmem.environment)(*program)
    outcome = hakmem("versus", "--runs", "1", "--report", "/dev/null", *program)
    assert outcome.stdout == alone.stdout


def test_a_signal_that_comes_before_the_program_is_passed_on() -> None:
    with SignalGuard() as guard:
        os.kill(os.getpid(), signal.SIGTERM)
        with subprocess.Popen(["sleep", "100"]) as process:
            guard.pass_on_to(process.pid)
            assert process.wait(timeout=50) == -signal.SIGTERM
    assert guard.interrupted


@TRACING
def test_programs_that_use_signals_threads_and_forks(hakmem: Command, tracing: list[str]) -> None:
    program = """
import os, signal, subprocess, sys, threading
got = []
signal.signal(signal.SIGUSR1, lambda *_: got.append(1))
for _ in range(100):
    os.kill(os.getpid(), signal.SIGUSR1)
signal.setitimer(signal.ITIMER_REAL, 0.01)
signal.signal(signal.SIGALRM, lambda *_: got.append(2))
signal.pause()
threads = [threading.Thread(target=lambda: [bytes(i) for i in range(9999)]) for _ in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
child = os.fork()
if child == 0:
    os.kill(os.getpid(), signal.SIGSTOP)
    os._exit(3)
os.waitpid(child, os.WUNTRACED)
os.kill(child, signal.SIGCONT)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
assert subprocess.run(["sh", "-c", "exit 4"]).returncode == 4
print(len(got), os.getpgrp() == os.getpgid(os.getppid()))
"""
    outcome = hakmem("versus", *tracing, "--runs", "1", sys.executable, "-c", program)
    assert outcome.status == 0, outcome.stdout + outcome.stderr
    assert outcome.stdout.startswith("101 True\n")


def test_a_program_that_stops_and_is_continued(hakmem: Command) -> None:
    program = "(sleep 0.2; kill -CONT $$) & kill -STOP $$; wait; exit 6"
    assert hakmem("versus", "--runs", "1", "sh", "-c", program).status == 6


@TRACING
def test_a_signal_to_the_command_reaches_the_program(hakmem: Command, tracing: list[str]) -> None:
    status, rest = hakmem.terminated("versus", *tracing)
    assert rest.startswith("caught\n")
    assert "Interrupted: no further rounds." in rest
    assert status == 5


def test_an_interrupt_between_two_rounds_ends_them_and_loses_none(hakmem: Command, tmp_path: Path) -> None:
    outcome = hakmem.interrupted("versus", "--runs", "3", "sh", "-c", f"echo run >> {tmp_path}/runs")
    assert (outcome.status, outcome.stderr) == (0, "")
    assert "1 round each, in turn" in outcome.stdout
    assert "Interrupted: no further rounds." in outcome.stdout
    assert (tmp_path / "runs").read_text() == "run\n" * 2


def test_every_round_reads_the_same_pipe(hakmem: Command, tmp_path: Path) -> None:
    text = "".join(f"line {number}\n" for number in range(100_000))
    outcome = hakmem("versus", "--runs", "2", "sh", "-c", f"cat > {tmp_path}/$$; wc -l", stdin=text)
    assert outcome.stdout.startswith("0\n")
    contents = [path.read_text() for path in tmp_path.iterdir()]
    assert contents == [text] * 5


def test_every_round_reads_the_same_file(hakmem: Command, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_text("skipped\nread\n")
    copies = tmp_path / "copies"
    copies.mkdir()
    with source.open("rb") as file:
        os.lseek(file.fileno(), len("skipped\n"), os.SEEK_SET)
        hakmem("versus", "--runs", "2", "sh", "-c", f"cat > {copies}/$$", stdin=file.fileno())
    assert [path.read_text() for path in copies.iterdir()] == ["read\n"] * 5


def test_input_that_nobody_reads_or_ends_is_no_obstacle(hakmem: Command) -> None:
    reader, writer = os.pipe()
    outcome = hakmem("versus", "--runs", "1", "true", stdin=reader)
    os.close(reader)
    os.close(writer)
    assert outcome.status == 0


@pytest.mark.parametrize("arguments", [["versus"], ["compare", "--allocators", "system"], ["tune"]])
def test_input_that_cannot_be_kept_ends_it(hakmem: Command, tmp_path: Path, arguments: list[str]) -> None:
    runs = tmp_path / "runs"
    # No file may have more than so many KiB; the kernel writes the part that fits, and refuses the next.
    command = Command(["sh", "-c", 'ulimit -f 100; exec "$@"', "sh", *hakmem.arguments], hakmem.environment)
    outcome = command(*arguments, "sh", "-c", f"echo run >> {runs}; cat >/dev/null", stdin="line\n" * 200_000)
    assert outcome.status == 1
    assert "cannot keep the input for further rounds in" in outcome.error_line()
    assert "File too large; " in outcome.error_line()
    assert runs.read_text() == "run\n"


def test_closed_streams_are_no_obstacle(hakmem: Command, tmp_path: Path) -> None:
    report = tmp_path / "report"
    line = f"{hakmem.arguments[0]} versus --runs 1 --report {report} true <&- >&- 2>&-"
    assert subprocess.run(["sh", "-c", line], env=hakmem.environment, check=False).returncode == 0
    assert "wall time" in report.read_text()


def test_the_first_round_has_the_terminal(hakmem: Command, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    program = f'test -t 0 && echo terminal >> {notes}; read line; echo "got $line" >> {notes}'
    leader, follower = pty.openpty()
    with subprocess.Popen(
        [*hakmem.arguments, "versus", "--runs", "1", "sh", "-c", program],
        env=hakmem.environment,
        stdin=follower,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        os.close(follower)
        os.write(leader, b"typed\n")
        process.communicate(timeout=100)
        os.close(leader)
    assert process.returncode == 0
    assert notes.read_text() == "terminal\ngot typed\ngot \ngot \n"


def test_report_to_a_file_leaves_the_output_alone(hakmem: Command, tmp_path: Path) -> None:
    report = tmp_path / "report"
    outcome = hakmem("versus", "--runs", "1", "--report", report, "echo", "only this")
    assert outcome.stdout == "only this\n"
    assert "HAKMEM / libc" in report.read_text()


def test_what_else_is_preloaded_stays_on_both_sides(
    hakmem: Command, library: Path, compiled: Compile, tmp_path: Path
) -> None:
    other = compiled("int hak_test_other;", "-shared", "-fPIC", name="other.so")
    notes = tmp_path / "notes"
    show = f"echo $LD_PRELOAD >> {notes}"
    hakmem("versus", "--runs", "1", "sh", "-c", show, LD_PRELOAD=f"{other}:{library}")
    assert notes.read_text().split() == [f"{library}:{other}", str(other), f"{library}:{other}"]


def test_table_fits_a_narrow_terminal(hakmem: Command) -> None:
    outcome = hakmem("versus", "--runs", "1", "true", COLUMNS="80")
    table = outcome.stdout.split("HAKMEM's own")[0].splitlines()
    assert max(map(len, table)) <= 80
