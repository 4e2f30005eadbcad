"""Errors as text, and the exit codes that they lead to."""

from __future__ import annotations

from nki.base.errors import NkiError
from nki.base.usage import UsageError
from nki.base.version import version


def complaint(error: NkiError | UsageError) -> str:
    """The text about an error, with the version of this package."""
    if isinstance(error, NkiError):
        return str(error)
    fix = f"\n  fix: {error.fix}" if error.fix else ""
    return f"nki: {error.message}{fix}\n  (open-nki {version()})"


def exit_code(error: NkiError | UsageError | None) -> int:
    """0 without an error; 1 for a wrong kernel, 2 for a wrong command."""
    return 0 if error is None else 2 if isinstance(error, UsageError) else 1
