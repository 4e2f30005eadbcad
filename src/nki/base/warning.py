"""Warnings: code that runs, yet does not mean what it seems to, or will stop running."""

from __future__ import annotations

import warnings
from typing import Any

from nki.base.source import Span


class NkiWarning(UserWarning):
    """Something in a kernel that is probably a mistake."""


class NkiDeprecationWarning(NkiWarning, DeprecationWarning):
    """Something that newer versions of NKI no longer have; the message names its replacement."""


_given: dict[str, dict[Any, Any]] = {}
"""What was said about each file, as Python notes it in a module's ``__warningregistry__``."""


def warn_at(span: Span, message: str, category: type[NkiWarning] = NkiWarning) -> None:
    """Warn at a line of the user's file; Python's own filters and once-per-line rule apply to that line."""
    warnings.warn_explicit(message, category, span.file, span.line, registry=_given.setdefault(span.file, {}))
