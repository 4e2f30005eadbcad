"""The frontends of NKI's compiler as objects. Open NKI has one frontend; these name the choice and carry nothing."""

from __future__ import annotations

from typing import Any


class Frontend:
    """A frontend that a harness passes on. ``enable_backend_opt`` is for the vendor's compiler."""

    def __init__(self, *, enable_backend_opt: bool = True, **_: Any) -> None:
        self.enable_backend_opt = enable_backend_opt


class ParserFrontend(Frontend):
    """The frontend up to NKI 0.6, which reads the syntax of a kernel."""


class TracerFrontend(Frontend):
    """The frontend of NKI 0.7, which runs a kernel."""


def resolve_frontend_cls() -> type[Frontend]:
    """The frontend in use: here the one name stands for the other, since both end in the same checks and programs."""
    return TracerFrontend
