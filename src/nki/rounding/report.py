"""The accuracy of a kernel: what ``nki.accuracy`` returns."""

from __future__ import annotations

import os
from pathlib import Path

from nki.base.profile_errors import ProfileFileError
from nki.rounding import page, text
from nki.rounding.findings import Findings


class Accuracy(Findings):
    """The errors of a kernel on some data, and their causes; it prints as a report."""

    def __str__(self) -> str:
        return text.report(self)

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Write the report beside the source to ``path``, one HTML file that needs no network; the path.

        Raises :class:`ProfileFileError` if the file cannot be written.
        """
        file = Path(path)
        try:
            file.write_text(page.render(self), encoding="utf-8")
        except OSError as error:
            fix = "choose a file that can be written"
            raise ProfileFileError(f"{file}: {error.strerror or error}", fix=fix) from None
        return file
