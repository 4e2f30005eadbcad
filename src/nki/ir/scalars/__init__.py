"""Whole numbers of the device with which Python computes."""

from __future__ import annotations

from nki.ir.scalars.scalar import EXACT, WIDTHS, NkiScalar

__all__ = ["EXACT", "WIDTHS", "NkiScalar"]
