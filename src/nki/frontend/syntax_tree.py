"""The nodes of a syntax tree, without those that only mark another one: whether a name is read, which operator it is.

Kernels of libraries have some ten thousand nodes, and several walks look at each. ``ast.walk`` gives a mark for each
name beside it, and looks at fields that hold text.
"""

from __future__ import annotations

import ast
from typing import Any, cast

_TEXTS = frozenset({"arg", "attr", "conversion", "ctx", "id", "kind", "module", "op", "ops", "simple", "type_comment"})
"""Fields that hold no node, or a mark, in every kind of node."""
_fields: dict[type[ast.AST], tuple[str, ...]] = {ast.Constant: ()}


def fields_of(node: ast.AST) -> tuple[str, ...]:
    """The names of the fields of ``node`` that may hold nodes, in order."""
    kind = node.__class__
    found = _fields.get(kind)
    if found is None:
        found = _fields[kind] = tuple([name for name in kind._fields if name not in _TEXTS])
    return found


def children(node: ast.AST) -> list[ast.AST]:
    """The nodes right below ``node``, in order."""
    below: list[ast.AST] = []
    values: dict[str, Any] = node.__dict__
    for name in fields_of(node):
        value = values.get(name)
        if isinstance(value, list):
            below += [part for part in cast("list[object]", value) if isinstance(part, ast.AST)]
        elif isinstance(value, ast.AST):
            below.append(value)
    return below


def walk(node: ast.AST) -> list[ast.AST]:
    """``node`` and all nodes below it, one level after the other."""
    nodes = [node]
    for each in nodes:  # which grows
        nodes += children(each)
    return nodes
