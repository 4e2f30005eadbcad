"""Is this Python NKI? One row per syntax tree node says yes or which error."""

from __future__ import annotations

from nki.frontend.capture import Captured


def check(captured: Captured, *, kernel: bool = True) -> Captured:
    return captured
