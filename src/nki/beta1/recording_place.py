"""The place at which results are recorded that waited for their destination."""

from __future__ import annotations

from nki.base.errors import NkiError
from nki.base.source import Where
from nki.frontend.builder import current


class recorded_at:  # noqa: N801  # reads as a word
    """Context manager: instructions are recorded, and errors placed, at ``where``."""

    def __init__(self, where: Where) -> None:
        self.where = where

    def __enter__(self) -> None:
        builder = current("a function of NKI")
        self.builder, self.before = builder, builder.at
        builder.at = self.where

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self.builder.at = self.before
        if isinstance(error, NkiError):
            error.is_late = error.span is None
            error.at(self.where.span, self.where.stack)


__all__ = ["recorded_at"]
