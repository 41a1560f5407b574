"""The folder that holds the allocators built for comparison: one folder for each, with what is known of it.

${XDG_CACHE_HOME:-~/.cache}/hakmem/peers/
    <name>-<version>/manifest.json    and the library beside it
    <name>.missing.json               why there is none of that name
"""

import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

MANIFEST_NAME = "manifest.json"
_MISSING_SUFFIX = ".missing.json"


@dataclass(frozen=True)
class Manifest:
    name: str
    title: str  # without the version
    version: str
    library: str  # the file's name, beside the manifest
    origin: str  # one line: from where, built how, with which flags
    verified: str  # one line: how it is known that the library serves malloc
    environment: Mapping[str, str] = field(default_factory=dict, hash=False)


_TEXT_FIELDS = {entry.name for entry in fields(Manifest)} - {"environment"}


def peers_folder() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or ""
    # The XDG rules: a relative path is to be ignored.
    base = Path(cache) if cache.startswith("/") else Path.home() / ".cache"
    return base / "hakmem" / "peers"


def store(manifest: Manifest, library: Path) -> Path:
    """Moves `library` into the cache, in place of what is there under that name; returns its folder."""
    # LD_PRELOAD cannot carry a path with a space or a colon.
    folder = peers_folder() / re.sub(r"[^\w.+-]", "_", f"{manifest.name}-{manifest.version}")
    fresh = folder.with_name(f".{folder.name}")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    shutil.move(library, fresh / manifest.library)
    _write(fresh / MANIFEST_NAME, asdict(manifest))
    for older, known in manifests():
        if known and known.name == manifest.name:
            shutil.rmtree(older)
    shutil.rmtree(folder, ignore_errors=True)
    fresh.rename(folder)
    _reason_file(manifest.name).unlink(missing_ok=True)
    return folder


def store_missing(name: str, reason: str, *, lasting: bool) -> None:
    """Keeps why there is no library of that name. One that is there already stays.

    A reason that is `lasting` will hold the next time, too; any other is there to be told.
    """
    peers_folder().mkdir(parents=True, exist_ok=True)
    _write(_reason_file(name), {"name": name, "reason": reason, "lasting": lasting})


def manifests() -> list[tuple[Path, Manifest | None]]:
    """The folder of each allocator in the cache, with its manifest; None where that cannot be read."""
    return [(path.parent, _manifest(path)) for path in sorted(peers_folder().glob(f"[!.]*/{MANIFEST_NAME}"))]


def missing_reasons() -> dict[str, str]:
    return {
        name: str(entry["reason"]) if "reason" in entry else f"'{_reason_file(name)}' cannot be read"
        for name, entry in _missing().items()
    }


def missing_for_good() -> set[str]:
    """The names of which there is none for a lasting reason."""
    return {name for name, entry in _missing().items() if entry.get("lasting") is True}


def _missing() -> dict[str, dict[str, object]]:
    """What the cache says of each; nothing where that cannot be read."""
    return {
        path.name.removesuffix(_MISSING_SUFFIX): _read(path) or {}
        for path in sorted(peers_folder().glob(f"*{_MISSING_SUFFIX}"))
    }


def _manifest(path: Path) -> Manifest | None:
    entry = _read(path) or {}
    environment = entry.pop("environment", None)
    texts = {key: value for key, value in entry.items() if isinstance(value, str)}
    if texts.keys() != _TEXT_FIELDS or not isinstance(environment, dict):
        return None  # damaged, or of another version of this program
    return Manifest(**texts, environment=environment)


def _reason_file(name: str) -> Path:
    return peers_folder() / f"{name}{_MISSING_SUFFIX}"


def _read(path: Path) -> dict[str, object] | None:
    try:
        entry = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return entry if isinstance(entry, dict) else None


def _write(path: Path, entry: dict[str, object]) -> None:
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(entry, indent=2) + "\n", encoding="utf-8")
    partial.replace(path)
