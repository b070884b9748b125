"""Numbers as people read them."""

from __future__ import annotations


def format_count(count: int) -> str:
    """Write a count with thousands apart: ``12,345``."""
    return f"{count:,}"


def format_size(count: float) -> str:
    """Write a number of bytes with at most one decimal: ``512 B``, ``1.5 MiB``."""
    if count < 1024:
        return f"{count:.0f} B"
    for unit in ("KiB", "MiB", "GiB"):
        count /= 1024
        if count < 1023.95:
            return f"{count:.1f} {unit}"
    return f"{count / 1024:.1f} TiB"


def format_time(seconds: float) -> str:
    """Write a time in the unit that suits it: ``3.1 ms``, ``12.0 s``, ``1:02:03``."""
    if seconds < 0.99995:
        return f"{seconds * 1000:.1f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    return format_clock(seconds)


def format_clock(seconds: float) -> str:
    """Write a time as ``0:42``, ``12:05`` or ``1:02:03``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def format_rate(per_second: float) -> str:
    """Write a rate: ``1,234/s``, ``0.5/s``."""
    return f"{per_second:,.0f}/s" if per_second >= 10 else f"{per_second:.1f}/s"
