"""What cannot be looked into is refused in one line, by every command that looks into processes."""

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.live_path import live_path

from .command import Command, Outcome
from .conftest import Compile
from .live_file import HEADER, Program, crashed, running, sample_statistics, start_ticks

NOBODY = 65534
EVERY = pytest.mark.parametrize("command", ["stats", "top", "profile", "map", "collect"])
# These need an answer of the process.
ASKING = pytest.mark.parametrize(
    "arguments",
    [("profile",), ("map", "--text"), ("profile", "--start"), ("stats", "--measure"), ("collect",)],
)


@pytest.fixture
def sleeper() -> Iterator[int]:
    """A process that does not run on HAKMEM."""
    process = subprocess.Popen(["sleep", "60"])
    live_path(process.pid).unlink(missing_ok=True)  # of a crashed one that had this number before
    yield process.pid
    process.kill()
    process.wait()


def wait_for_request(page: Path, asking: "subprocess.Popen[str] | subprocess.Popen[bytes]") -> None:
    """Until the command has asked the process whose live page this is for something."""
    while page.read_bytes()[64] == 0:  # requests
        assert asking.poll() is None
        time.sleep(0.02)


@EVERY
def test_no_such_process(hakmem: Command, command: str) -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    live_path(process.pid).unlink(missing_ok=True)
    outcome = hakmem(command, str(process.pid))
    assert outcome.status == 1
    assert f"there is no process {process.pid}" in outcome.error_line()


@EVERY
@pytest.mark.parametrize("number", ["4194305", "12345678901"])
def test_a_number_that_no_process_can_have(hakmem: Command, command: str, number: str) -> None:
    outcome = hakmem(command, number)
    assert outcome.status == 1
    assert f"there is no process {number}" in outcome.error_line()


@EVERY
def test_a_process_that_nobody_has_waited_for(hakmem: Command, command: str) -> None:
    process = subprocess.Popen(["true"], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.read() == b""
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    live_path(process.pid).unlink(missing_ok=True)
    outcome = hakmem(command, str(process.pid))
    process.wait()
    assert outcome.status == 1
    assert f"there is no process {process.pid}" in outcome.error_line()


@EVERY
def test_a_process_without_hakmem(hakmem: Command, command: str, sleeper: int) -> None:
    outcome = hakmem(command, str(sleeper))
    assert outcome.status == 1
    assert f"process {sleeper} (sleep) does not run on HAKMEM" in outcome.error_line()
    assert "hakmem run" in outcome.error_line()


@EVERY
def test_another_users_process(hakmem: Command, command: str, sleeper: int) -> None:
    """Root asks as nobody; others ask for the first process of all, which is root's."""
    wrapper = ["setpriv", f"--reuid={NOBODY}", "--clear-groups"] if os.geteuid() == 0 else []
    pid = sleeper if wrapper else 1
    outside = Command([*wrapper, sys.executable, "-m", "hakmem"], outsiders_environment(hakmem))
    outcome = outside(command, str(pid))
    assert outcome.status == 1
    assert "belongs to user root: only that user and root may look inside" in outcome.error_line()


def outsiders_environment(hakmem: Command) -> dict[str, str]:
    return {**hakmem.environment, "HOME": "/", "PYTHONDONTWRITEBYTECODE": "1"}


@EVERY
def test_a_process_that_has_published_nothing_yet(hakmem: Command, command: str) -> None:
    with running(Program(published=False, idle=True)) as process:
        outcome = hakmem(
            command, str(process.pid), *(("--wait", "0") if command in ("profile", "map", "collect") else ())
        )
    assert outcome.status == 1
    assert str(process.pid) in outcome.error_line()
    assert "at its next slow path" in outcome.error_line()


@contextmanager
def on_hakmem(hakmem: Command, library: Path, program: str, **variables: str) -> Iterator[int]:
    """The process id of `program`, which lives for long, once the library is in it."""
    process = subprocess.Popen(
        [program, "60"], env={**hakmem.environment, "LD_PRELOAD": str(library), **variables}
    )
    try:
        while str(library) not in Path(f"/proc/{process.pid}/maps").read_text():
            assert process.poll() is None
        yield process.pid
    finally:
        process.kill()
        process.wait()


@EVERY
@pytest.mark.parametrize(
    ("setting", "said"),
    [
        (("HAKMEM_LIVE", "0"), "publishes nothing: HAKMEM_LIVE is off in it"),
        (("HAKMEM_FORCE_LIBC_ALLOC", "1"), "publishes nothing: HAKMEM_FORCE_LIBC_ALLOC is on in it"),
        (("HAKMEM_FORCE_LIBC_ALLOC", "Yes"), "publishes nothing: HAKMEM_FORCE_LIBC_ALLOC is on in it"),
    ],
)
def test_a_process_whose_settings_leave_no_figures(
    hakmem: Command, library: Path, command: str, setting: tuple[str, str], said: str
) -> None:
    with on_hakmem(hakmem, library, "sleep", **dict([setting])) as pid:
        outcome = hakmem(command, str(pid))
    assert outcome.status == 1
    assert f"process {pid} (sleep) {said}; start it without that" in outcome.error_line()


def test_a_process_whose_environment_does_not_say_why_it_has_no_figures(
    hakmem: Command, library: Path, compiled: Compile
) -> None:
    source = """
        #include <unistd.h>
        const char *hakmem_conf = "force_libc_alloc=1";
        int main(void) { return pause(); }
    """
    program = compiled(source, "-rdynamic")
    with on_hakmem(hakmem, library, str(program)) as pid:
        outcome = hakmem("stats", str(pid))
    assert outcome.status == 1
    assert "has not published figures yet" in outcome.error_line()
    assert "never with HAKMEM_LIVE=0 or HAKMEM_FORCE_LIBC_ALLOC=1" in outcome.error_line()


@pytest.mark.parametrize("command", ["profile", "map", "collect"])
def test_a_process_that_has_ended_answers_no_more(hakmem: Command, command: str) -> None:
    with crashed(Program(sample_statistics())) as pid:
        outcome = hakmem(command, str(pid))
    assert outcome.status == 1
    assert f"process {pid} has ended; 'hakmem stats {pid}' shows the last figures" in outcome.error_line()


@ASKING
def test_an_idle_process(hakmem: Command, arguments: tuple[str, ...]) -> None:
    with running(Program(sample_statistics(), idle=True)) as process:
        outcome = hakmem(arguments[0], str(process.pid), *arguments[1:], "--wait", "0.1")
        left = list(live_path(process.pid).parent.glob(f"{live_path(process.pid).name}.*"))
    assert outcome.status == 1
    assert outcome.error_line().startswith(f"hakmem: process {process.pid} (python")
    assert "no answer within 0.1 s; it answers at its next slow path" in outcome.error_line()
    assert left == []


def test_what_nobody_waits_for_any_more_does_not_happen(hakmem: Command, tmp_path: Path) -> None:
    with running(Program(sample_statistics(), idle=True)) as process:
        hakmem("profile", str(process.pid), "--start", "--wait", "0")
        kind = live_path(process.pid).read_bytes()[68]
    assert kind == 0  # nothing


def test_the_end_of_sampling_is_wanted_still_when_nobody_waits_for_it(hakmem: Command) -> None:
    with running(Program(sample_statistics(), idle=True)) as process:
        hakmem("profile", str(process.pid), "--stop", "--wait", "0")
        kind = live_path(process.pid).read_bytes()[68]
    assert kind == 6  # stop profiling


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("arguments", [("profile",), ("map", "--text"), ("profile", "--start"), ("collect",)])
def test_what_was_asked_for_does_not_happen_once_a_signal_has_ended_the_command(
    hakmem: Command,
    tmp_path: Path,
    arguments: tuple[str, ...],
    number: signal.Signals,
    request: pytest.FixtureRequest,
) -> None:
    inherited = signal.signal(number, signal.SIG_DFL)  # nohup's children ignore SIGHUP
    request.addfinalizer(lambda: signal.signal(number, inherited))
    with running(Program(sample_statistics(), idle=True)) as process:
        page = live_path(process.pid)
        command = [*hakmem.arguments, arguments[0], str(process.pid), *arguments[1:], "--wait", "250"]
        with subprocess.Popen(command, env=hakmem.environment, cwd=tmp_path) as asking:
            wait_for_request(page, asking)
            asking.send_signal(number)
            assert asking.wait(100) == 128 + number
        assert page.read_bytes()[68] == 0  # nothing


@ASKING
def test_a_process_that_ends_meanwhile(hakmem: Command, arguments: tuple[str, ...]) -> None:
    with running(Program(sample_statistics(), idle=True)) as process:
        command = [*hakmem.arguments, arguments[0], str(process.pid), *arguments[1:], "--wait", "250"]
        with subprocess.Popen(command, env=hakmem.environment, stderr=subprocess.PIPE, text=True) as asking:
            wait_for_request(live_path(process.pid), asking)
            process.kill()
            process.wait()
            _, errors = asking.communicate(timeout=100)
    outcome = Outcome(status=asking.returncode, stdout="", stderr=errors)
    assert outcome.status == 1
    assert "the process ended before it answered" in outcome.error_line()


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (errno.ENOSPC, "no room for its answer"),
        (errno.ENOMEM, "no memory"),
        (errno.EACCES, "denied"),
        (errno.ENOSYS, "its library does not know this request: use the hakmem command that came with it"),
    ],
)
def test_a_refusal_of_the_library(hakmem: Command, code: int, said: str) -> None:
    with running(Program(sample_statistics(), errors={1: code})) as process:
        outcome = hakmem("profile", str(process.pid))
    assert outcome.status == 1
    assert "cannot do that" in outcome.error_line()
    assert said in outcome.error_line()


def test_an_answer_that_another_put_in_its_place(hakmem: Command) -> None:
    """The library says that it is done, but there is no file."""
    with running(Program(sample_statistics())) as process:
        outcome = hakmem("profile", str(process.pid))
    assert outcome.status == 1
    assert "left no file" in outcome.error_line()


@pytest.mark.parametrize("seconds", ["nan", "inf", "1e300"])
@pytest.mark.parametrize(
    "arguments",
    [
        ["top", "--once", "--interval"],
        ["stats", "--watch"],
        ["stats", "--measure", "--wait"],
        ["profile", "--seconds"],
    ],
)
def test_a_time_that_nobody_can_wait_for(hakmem: Command, arguments: list[str], seconds: str) -> None:
    outcome = hakmem(*arguments, seconds, str(os.getpid()))
    assert outcome.status == 2
    assert f"Invalid value for '{arguments[-1]}'" in outcome.stderr


# Files that anyone can make, for the number of another's process.
STRANGE = pytest.mark.parametrize("content", [b"junk", b"HAKLIVE1", b"HAKLIVE1" + bytes(4096)])


@contextmanager
def strange_file(pid: int, content: bytes) -> Iterator[None]:
    own = live_path(pid)
    path = own.with_name(own.name.replace(f"hakmem-{os.geteuid()}-", f"hakmem-{NOBODY}-"))
    path.write_bytes(content)
    try:
        if os.geteuid() == 0:
            os.chown(path, NOBODY, -1)
        yield
    finally:
        path.unlink()


@STRANGE
def test_files_of_others_do_not_hide_a_process(hakmem: Command, content: bytes) -> None:
    with running(Program(sample_statistics())) as process, strange_file(process.pid, content):
        outcome = hakmem("stats", str(process.pid))
    assert (outcome.status, outcome.stderr) == (0, "")
    assert outcome.stdout.startswith(f"fake ({process.pid})")


@STRANGE
def test_files_of_others_do_not_hide_what_a_crashed_process_left(hakmem: Command, content: bytes) -> None:
    with crashed(Program(sample_statistics())) as pid, strange_file(pid, content):
        outcome = hakmem("stats", str(pid))
    assert (outcome.status, outcome.stderr) == (0, "")
    assert outcome.stdout.startswith(f"fake ({pid})")


def test_a_strange_file_is_named_where_there_is_no_other(hakmem: Command, sleeper: int) -> None:
    with strange_file(sleeper, b"junk"):
        outcome = hakmem("stats", str(sleeper))
    assert outcome.status == 1
    assert "is not a live file of this version of HAKMEM" in outcome.error_line()


def test_a_process_on_hakmem_that_no_longer_has_its_file(
    hakmem: Command, library: Path, compiled: Compile
) -> None:
    """Because it changed its user, as root can; or because it has become another program just now."""
    source = """
        #include <unistd.h>
        const char *hakmem_conf = "live=0";
        int main(void) {
            if (geteuid() == 0 && setuid(65534) != 0) {
                return 1;
            }
            (void)!write(1, "ready", 5);
            return pause();
        }
    """
    said = "has not published figures yet"
    if os.geteuid() == 0:
        said = "has changed its user, to nobody, since it made"
    process = subprocess.Popen(
        [compiled(source, "-rdynamic")],
        env={**hakmem.environment, "LD_PRELOAD": str(library)},
        stdout=subprocess.PIPE,
    )
    path = live_path(process.pid)
    try:
        assert process.stdout is not None
        assert process.stdout.read(5) == b"ready"
        head = HEADER.pack(b"HAKLIVE1", process.pid, 0, start_ticks(process.pid), *[0] * 13)
        path.write_bytes(head)
        outcome = hakmem("stats", str(process.pid))
    finally:
        process.kill()
        process.wait()
        path.unlink(missing_ok=True)
    assert outcome.status == 1
    assert said in outcome.error_line()


def test_a_process_that_has_no_room_for_figures(
    hakmem: Command, library: Path, compiled: Compile, tmp_path: Path
) -> None:
    source = """
        #include <stdlib.h>
        #include <unistd.h>
        int main(void) {
            for (int i = 0; i < 100; i++) {
                char *block = malloc(1 << 20);
                block[i] = 1;
                usleep(2000);
                free(block);
            }
            return write(1, "ready", 5) == 5 ? pause() : 1;
        }
    """
    script = tmp_path / "enter"
    script.write_text(f"""#!/bin/sh
mount -t tmpfs -o size=4k tmpfs /dev/shm || exit 1
head -c 4096 /dev/zero > /dev/shm/all
LD_PRELOAD={library} exec "$@"
""")
    script.chmod(0o755)
    process = subprocess.Popen(
        ["unshare", "--map-root-user", "--mount", str(script), compiled(source)], stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        assert process.stdout.read(5) == b"ready"
        outcome = hakmem("stats", str(process.pid))
    finally:
        process.kill()
        process.wait()
    assert outcome.status == 1
    assert "its /dev/shm is full" in outcome.error_line()


def test_a_name_has_no_say_over_the_terminal(hakmem: Command, compiled: Compile) -> None:
    program = compiled("#include <unistd.h>\nint main(void) { return pause(); }", name="a\x1b[31m\nb")
    with subprocess.Popen([program]) as process:
        outcome = hakmem("stats", str(process.pid))
        process.kill()
    assert "(a\ufffd[31m\ufffdb) does not run on HAKMEM" in outcome.error_line()
