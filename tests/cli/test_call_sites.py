"""The call sites of a process that is watched, by the files that it has mapped."""

import io
import os
import subprocess
from pathlib import Path

from hakmem.console import console
from hakmem.inside.top import Watcher

from .conftest import Compile
from .live_file import Program, running, sample_statistics
from .test_flame import SOURCE, examined
from .test_profile import heap, requests

STATISTICS = sample_statistics()


def shown(watcher: Watcher) -> str:
    text = io.StringIO()
    _, picture = watcher.look((160, 50))
    console(text).print(picture)
    return text.getvalue()


def spoil(path: Path) -> None:
    """As nobody does who changes a file: it looks as it did before."""
    status = path.stat()
    path.write_bytes(bytes(status.st_size))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def look_until(text: str, watcher: Watcher, process: "subprocess.Popen[str]") -> None:
    while text not in shown(watcher):
        assert process.poll() is None


def test_files_are_read_again_only_when_they_have_changed(compiled: Compile, tmp_path: Path) -> None:
    binary = examined(compiled(SOURCE, "-Wl,-z,noseparate-code"))
    other = examined(compiled(SOURCE.replace("inner", "other"), "-Wl,-z,noseparate-code", name="new"))
    assert other.addresses["other"] == binary.addresses["inner"]
    log = tmp_path / "log"
    log.touch()
    with running(Program(STATISTICS, {1: heap(binary)}, interval=1 << 20, log=str(log))) as process:
        watcher = Watcher(process.pid)
        look_until("inner", watcher, process)
        spoil(binary.path)
        known = len(requests(log))
        while len(requests(log)) < known + 2:
            assert "inner" in shown(watcher)
            assert process.poll() is None
        other.path.rename(binary.path)
        look_until("other", watcher, process)
        watcher.close()
