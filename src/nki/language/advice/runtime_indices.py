"""Advice on slices and items that a register or a scalar would choose, which have no value at compile time."""

from __future__ import annotations

import ast
import copy
from typing import Any

from nki.base.errors import NkiError, RegisterUseError
from nki.frontend.site import Site
from nki.ir.loop import VirtualRegister
from nki.ir.scalars import NkiScalar

_TRIED = (0, 1, 5)
"""Numbers in place of run-time values: a slice that has one size for all of them has it for any."""


def advise_runtime_index(_: Exception, site: Site) -> NkiError | None:
    """``x[i * 32 : (i + 1) * 32]`` and ``tiles[i]`` where ``i`` counts a loop on the device."""
    return _item(site) or _slices(site)


def _item(site: Site) -> NkiError | None:
    """An item of Python's list, which is chosen while the kernel is compiled."""
    if not isinstance(site.node, ast.Subscript):
        return None
    owner: object
    owner, index = site.value(site.node.value), site.value(site.node.slice)
    kind: type[Any] = type(owner)
    if kind not in (list, tuple) or not isinstance(index, VirtualRegister):
        return None
    text = ast.unparse(site.node.value)
    return RegisterUseError(
        f"`{ast.unparse(site.node)}`: an item of a {kind.__name__} is chosen when the kernel is compiled, and "
        f"`{ast.unparse(site.node.slice)}` has its value when it runs",
        fix=f"keep the parts of `{text}` in one tensor and index that; or unroll the loop: `for i in range(…)`",
    )


def _slices(site: Site) -> NkiError | None:
    """The statement with ``nl.ds(start, size)`` for each slice of fixed size at a run-time start."""
    whole: ast.AST = site.statement
    if hasattr(whole, "body"):  # of a block only the expression
        whole = site.node
    sized = _Sized(site)
    code = ast.unparse(sized.visit(copy.deepcopy(whole)))
    if not sized.first:
        return None
    advice = f"write `{code}`"
    if sized.computes:
        advice = f"count with nl.fori_loop, its bounds integers or scalars of nisa.scalar_load, and {advice}"
    return RegisterUseError(
        f"slice `{sized.first}`: its bounds exist only when the kernel runs, and a slice has its size before",
        fix=advice,
    )


class _Sized(ast.NodeTransformer):
    """Replaces slices; ``first`` is one of them as written, ``computes`` tells if a start computes with a register."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.first = ""
        self.computes = False

    def visit_Slice(self, node: ast.Slice) -> ast.AST:
        late = _runtime_names(self.site, node)
        size = _size(self.site, node, late) if late and node.step is None else None
        if size is None or node.lower is None:
            return node
        self.first = self.first or ast.unparse(node)
        registers = any(not isinstance(value, NkiScalar) for value in late.values())
        self.computes = self.computes or (registers and not isinstance(node.lower, ast.Name))
        ds = ast.Attribute(ast.Name(self.site.module("nki.language", "nl"), ast.Load()), "ds", ast.Load())
        return ast.Call(ds, [node.lower, ast.Constant(size)], [])


def _runtime_names(site: Site, node: ast.AST) -> dict[str, Any]:
    names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    values = {name: site.variables.get(name) for name in names}
    return {name: value for name, value in values.items() if isinstance(value, VirtualRegister)}


def _size(site: Site, node: ast.Slice, late: dict[str, Any]) -> int | None:
    """The number of elements of a slice, if it is the same for all values of ``late``."""
    sizes: set[Any] = set()
    if node.lower is None or node.upper is None:
        return None
    for number in _TRIED:
        numbers = {name: number * 7**k + k for k, name in enumerate(late)}  # no two move together
        tried = Site(node, site.statement, {**site.variables, **numbers}, site.file)
        start, stop = tried.value(node.lower), tried.value(node.upper)
        sizes.add(stop - start if type(start) is type(stop) is int else None)
    size = sizes.pop()
    return size if not sizes and size is not None and size > 0 else None


__all__ = ["advise_runtime_index"]
