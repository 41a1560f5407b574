"""Where things are, and texts freed of it: results are for others, whose folders are elsewhere."""

from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
BUILD = REPOSITORY / "build"
PROGRAMS = REPOSITORY / "bench/programs"
PAGE_FOLDER = REPOSITORY / "docs/benchmarks"


def without_places(text: str) -> str:
    return text.replace(f"{REPOSITORY}/", "").replace(str(Path.home()), "~")
