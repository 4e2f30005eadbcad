"""Errors of ``nki.sweep``, ``nki.tune`` and ``nki.autotune``."""

from __future__ import annotations

from nki.base.errors import NkiError


class SpaceError(NkiError):
    """A space that cannot be read, or that does not fit the kernel: a key, a name, an expression, a value."""

    code = "NKI-SW001"


class NoPointError(NkiError):
    """A space without a legal point: its conditions exclude all, or the kernel compiles for none."""

    code = "NKI-SW002"


class ExecutorError(NkiError):
    """The executor of a sweep ended, or its workers cannot import this package. Finished points are kept."""

    code = "NKI-SW003"


class BadReferenceError(NkiError):
    """The reference of a sweep or of ``nki.testing.verify`` cannot be found, raises, or returns other shapes."""

    code = "NKI-SW004"


class WrongResultError(NkiError):
    """A result of the kernel that lies outside of the tolerance around the result of the reference."""

    code = "NKI-SW005"


class LostWorkerError(NkiError):
    """A point that killed its worker process twice: a crash, or memory that the system does not have."""

    code = "NKI-SW006"


class FailedPointsError(NkiError):
    """Points of a sweep that fail; raised by ``check`` of its table."""

    code = "NKI-SW007"
