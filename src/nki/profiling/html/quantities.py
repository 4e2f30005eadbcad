"""Numbers with their units, as the report shows them: three digits, and the prefix that fits; sentences."""

from __future__ import annotations

from collections.abc import Sequence

_TIMES = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))
_RATES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_SIZES = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B"))


def digits(value: float) -> str:
    """Three significant digits, without an exponent."""
    if value >= 99.95 or value == 0:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


def time(ns: float) -> str:
    """A time that is given in ns."""
    return _scaled(ns, _TIMES)


def size(count: float) -> str:
    """A number of bytes."""
    return f"{count:,.0f} B" if count < 1024 else _scaled(count, _SIZES)


def rate(per_second: float, unit: str) -> str:
    """A rate with its decimal prefix, such as ``91.8 TFLOP/s``."""
    factor, prefix = next((row for row in _RATES if per_second >= row[0]), _RATES[-1])
    return f"{digits(per_second / factor)} {prefix}{unit}"


def percent(part: float) -> str:
    """A part of 1."""
    return f"{part * 100:.0f} %" if part >= 0.0995 or part == 0 else f"{part * 100:.1f} %"


def count(number: int) -> str:
    """A whole number with its thousands apart."""
    return f"{number:,}"


def sentence(text: str) -> str:
    """``text`` with a capital, unless it begins with a name of a program."""
    first = text.partition(" ")[0]
    return text if any(mark in first for mark in "._=(") else text[:1].upper() + text[1:]


def _scaled(value: float, units: Sequence[tuple[float, str]]) -> str:
    factor, unit = next((row for row in units if value >= row[0] * 0.9995), units[-1])
    return f"{digits(value / factor)} {unit}"
