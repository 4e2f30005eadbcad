"""Errors of ``nki.prove``."""

from __future__ import annotations

from nki.base.errors import NkiError


class DifferentSignaturesError(NkiError):
    """Two sides of a proof that take other inputs, or return other outputs: their numbers, their shapes."""

    code = "NKI-PV001"
