"""Libraries are read from disk anew before they are measured."""

import errno
import os
from pathlib import Path

from bench.page_cache import read_anew


def is_kept(file: Path) -> bool | None:
    """Whether it can be read without waiting for the disk; nothing where the file system does not say."""
    with file.open("rb") as opened:
        try:
            return os.preadv(opened.fileno(), [bytearray(1)], 0, os.RWF_NOWAIT) == 1
        except BlockingIOError:
            return False
        except OSError as error:
            assert error.errno == errno.EOPNOTSUPP
            return None


def test_a_file_is_kept_no_more_and_stays_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "library.so"
    file.write_bytes(bytes(range(256)) * 4096)
    assert is_kept(file) is not False
    read_anew(file)
    assert is_kept(file) is not True
    assert file.read_bytes() == bytes(range(256)) * 4096


def test_what_is_not_there_is_left_alone(tmp_path: Path) -> None:
    read_anew(tmp_path / "missing")
    assert not list(tmp_path.iterdir())
