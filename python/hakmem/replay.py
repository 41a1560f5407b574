"""Standard input for programs that run several times: each round reads what the first one was given."""

import os
import select
import stat
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from hakmem.errors import HakmemError

_CHUNK = 1 << 16


class Input:
    """Regular files are rewound and pipes recorded; a terminal is for the first round only."""

    def __init__(self) -> None:
        _open_standard_descriptors()
        mode = os.fstat(0).st_mode
        self._is_terminal = os.isatty(0)
        self._start = os.lseek(0, 0, os.SEEK_CUR) if stat.S_ISREG(mode) else None
        is_stream = stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
        self._recording = _temporary_file() if is_stream else None

    @contextmanager
    def for_round(self, *, first: bool) -> Iterator["Feed"]:
        """The descriptor a round reads from; for a stream, call `begin` once the program is forked."""
        if self._is_terminal and not first:
            nothing = os.open(os.devnull, os.O_RDONLY)
            yield Feed(nothing)
            os.close(nothing)
        elif self._recording is None:
            if self._start is not None:
                os.lseek(0, self._start, os.SEEK_SET)
            yield Feed(0)
        elif first:
            feed = _Recorder(self._recording)
            yield feed
            feed.end()
        else:
            os.lseek(self._recording, 0, os.SEEK_SET)
            yield Feed(self._recording)


@dataclass
class Feed:
    descriptor: int

    def begin(self) -> None:
        """Nothing to do: the program reads the descriptor itself."""


class _Recorder(Feed):
    """Hands a stream on as it comes, and keeps a copy."""

    def __init__(self, recording: int) -> None:
        descriptor, self._sink = os.pipe()
        super().__init__(descriptor)
        self._recording = recording
        self._problem: HakmemError | None = None
        self._stopped, self._stop = os.pipe()
        self._thread = threading.Thread(target=self._copy, daemon=True)

    def begin(self) -> None:
        os.close(self.descriptor)  # the program holds the only reader now: its end is seen here
        os.set_blocking(self._sink, False)
        self._thread.start()

    def end(self) -> None:
        os.close(self._stop)
        self._thread.join()
        os.close(self._stopped)
        if self._problem:
            raise self._problem

    def _copy(self) -> None:
        try:
            with suppress(BrokenPipeError):
                while self._stopped not in select.select([0, self._stopped], [], [])[0]:
                    chunk = os.read(0, _CHUNK)
                    if not chunk or not self._hand_on(chunk):
                        break
        except HakmemError as error:
            self._problem = error
        except OSError as error:
            self._problem = HakmemError(f"cannot read the input: {error.strerror}")
        finally:
            os.close(self._sink)  # or the program would wait for more

    def _hand_on(self, chunk: bytes) -> bool:
        """False if the program ended first."""
        self._keep(chunk)
        while chunk:
            if select.select([self._stopped], [self._sink], [])[0]:
                return False
            with suppress(BlockingIOError):
                chunk = chunk[os.write(self._sink, chunk) :]
        return True

    def _keep(self, chunk: bytes) -> None:
        try:
            while chunk:
                chunk = chunk[os.write(self._recording, chunk) :]
        except OSError as error:
            raise HakmemError(
                f"cannot keep the input for further rounds in '{tempfile.gettempdir()}': {error.strerror}; "
                "set TMPDIR to a folder with more room, or give the input as a file"
            ) from error


def _temporary_file() -> int:
    """A file without a name: gone when this process ends."""
    descriptor, path = tempfile.mkstemp(prefix="hakmem-")
    Path(path).unlink()
    return descriptor


def _open_standard_descriptors() -> None:
    """Makes sure that 0, 1 and 2 are open, or the next file opened would become one of them."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
