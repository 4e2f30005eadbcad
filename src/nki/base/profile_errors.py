"""Errors of ``nki.profile`` and of the timing model."""

from __future__ import annotations

from nki.base.errors import NkiError


class TripCountError(NkiError):
    """The time of a loop depends on a number of iterations that only the data says."""

    code = "NKI-PR001"


class WhatIfError(NkiError):
    """A what-if names no number of the hardware, or gives it a value that it cannot have."""

    code = "NKI-PR002"

    def __init__(self, name: str, value: str, problem: str, *, fix: str = "") -> None:
        super().__init__(f"what_if({name}={value}): {problem}", fix=fix)
        self.name = name
        self.problem = problem


class MissingPackageError(NkiError):
    """A file of a profile, or the search of a large space, needs a package that is not installed."""

    code = "NKI-PR003"


class ProfileFileError(NkiError):
    """A file of a profile cannot be written."""

    code = "NKI-PR004"


class StepTraceError(NkiError):
    """A step cannot be traced without data, or no framework can trace it."""

    code = "NKI-PR005"


class CaptureError(NkiError):
    """A captured profile cannot be read, or is of another kernel or target than the prediction."""

    code = "NKI-PR006"


class CalibrationError(NkiError):
    """A file of calibrated facts cannot be read, or is not about this target."""

    code = "NKI-PR007"
