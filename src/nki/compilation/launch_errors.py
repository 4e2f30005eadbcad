"""Errors of launches, of their options, and of imports of what a compiler has inside; tracebacks as users see them."""

from __future__ import annotations

from contextlib import ContextDecorator

from nki.base import knobs
from nki.base.errors import NkiError
from nki.base.version import version


class DegreeError(NkiError):
    """Brackets of a launch and ``NEURON_LOGICAL_NC_CONFIG`` name different numbers of cores."""

    code = "NKI-KN020"


class NestedConfigError(NkiError):
    """A kernel that another one calls has a ``compile_config`` of its own, and it is not the caller's."""

    code = "NKI-KN021"


class VendorModuleError(NkiError, ImportError):
    """A module of the vendor's packages, or of one that Open NKI stands in for, which has no counterpart in Open NKI.

    An ``ImportError`` as well, so that programs that can do without the module go on.
    """

    code = "NKI-HN002"


class VendorNameError(NkiError, AttributeError):
    """A name of a package that Open NKI stands in for, which the stand-in does not have.

    An ``AttributeError`` as well, so that ``hasattr`` and ``getattr`` with a default work.
    """

    code = "NKI-HN003"


class ModelFileError(NkiError):
    """A file that is not a usable model of ``nki.export``, or a model that cannot be written to one."""

    code = "NKI-FW020"


def strip_frames(error: NkiError) -> NkiError:
    """``error`` without the frames of this package, for its text says where in the kernel it arose (``NKI_DEBUG=1``: as
    it is). Raise the result as it is, without ``from``: a Python exception of the kernel's own code stays its cause.
    """
    if knobs.debug():
        return error
    error.__suppress_context__ = True
    return error.with_traceback(None)


class BugReports(ContextDecorator):
    """Context manager, and decorator: an exception that is no error of ours, and thus a bug, gets a note with the
    version, which Python shows below its traceback.
    """

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, Exception):
            note_version(error)


def note_version(error: Exception) -> None:
    """Add the note of :class:`BugReports` to ``error``, unless it is one of ours or has it."""
    note = f"(open-nki {version()})"
    if not isinstance(error, NkiError) and note not in getattr(error, "__notes__", ()):
        error.add_note(note)
