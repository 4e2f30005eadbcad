"""Errors of ``nki.testing.verify``."""

from __future__ import annotations

from nki.base.errors import NkiError


class VerificationError(NkiError):
    """A kernel that ``nki.testing.verify`` does not let pass; raised by ``check`` of its result."""

    code = "NKI-VF001"


class VerificationInputError(NkiError):
    """Arguments of ``nki.testing.verify`` that it cannot use: a shape, a size, a reference, an option."""

    code = "NKI-VF002"
