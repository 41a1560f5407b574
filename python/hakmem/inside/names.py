"""Names that programs gave themselves and their files: any bytes, and not all of them are to be shown."""

import re
from typing import Any

# A terminal takes these for commands, or ends the line; and what stands for bytes that are no text.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def printable(name: str) -> str:
    return _UNPRINTABLE.sub("\ufffd", name)


def as_named(text: str) -> str:
    """The name that the library wrote byte by byte, as the characters with these numbers; bytes that are no
    text come as Python has them in names of files."""
    try:
        return text.encode("latin-1").decode(errors="surrogateescape")
    except UnicodeEncodeError:  # nothing that the library wrote
        return text


def printable_document(value: Any) -> Any:
    """A document of the library's with all its strings as they may be shown."""
    if isinstance(value, str):
        return printable(as_named(value))
    if isinstance(value, list):
        return [printable_document(item) for item in value]
    if isinstance(value, dict):
        return {printable(key): printable_document(item) for key, item in value.items()}
    return value
