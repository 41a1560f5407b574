"""What the kernel says of a process in /proc."""

from pathlib import Path


def name_and_stat_fields(folder: Path) -> tuple[str, list[str]]:
    """The name of a process or a thread, and what follows it in its line: the third field and all others."""
    line = (folder / "stat").read_text(encoding="utf-8", errors="replace")
    # The name, in parentheses, may hold spaces and others of these.
    name, _, rest = line.partition("(")[2].rpartition(")")
    return name, rest.split()


def stat_fields(pid: int) -> list[str]:
    """Of /proc/PID/stat, but for the first two."""
    return name_and_stat_fields(Path(f"/proc/{pid}"))[1]


def fields_of(file: Path) -> dict[str, str]:
    """Of a file whose lines are "Field: value"."""
    # A name may be any bytes, and hold other ends of lines than the kernel's.
    text = file.read_text(encoding="utf-8", errors="replace")
    return dict(line.split(":", 1) for line in text.split("\n") if ":" in line)


def status_fields(pid: int) -> dict[str, str]:
    """Of /proc/PID/status."""
    return fields_of(Path(f"/proc/{pid}/status"))


def kilobytes(text: str) -> int:
    """Bytes of a field that says "4711 kB"."""
    return int(text.split(maxsplit=1)[0]) * 1024
