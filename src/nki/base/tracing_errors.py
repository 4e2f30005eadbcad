"""Errors of programs that a framework traces, where a kernel cannot be a part of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from nki.base.errors import NkiError


class FixedShapeError(NkiError):
    """A trace that leaves a size of a kernel's tensor open. A kernel is compiled for numbers."""

    code = "NKI-FW040"


class ScriptError(NkiError):
    """A kernel in source that ``torch.jit.script`` compiles, which knows no kernels."""

    code = "NKI-FW041"


def _refuse(callee: Any) -> None:
    raise ScriptError(
        f"torch.jit.script compiles Python source, and {callee!r} is no part of its language",
        fix="use torch.jit.trace, torch.export or torch.compile, which record the call",
    )


class Unscriptable:
    """A base of callables that ``torch.jit.script`` must refuse, instead of a Python call that it cannot type or save.

    It, and nothing else, reads these attributes of what a function calls.
    """

    _torchscript_modifier = property(_refuse)
    __prepare_scriptable__ = property(_refuse)

    def __dir__(self) -> Iterable[str]:
        return sorted(set(super().__dir__()) - {"_torchscript_modifier", "__prepare_scriptable__"})
