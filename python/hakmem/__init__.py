"""HAKMEM for the command line: runs programs on the allocator and compares it with libc's."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("hakmem")
except PackageNotFoundError:  # run from a source tree that is not installed
    __version__ = "unknown"
