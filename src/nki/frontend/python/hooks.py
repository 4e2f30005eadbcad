"""Hooks behind ``in``, ``with`` blocks, ``except`` clauses and newer Python in rewritten code.

An error of the compiler (``NkiError``) ends the compilation: ``except Exception`` does not catch it, nor does a context
manager. Only a clause that names a class of NKI's errors does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from nki.base.errors import NkiError
from nki.base.source import Span
from nki.base.warning import NkiPortabilityWarning, warn_at
from nki.frontend.builder import current
from nki.ir.recorder import is_recording
from nki.ir.types import Access, access_of

Invoke = Callable[..., Any]
"""Calls a function as a kernel does: ``nki.frontend.inlining.Inliner.invoke``."""


class Managed:
    """A context manager in a kernel: its methods run as other functions of the kernel do."""

    __slots__ = ("invoke", "manager")

    def __init__(self, invoke: Invoke, manager: Any) -> None:
        self.invoke = invoke
        self.manager = manager

    def __enter__(self) -> Any:
        return self.invoke(_method(self.manager, "__enter__"), self.manager)

    def __exit__(self, kind: object, error: object, traceback: object) -> bool:
        swallows = self.invoke(_method(self.manager, "__exit__"), self.manager, kind, error, traceback)
        return bool(swallows) and not isinstance(error, NkiError)


def _method(manager: Any, name: str) -> Any:
    kind = cast("type[Any]", type(manager))
    if not (hasattr(kind, "__enter__") and hasattr(kind, "__exit__")):  # Python wants both before it enters
        raise TypeError(f"'{kind.__name__}' object does not support the context manager protocol")
    return getattr(kind, name)


class Listed(list[Any]):
    """A list that equals a tuple of the same items."""

    __hash__ = None

    def __eq__(self, other: object) -> bool:
        return super().__eq__(list(cast("tuple[Any, ...]", other)) if isinstance(other, tuple) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other


def listed_hook(_: object) -> Callable[[list[Any]], list[Any]]:
    """The hook of a release without a difference between lists and tuples, around a list that is compared."""
    return Listed


def contains(value: Any, container: Any) -> bool:
    """``value in container``: a tensor is in a list or a tuple by identity, since tensors have no ``==``."""
    if isinstance(container, list | tuple) and isinstance(access_of(value), Access):
        return any(value is item for item in cast("list[Any]", container))
    return value in container


def warn_reached(message: str, file: str, line: int, column: int, end_column: int, function: str) -> bool:
    """Warn of newer Python that is about to run, once for each kernel that is recorded; always True."""
    place = (file, line, column, end_column)
    if is_recording():
        warned = current("a kernel").warned
        if (place, message) in warned:
            return True
        warned.add((place, message))
    warn_at(Span(file, line, column, end_column, function), message, NkiPortabilityWarning)
    return True


__all__ = ["Managed", "contains", "warn_reached"]
