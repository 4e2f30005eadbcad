"""Errors of ``nki.testing.gradcheck``."""

from __future__ import annotations

from nki.base.errors import NkiError


class GradientMismatchError(NkiError):
    """A backward that ``nki.testing.gradcheck`` finds to be the derivative of something else."""

    code = "NKI-FW030"
