"""Writes files so that a reader never sees half of one, and finds out early that one cannot be written."""

import errno
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from hakmem.errors import HakmemError

STANDARD_OUTPUT = Path("-")


def write_whole(path: Path, data: bytes) -> None:
    """Puts `data` into `path`, or writes it to standard output if that is "-".

    A file is written beside its place and then renamed to it; a pipe or a device is written to.
    """
    if path == STANDARD_OUTPUT:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(data)
        else:
            _replace(path, data)
    except OSError as error:
        raise HakmemError(f"cannot write '{path}': {error.strerror}") from error


def require_writable(path: Path) -> None:
    """Raises, before what is to be written there has taken its time, if it could not be. Changes nothing."""
    if path == STANDARD_OUTPUT:
        return
    try:
        if not path.exists():
            place = path.resolve()  # of a link that leads nowhere, too
            with place.open("xb"):
                pass
            place.unlink()
        elif not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise HakmemError(f"cannot write '{path}': {error.strerror}") from error


@contextmanager
def text_output(path: Path) -> Iterator[TextIO]:
    """The file at `path`, written anew, or standard output if that is "-"."""
    if path == STANDARD_OUTPUT:
        yield sys.stdout
        return
    try:
        with path.open("w", encoding="utf-8", errors="surrogateescape") as file:
            yield file
    except OSError as error:
        raise HakmemError(f"cannot write '{path}': {error.strerror}") from error


def _replace(path: Path, data: bytes) -> None:
    # A rename replaces a link itself, not the file that it stands for.
    place = path.resolve()
    descriptor, name = tempfile.mkstemp(prefix=f".{place.name}.", dir=place.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            os.fchmod(file.fileno(), place.stat().st_mode & 0o777 if place.exists() else 0o666 & ~_umask())
        temporary.replace(place)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
