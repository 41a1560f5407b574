"""What cannot be run is refused in one line, with the shell's exit status for it."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from .command import Command
from .conftest import Compile

BOTH = pytest.mark.parametrize("subcommand", ["run", "versus"])


@BOTH
def test_no_command(hakmem: Command, subcommand: str) -> None:
    outcome = hakmem(subcommand)
    assert outcome.status == 127
    assert outcome.error_line().startswith("hakmem: no command given")


@BOTH
@pytest.mark.parametrize("missing", ["hak-no-such-program", "./no/such/program", ""])
def test_command_not_found(hakmem: Command, subcommand: str, missing: str) -> None:
    outcome = hakmem(subcommand, "--", missing)
    assert outcome.status == 127
    assert outcome.stdout == ""
    assert missing in outcome.error_line()


@BOTH
def test_command_not_executable(hakmem: Command, subcommand: str, tmp_path: Path) -> None:
    path = tmp_path / "plain.txt"
    path.write_text("text")
    outcome = hakmem(subcommand, path)
    assert outcome.status == 126
    assert f"cannot run '{path}'" in outcome.error_line()
    assert "chmod +x" in outcome.error_line()


@BOTH
def test_entries_of_path_that_may_not_be_looked_at(hakmem: Command, subcommand: str, tmp_path: Path) -> None:
    """They are passed over, as a shell does; root may look at all, so that nobody does it for it."""
    folder = tmp_path / "closed"
    folder.mkdir()
    (folder / "echo").write_text("")
    folder.chmod(0)
    wrapper = ["setpriv", "--reuid=65534", "--clear-groups"] if os.geteuid() == 0 else []
    path = f"{folder}:{os.environ['PATH']}"
    environment = {**hakmem.environment, "HOME": "/", "PATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    outsider = Command([*wrapper, sys.executable, "-m", "hakmem"], environment)
    outcome = outsider(subcommand, "echo", "found")
    folder.chmod(0o700)
    assert outcome.status == 0, outcome.stderr
    assert outcome.stdout.startswith("found\n")
    folder.chmod(0)
    by_path = outsider(subcommand, str(folder / "echo"))
    missing = outsider(subcommand, "hak-no-such-program")
    folder.chmod(0o700)
    assert (by_path.status, missing.status) == (126, 127)
    assert "Permission denied" in by_path.error_line()
    assert "not found in PATH" in missing.error_line()


@BOTH
def test_command_is_a_directory(hakmem: Command, subcommand: str, tmp_path: Path) -> None:
    outcome = hakmem(subcommand, tmp_path)
    assert outcome.status == 126
    assert "is a directory" in outcome.error_line()


@BOTH
def test_file_that_the_kernel_refuses(
    hakmem: Command, subcommand: str, script: Callable[[str], Path]
) -> None:
    path = script("neither ELF nor a script with an interpreter\n")
    outcome = hakmem(subcommand, path)
    assert outcome.status == 126
    assert outcome.error_line() == f"hakmem: cannot run '{path}': Exec format error"


def test_file_that_the_kernel_refuses_while_polling(hakmem: Command, script: Callable[[str], Path]) -> None:
    outcome = hakmem("versus", "--polling", script("text\n"))
    assert outcome.status == 126
    assert "Exec format error" in outcome.error_line()


@BOTH
def test_script_whose_interpreter_is_missing(
    hakmem: Command, subcommand: str, script: Callable[[str], Path]
) -> None:
    outcome = hakmem(subcommand, script("#!/no/such/interpreter\n"))
    assert outcome.status == 126
    assert "/no/such/interpreter" in outcome.error_line()


@BOTH
@pytest.mark.parametrize("flag", ["-static", "-static-pie"])
def test_static_program(hakmem: Command, subcommand: str, compiled: Compile, flag: str) -> None:
    outcome = hakmem(subcommand, compiled("int main(void) { return 0; }", flag))
    assert outcome.status == 126
    assert "statically linked" in outcome.error_line()


@BOTH
def test_script_of_a_static_interpreter(
    hakmem: Command, subcommand: str, compiled: Compile, script: Callable[[str], Path]
) -> None:
    interpreter = compiled("int main(void) { return 0; }", "-static")
    outcome = hakmem(subcommand, script(f"#!{interpreter}\n"))
    assert outcome.status == 126
    assert f"through '{interpreter}'" in outcome.error_line()


@BOTH
def test_program_that_changes_its_user(hakmem: Command, subcommand: str, compiled: Compile) -> None:
    program = compiled("int main(void) { return 0; }")
    if os.geteuid() == 0:
        os.chown(program, 65534, 65534)  # to change to another user needs another's file
        program.chmod(0o4755)
    else:
        program = Path("/bin/su")
    outcome = hakmem(subcommand, program)
    assert outcome.status == 126
    assert "set-user-ID" in outcome.error_line()


@BOTH
def test_program_for_another_machine(hakmem: Command, subcommand: str, compiled: Compile) -> None:
    program = compiled("int main(void) { return 0; }")
    header = bytearray(program.read_bytes())
    header[18:20] = (8).to_bytes(2, "little")  # e_machine: MIPS
    program.write_bytes(header)
    outcome = hakmem(subcommand, program)
    assert outcome.status == 126
    assert "the library is for" in outcome.error_line()


@pytest.mark.parametrize("arguments", [["run", "true"], ["versus", "true"], ["options"]])
def test_library_not_found(hakmem: Command, arguments: list[str], tmp_path: Path) -> None:
    missing = str(tmp_path / "libhakmem.so")
    outcome = hakmem(*arguments, HAKMEM_LIBRARY=missing)
    assert outcome.status == 1
    assert outcome.error_line() == f"hakmem: HAKMEM_LIBRARY is set to '{missing}', but there is no such file"


def test_library_that_may_not_be_looked_at(hakmem: Command, tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    outcome = hakmem("run", "true", HAKMEM_LIBRARY=str(loop / "libhakmem.so"))
    assert outcome.status == 1
    assert outcome.error_line().startswith(f"hakmem: HAKMEM_LIBRARY is set to '{loop}/libhakmem.so', ")


def test_library_not_loadable(hakmem: Command, tmp_path: Path) -> None:
    broken = tmp_path / "libhakmem.so"
    broken.write_text("not a library")
    for arguments in (["run", "true"], ["versus", "true"], ["options"]):
        outcome = hakmem(*arguments, HAKMEM_LIBRARY=str(broken))
        assert outcome.status == 1
        assert str(broken) in outcome.error_line()


@pytest.mark.parametrize(
    "arguments", [["run"], ["versus"], ["top", "--"], ["tune"], ["compare", "--allocators", "hakmem"]]
)
@pytest.mark.parametrize(
    "source",
    ["int hak_test_other;", "const char *hak_version(void); const char *ask(void){return hak_version();}"],
)
def test_library_of_something_else(
    hakmem: Command, compiled: Compile, tmp_path: Path, arguments: list[str], source: str
) -> None:
    ran = tmp_path / "ran"
    other = compiled(source, "-shared", "-fPIC", name="libhakmem.so")
    outcome = hakmem(*arguments, "touch", ran, HAKMEM_LIBRARY=str(other))
    assert outcome.status == 1
    assert not_hakmem(other) in outcome.error_line()
    assert not ran.exists()


def not_hakmem(library: Path) -> str:
    return f"HAKMEM_LIBRARY is set to '{library}', which is not a HAKMEM library: it has no hak_version"


def test_library_of_something_else_is_not_loaded(hakmem: Command, compiled: Compile, tmp_path: Path) -> None:
    loaded = tmp_path / "loaded"
    source = f'#include <fcntl.h>\n__attribute__((constructor)) void f(void){{ creat("{loaded}", 0600); }}'
    other = compiled(source, "-shared", "-fPIC", name="libhakmem.so")
    outcome = hakmem("options", HAKMEM_LIBRARY=str(other))
    assert (outcome.status, outcome.error_line()) == (1, f"hakmem: {not_hakmem(other)}")
    assert not_hakmem(other) in hakmem("--version", HAKMEM_LIBRARY=str(other)).stdout
    assert not loaded.exists()


@pytest.mark.parametrize("flags", [["-Wl,--hash-style=sysv"], ["-Wl,--hash-style=gnu"], ["-Wl,-s"]])
def test_library_is_told_by_its_symbols(hakmem: Command, compiled: Compile, flags: list[str]) -> None:
    source = 'const char *hak_version(void) { return "9"; }'
    lookalike = compiled(source, "-shared", "-fPIC", *flags, name="libhakmem.so")
    assert hakmem("run", "echo", "here", HAKMEM_LIBRARY=str(lookalike)).stdout == "here\n"


@pytest.mark.parametrize("length", [60, 64, 1000, 9000])
def test_library_that_is_cut_off(hakmem: Command, library: Path, tmp_path: Path, length: int) -> None:
    part = tmp_path / "libhakmem.so"
    part.write_bytes(library.read_bytes()[:length])
    outcome = hakmem("run", "true", HAKMEM_LIBRARY=str(part))
    assert outcome.status == 1
    assert str(part) in outcome.error_line()


def test_library_whose_path_cannot_be_preloaded(hakmem: Command, library: Path, tmp_path: Path) -> None:
    spaced = tmp_path / "a b"
    spaced.mkdir()
    (spaced / "libhakmem.so").symlink_to(library)
    outcome = hakmem("run", "true", HAKMEM_LIBRARY=str(spaced / "libhakmem.so"))
    assert outcome.status == 1
    assert "space or a colon" in outcome.error_line()


def test_wrapper_that_drops_the_preload(hakmem: Command) -> None:
    outcome = hakmem("versus", "env", "-i", "/bin/sleep", "0")
    assert outcome.status == 126
    assert "HAKMEM was not loaded" in outcome.error_line()


@pytest.mark.parametrize("runs", ["0", "-1", "many", ""])
def test_bad_number_of_rounds(hakmem: Command, runs: str) -> None:
    outcome = hakmem("versus", "--runs", runs, "true")
    assert outcome.status == 2
    assert "--runs" in outcome.stderr


def test_unknown_option_and_subcommand(hakmem: Command) -> None:
    assert "--no-such" in hakmem("run", "--no-such", "true").stderr
    outcome = hakmem("no-such-subcommand")
    assert outcome.status == 2
    assert "no-such-subcommand" in outcome.stderr


@pytest.mark.parametrize("arguments", [["versus"], ["compare", "--allocators", "system"]])
@pytest.mark.parametrize("report", ["no/such/folder/report", "."])
def test_a_report_that_cannot_be_written_is_refused_before_the_program_runs(
    hakmem: Command, tmp_path: Path, arguments: list[str], report: str
) -> None:
    ran = tmp_path / "ran"
    outcome = hakmem(*arguments, "--runs", "1", "--report", tmp_path / report, "touch", ran)
    assert outcome.status in (1, 2)
    assert str(tmp_path / report) in outcome.stderr
    assert not ran.exists()


def test_a_report_of_a_program_that_is_not_there_leaves_the_last_one(hakmem: Command, tmp_path: Path) -> None:
    report = tmp_path / "report"
    report.write_text("the last one")
    assert hakmem("versus", "--report", report, "hak-no-such-program").status == 127
    assert report.read_text() == "the last one"


@pytest.mark.parametrize("arguments", [["versus"], ["compare", "--allocators", "system,hakmem"]])
def test_a_program_whose_name_is_no_text(
    hakmem: Command, compiled: Compile, tmp_path: Path, arguments: list[str]
) -> None:
    program = compiled("int main(void) { return 0; }").rename(tmp_path / os.fsdecode(b"a\xff\r\nb c"))
    # Seen through bytes, because text is what the name is not.
    done = subprocess.run(
        [*hakmem.arguments, *arguments, "--runs", "1", program],
        env=hakmem.environment,
        capture_output=True,
        check=False,
        timeout=100,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"/a\xff" in done.stdout


@pytest.mark.parametrize("arguments", [["versus"], ["compare", "--allocators", "system"]])
def test_an_output_that_takes_few_letters(hakmem: Command, arguments: list[str]) -> None:
    outcome = hakmem(*arguments, "--runs", "1", "true", PYTHONIOENCODING="ascii")
    assert (outcome.status, outcome.stderr) == (0, "")


@pytest.mark.parametrize(
    "arguments", [["--help"], ["options"], ["options", "--json"], ["versus", "--runs", "1", "true"]]
)
def test_an_output_without_room(hakmem: Command, arguments: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*hakmem.arguments, *arguments],
            env=hakmem.environment,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=100,
        )
    assert done.returncode == 1
    assert done.stderr == "hakmem: cannot write the output: No space left on device\n"
