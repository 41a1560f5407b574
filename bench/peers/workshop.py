"""What a recipe works with: a folder of its own, commands that are logged, and the package registries."""

import json
import os
import platform
import re
import shlex
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

# What a user's shell or a calling `make` may have set, and a build would obey.
_NOT_PASSED_ON = (
    "CFLAGS",
    "CXXFLAGS",
    "CPPFLAGS",
    "LDFLAGS",
    "RUSTFLAGS",
    "CARGO_BUILD_TARGET",
    "CARGO_TARGET_DIR",
    "MAKEFLAGS",
    "MAKELEVEL",
    "MFLAGS",
    "LD_PRELOAD",
)
_FETCHING = """[package]
name = "fetching"
version = "0.0.0"
edition = "2021"
[lib]
path = "empty.rs"
[dependencies]
{crate} = "*"
"""
_SAID_LENGTH = 40  # of a command, in the progress display
_DEBIAN_COMMANDS = ("apt-cache", "apt-get", "dpkg-deb")
# Two refreshes of apt's lists at a time would refuse each other.
_apt = threading.Lock()

JOBS = os.cpu_count() or 1
MACHINE = platform.machine()


class UnavailableError(Exception):
    """Why a peer cannot be had here, in one line."""

    def __init__(self, reason: str, *, lasting: bool = False) -> None:
        super().__init__(reason)
        self.lasting = lasting  # unlike what a tool or a network that comes back cures


@dataclass(frozen=True)
class Crate:
    name: str
    version: str
    folder: Path  # its sources: to be read only
    project: Path  # a cargo project that does nothing but depend on it

    def commit(self) -> str:
        """The commit that the crate was made of, if it says so."""
        try:
            told = json.loads((self.folder / ".cargo_vcs_info.json").read_text(encoding="utf-8"))
            return str(told["git"]["sha1"])[:12]
        except (OSError, ValueError, KeyError):
            return "unknown"


@dataclass(frozen=True)
class Package:
    """A Debian package, unpacked but not installed."""

    name: str
    version: str  # Debian's
    folder: Path

    def upstream_version(self) -> str:
        return self.version.rpartition(":")[2].partition("-")[0]


@dataclass(frozen=True)
class Workshop:
    folder: Path
    log: Path
    say: Callable[[str], None] = field(default=lambda _: None)

    def run(
        self,
        *command: str | Path,
        folder: Path | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> str:
        """Runs a command to its end and returns its output; raises if it fails. All of it is in the log."""
        arguments = list(map(str, command))
        self.say(" ".join(Path(argument).name for argument in arguments[:3])[:_SAID_LENGTH])
        passed_on = {name: value for name, value in os.environ.items() if name not in _NOT_PASSED_ON}
        try:
            done = subprocess.run(
                arguments,
                cwd=folder or self.folder,
                env={**passed_on, **(variables or {})},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                check=False,
            )
        except OSError as error:
            raise UnavailableError(f"cannot run '{arguments[0]}': {error.strerror}") from error
        with self.log.open("a", encoding="utf-8") as log:
            log.write(f"$ {shlex.join(arguments)}\n{done.stdout}{done.stderr}\n")
        if done.returncode != 0:
            raise UnavailableError(_failure(arguments, done.returncode, done.stderr or done.stdout))
        return done.stdout

    def require(self, **packages: str) -> None:
        """Raises unless the commands are here: require(make="make") names the Debian package of each."""
        if lacking := [command for command in packages if shutil.which(command) is None]:
            to_install = " ".join(sorted({packages[command] for command in lacking}))
            raise UnavailableError(
                f"its build needs {', '.join(lacking)}: install that (Debian: apt-get install {to_install})"
            )

    def require_debian(self) -> None:
        if lacking := [command for command in _DEBIAN_COMMANDS if shutil.which(command) is None]:
            raise UnavailableError(f"it comes as a Debian package, and here is no {', '.join(lacking)}")

    def crate(self, name: str) -> Crate:
        """The newest release of a crate, fetched by cargo."""
        self.require(cargo="cargo")
        project = self.folder / "fetching"
        project.mkdir()
        (project / "Cargo.toml").write_text(_FETCHING.format(crate=name), encoding="utf-8")
        (project / "empty.rs").touch()
        target = f"{MACHINE}-unknown-linux-gnu"
        told = self.run(
            "cargo", "metadata", "--format-version=1", "--filter-platform", target, folder=project
        )
        (crate,) = (package for package in json.loads(told)["packages"] if package["name"] == name)
        return Crate(name, crate["version"], Path(crate["manifest_path"]).parent, project)

    def package(self, name: str) -> Package:
        """The Debian package's current release, unpacked in a folder of its own: nothing is installed."""
        self.require_debian()
        folder = self.folder / name
        folder.mkdir()
        with _apt:
            try:
                self.run("apt-get", "download", name, folder=folder)
            except UnavailableError:
                if os.geteuid() != 0:
                    raise
                self.run("apt-get", "update")  # the lists are old, or there are none yet
                self.run("apt-get", "download", name, folder=folder)
        (file,) = folder.glob("*.deb")
        version = self.run("dpkg-deb", "--field", file, "Version").strip()
        self.run("dpkg-deb", "--extract", file, folder / "unpacked")
        return Package(name, version, folder / "unpacked")

    def copy(self, source: Path, name: str) -> Path:
        """A copy of the folder to build in."""
        return Path(shutil.copytree(source, self.folder / name))

    def compiler(self, command: str) -> str:
        """What `command` is: "gcc 12.2.0", or its own first line."""
        told = self.run(command, "--version").splitlines()[0]
        version = re.search(r"(\d+\.\d+\.\d+)", told)
        name = "clang" if "clang" in told else "gcc" if re.search(r"GCC|gcc|cc \(|\+\+ \(", told) else ""
        return f"{name} {version[1]}" if name and version else told


def _failure(arguments: Sequence[str], code: int, said: str) -> str:
    ending = f"exit status {code}"
    if code < 0:
        ending = f"killed by {signal.Signals(-code).name}"
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    # The first error is the cause; what comes last is mostly that something before it failed.
    telling = [line for line in lines if re.search(r"\berror\b|^E:", line, re.IGNORECASE)] or lines[-1:]
    command = shlex.join(arguments[:3]) + (" …" if len(arguments) > 3 else "")
    return f"'{command}' failed ({ending})" + (f": {telling[0]}" if telling else "")
