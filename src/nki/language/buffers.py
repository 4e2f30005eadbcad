"""The memories: what names one, and questions about it."""

from __future__ import annotations

from typing import Any

from nki.base.errors import ArgumentError
from nki.ir.types import Buffer


def buffer_of(buffer: Any, what: str) -> Buffer:
    """``buffer`` as a memory region. Raises :class:`ArgumentError` in the name of ``what``."""
    if isinstance(buffer, str) and buffer in Buffer.__members__:
        buffer = Buffer[buffer]
    if not isinstance(buffer, Buffer) or buffer is Buffer.register:
        raise ArgumentError(
            f"{what}: buffer {buffer!r} is not a memory", fix="use nl.sbuf, nl.psum, nl.shared_hbm or nl.private_hbm"
        )
    return buffer


def is_sbuf(buffer: Any) -> bool:
    """True if ``buffer`` is SBUF."""
    return buffer_of(buffer, "nl.is_sbuf") is Buffer.sbuf


def is_psum(buffer: Any) -> bool:
    """True if ``buffer`` is PSUM."""
    return buffer_of(buffer, "nl.is_psum") is Buffer.psum


def is_hbm(buffer: Any) -> bool:
    """True if ``buffer`` is one of the HBM regions."""
    return buffer_of(buffer, "nl.is_hbm").is_hbm


def is_on_chip(buffer: Any) -> bool:
    """True if ``buffer`` is SBUF or PSUM."""
    return buffer_of(buffer, "nl.is_on_chip").on_chip


__all__ = ["buffer_of", "is_hbm", "is_on_chip", "is_psum", "is_sbuf"]
