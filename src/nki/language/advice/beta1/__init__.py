"""Advice on Beta 1 in kernels of today; what writes it is loaded when an error asks for it."""

from __future__ import annotations

import ast
from typing import Any

from nki.base.locks import imported
from nki.frontend.site import Site


def advise_removed(captured: Any, node: ast.AST) -> str:
    """The exact rewrite of the statement around ``node``, which is of Beta 1; "" if the source does not tell."""
    return _fixes().advise_removed(captured, node)


def advise_at(site: Site) -> str:
    """The fix for the statement of a failed site, from the values of its names; "" if it holds nothing of Beta 1."""
    return _fixes().advise_at(site)


def _fixes() -> Any:
    return imported("nki.language.advice.beta1.fixes")


__all__ = ["advise_at", "advise_removed"]
