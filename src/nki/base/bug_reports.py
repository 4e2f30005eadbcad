"""The version in the traceback of a bug."""

from __future__ import annotations

from nki.base.errors import NkiError
from nki.base.version import version


class BugReports:
    """Context manager: an exception that is no error of ours, and thus a bug, gets a note with the version, which
    Python shows below its traceback.
    """

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        note = f"(open-nki {version()})" if isinstance(error, Exception) and not isinstance(error, NkiError) else ""
        if note and error is not None and note not in getattr(error, "__notes__", ()):
            error.add_note(note)
