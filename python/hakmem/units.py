"""Figures as people read them."""

_KIBIBYTE = 1024
_MINUTE = 60
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR


def shown_bytes(size: float) -> str:
    if abs(size) < _KIBIBYTE:
        return f"{size:.0f} B"
    for unit in ("KiB", "MiB", "GiB"):
        size /= _KIBIBYTE
        if abs(size) < _KIBIBYTE:
            return f"{size:.1f} {unit}"
    return f"{size / _KIBIBYTE:.1f} TiB"


def shown_count(count: float) -> str:
    return f"{count:,.0f}"


def shown_rate(per_second: float) -> str:
    return f"{per_second:,.0f}" if per_second >= 10 or per_second == 0 else f"{per_second:.1f}"


def shown_amount(value: float, unit: str) -> str:
    """`unit` is "bytes" or "blocks"."""
    return shown_bytes(value) if unit == "bytes" else f"{shown_count(value)} {unit}"


def shown_share(part: float, whole: float) -> str:
    return f"{part / whole:.1%}" if whole else "-"


def shown_seconds(seconds: float) -> str:
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < _MINUTE:
        return f"{seconds:.0f} s"
    if seconds < _HOUR:
        return f"{seconds // _MINUTE:.0f} min {seconds % _MINUTE:.0f} s"
    if seconds < _DAY:
        return f"{seconds // _HOUR:.0f} h {seconds % _HOUR // _MINUTE:.0f} min"
    return f"{seconds // _DAY:.0f} d {seconds % _DAY // _HOUR:.0f} h"
