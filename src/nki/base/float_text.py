"""Floats as text that keeps every bit, of NaN too, for which ``repr`` has one word."""

from __future__ import annotations

import struct


def exact_text(value: float) -> str:
    """``repr(value)``; for a NaN other than Python's usual one ``nan(0x…)``, with the bits of the double."""
    if value == value:
        return repr(value)
    bits = struct.unpack("<Q", struct.pack("<d", value))[0]
    return "nan" if bits == 0x7FF8 << 48 else f"nan(0x{bits:016x})"


def from_text(text: str) -> float:
    """The float that :func:`exact_text` gave as ``text``."""
    if text.startswith("nan("):
        return struct.unpack("<d", struct.pack("<Q", int(text[4:-1], 16)))[0]
    return float(text)


__all__ = ["exact_text", "from_text"]
