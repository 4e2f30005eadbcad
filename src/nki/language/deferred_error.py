"""Deferred errors of views: a kernel often makes a view before it asks if there is work, and then does not use it."""

from __future__ import annotations

from typing import Any, NoReturn

from nki.base.errors import NkiError
from nki.base.source import here
from nki.ir.types import Access


def defer_error(view: Access, problem: NkiError) -> Access:
    """A view like ``view`` that raises ``problem``, located at the present line, when an instruction uses it."""
    where = here()
    located = problem.at(where.span, where.stack)

    def form(_: Access) -> NoReturn:
        raise located

    members: dict[str, Any] = {"__slots__": (), "form": property(form)}
    kind: Any = type(view.__class__.__name__, (view.__class__,), members)  # views of it are made with its class
    return kind(view.tensor, view.offset, view.shape, view.strides, view.dtype, view.dynamic)


__all__ = ["defer_error"]
