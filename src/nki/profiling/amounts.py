"""Amounts as text: places in the source, times, shares, bytes, numbers and counts."""

from __future__ import annotations

import os
from pathlib import Path

from nki.base.source import Span


def place(span: Span | None) -> str:
    """A source line, its file relative to the current folder if it lies there."""
    if span is None:
        return "(no line)"
    try:
        file = os.path.relpath(span.file)
    except ValueError:  # on another drive
        file = span.file
    return f"{Path(span.file).name if file.startswith('..') else file}:{span.line}"


def duration(seconds: float) -> str:
    """A time with three digits and its unit."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{_three_digits(seconds / scale)} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def percent(part: float) -> str:
    """A part of 1 in percent."""
    return f"{100 * part:.1f} %"


def size(count_of_bytes: float) -> str:
    """Bytes in binary units."""
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count_of_bytes >= scale:
            return f"{_three_digits(count_of_bytes / scale)} {unit}"
    return f"{count_of_bytes:.0f} B"


def number(value: float) -> str:
    """A number with a decimal prefix, which a unit follows."""
    for prefix, scale in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= scale:
            return f"{_three_digits(value / scale)} {prefix}"
    return f"{value:.0f} "


def count(many: int, noun: str) -> str:
    """``many`` and ``noun``, with an s unless it is one."""
    return f"{many:,} {noun}{'' if many == 1 else 's'}"


def _three_digits(value: float) -> str:
    return f"{value:.{0 if value >= 99.95 else 1 if value >= 9.995 else 2}f}"


def short(value: float) -> str:
    """A number with three digits, or with all digits of its whole part."""
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"
