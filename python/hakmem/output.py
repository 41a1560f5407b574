"""Writes files so that a reader never sees half of one, and finds out early that one cannot be written."""

import codecs
import errno
import io
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

import click

from hakmem.errors import HakmemError

STANDARD_OUTPUT = Path("-")


class OutputFile(click.Path):
    """The type of an option that names a file to be written, or standard output."""

    def __init__(self) -> None:
        super().__init__(dir_okay=False, allow_dash=True, path_type=Path)

    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> Path:
        if not os.fspath(value):
            self.fail("the name of the file is empty; '-' is standard output", param, ctx)
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        return STANDARD_OUTPUT if _is_standard_output(path) else path


def _is_standard_output(path: Path) -> bool:
    """By whatever name: what a shell has opened for this command must not be replaced by another file."""
    try:
        return path == STANDARD_OUTPUT or os.path.samestat(path.stat(), os.fstat(1))
    except (OSError, ValueError):
        return False


def write_whole(path: Path, data: bytes, *, private: bool = False) -> None:
    """Puts `data` into `path`, or writes it to standard output if that is "-".

    A file is written beside its place and then renamed to it, and is for its user only if it is `private`; a
    pipe, a device, and a file in a folder where there may be no new one, are written to. Nothing goes where
    another user's link leads: from what is resolved here, the kernel no longer protects as from links.
    """
    if path == STANDARD_OUTPUT:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    try:
        require_own_link(path)
        if path.exists() and not (path.is_file() and os.access(path.resolve().parent, os.W_OK)):
            path.write_bytes(data)
        else:
            _replace(path, data, private=private)
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


def require_own_link(path: Path) -> None:
    """A link that another user made leads to what that one chose; root may."""
    if path.is_symlink() and path.lstat().st_uid not in (0, os.geteuid()):
        raise PermissionError(errno.EACCES, "the link is another user's")


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


def let_any_text_out() -> None:
    """Names of files may be any bytes, and the output may know few letters: no reason to fail."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        is_utf8 = codecs.lookup(sys.stdout.encoding).name == "utf-8"
        sys.stdout.reconfigure(errors="surrogateescape" if is_utf8 else "replace")


def _replace(path: Path, data: bytes, *, private: bool) -> None:
    # A rename replaces a link itself, not the file that it stands for.
    place = path.resolve()
    descriptor, name = tempfile.mkstemp(prefix=f".{place.name}.", dir=place.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            if not private:  # as it is made
                mode = place.stat().st_mode & 0o777 if place.exists() else 0o666 & ~_umask()
                os.fchmod(file.fileno(), mode)
        temporary.replace(place)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
