"""What there is to know of the machine and the tools, for a page that others can compare theirs with."""

import hashlib
import json
import os
import platform
import shlex
import subprocess
from pathlib import Path
from shutil import which

_HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
_GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
_GIBIBYTE = 1 << 30


def cores() -> int:
    return len(os.sched_getaffinity(0))


def describe(build: Path) -> dict[str, str]:
    """For people: what it is called, and what it is. `build` is where CMake built library and workloads."""
    cache = _cmake_cache(build)
    facts = {
        "CPU": _cpu(),
        "cores": str(cores()),
        "caches": _caches(),
        "virtual machine": _hypervisor(),
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / _GIBIBYTE:.0f} GiB",
        "kernel": f"{platform.system()} {platform.release()}",
        "transparent huge pages": _chosen(_read(_HUGE_PAGES)),
        "CPU frequency governor": _read(_GOVERNOR),
        "system": _distribution(),
        "C library": " ".join(platform.libc_ver()),
        "compiler of HAKMEM and of the workloads": _first_line(
            cache.get("CMAKE_C_COMPILER", "cc"), "--version"
        ),
        "its flags for most of HAKMEM": _flags(build, "hakmem_shared", "src/api/malloc.c"),
        "its flags for the workloads": _flags(build, "bench_", "bench/workloads/larson.c"),
        "Python": platform.python_version(),
    }
    return {name: fact for name, fact in facts.items() if fact}


def program_versions(programs: list[str]) -> dict[str, str]:
    """What each says to --version; nothing for those that are not there."""
    lines = {name: _first_line(name, "--version") for name in programs}
    return {name: line for name, line in lines.items() if line}


def digest(file: Path | None) -> str:
    """Names the contents of a library: the same text, the same library."""
    return "" if file is None else hashlib.sha256(file.read_bytes()).hexdigest()[:16]


def _cpu() -> str:
    fields = _fields("/proc/cpuinfo")
    name = fields.get("model name", platform.machine())
    numbers = [f"{word} {fields[key]}" for word, key in _CPU_NUMBERS if key in fields]
    return f"{name} ({', '.join(numbers)})" if numbers else name


_CPU_NUMBERS = (("family", "cpu family"), ("model", "model"), ("stepping", "stepping"))


def _caches() -> str:
    sizes = []
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, kind, size = (_read(folder / name) for name in ("level", "type", "size"))
        if kind != "Instruction":
            sizes.append(f"L{level} {size.removesuffix('K')} KiB")
    return ", ".join(sizes)


def _hypervisor() -> str:
    return "yes" if "hypervisor" in _fields("/proc/cpuinfo").get("flags", "").split() else "no"


def _distribution() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "")
    except OSError:
        return ""


def _flags(build: Path, target: str, source: str) -> str:
    """Those of code generation with which `source` is compiled for what is called `target`."""
    for entry in json.loads(_read(build / "compile_commands.json") or "[]"):
        if entry["file"].endswith(source) and target in entry["command"]:
            words = shlex.split(entry["command"])
            return " ".join(dict.fromkeys(word for word in words if word.startswith(("-O", "-f", "-m"))))
    return ""


def _cmake_cache(build: Path) -> dict[str, str]:
    entries = {}
    for line in _read(build / "CMakeCache.txt").splitlines():
        name, separator, value = line.partition("=")
        if separator and not line.startswith(("#", "//")):
            entries[name.partition(":")[0]] = value
    return entries


def _fields(file: str) -> dict[str, str]:
    """`name : value` of each line, the first one of each name."""
    result: dict[str, str] = {}
    for line in _read(Path(file)).splitlines():
        name, separator, value = line.partition(":")
        if separator:
            result.setdefault(name.strip(), value.strip())
    return result


def _chosen(setting: str) -> str:
    """`madvise` of `always [madvise] never`."""
    return setting.partition("[")[2].partition("]")[0] or setting


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _first_line(command: str, *arguments: str) -> str:
    if which(command) is None:
        return ""
    done = subprocess.run(
        [command, *arguments],
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
        timeout=60,
    )
    lines = (done.stdout or done.stderr).strip().splitlines()
    return lines[0] if lines and done.returncode == 0 else ""
