"""Values of tensors and registers as text, for ``print`` in a kernel that runs eagerly."""

from __future__ import annotations

import threading
from collections.abc import Callable

from nki.ir.types import Access


class _Viewers(threading.local):
    def __init__(self) -> None:
        self.stack: list[Callable[[Access], str]] = []


_viewers = _Viewers()


def values(tensor: Access) -> str:
    """The contents of ``tensor`` as text while this thread's eager simulator runs, else nothing."""
    return _viewers.stack[-1](tensor) if _viewers.stack else ""


class showing:  # noqa: N801  # reads as a word: with showing(viewer)
    """Context manager: ``viewer`` shows the values of tensors that this thread prints."""

    def __init__(self, viewer: Callable[[Access], str]) -> None:
        self.viewer = viewer

    def __enter__(self) -> None:
        _viewers.stack.append(self.viewer)

    def __exit__(self, *exc: object) -> None:
        _viewers.stack.pop()
