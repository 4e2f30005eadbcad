"""Index tiles of NKI Beta 1 in a kernel of today: the slices that they are, with the user's names and bounds.

``nl.arange(128)[:, None]`` and ``nl.mgrid[0:128, 0:512]`` are followed through assignments and sums. A subscript with
such an index becomes a slice; a mask that bounds the index ends the slice at ``min(…)``.
"""

from __future__ import annotations

import ast
import copy
from dataclasses import dataclass
from typing import Any, Final

_NAMES: Final = ("arange", "mgrid", "mask", "par_dim")


@dataclass(frozen=True, slots=True)
class _Index:
    """``base`` (source text, "" for 0) plus a variable from 0 to ``size``; a plain number has no size."""

    base: str = ""
    size: str = ""

    def plus(self, other: _Index) -> _Index | None:
        if self.size and other.size:
            return None
        return _Index(" + ".join(part for part in (self.base, other.base) if part), self.size or other.size)

    def slice(self, stops: dict[str, str]) -> str:
        """The slice; ``stops`` are the bounds of masks by the text of the index that they bound."""
        stop = self.size if not self.base else f"{self.base} + {self.size}"
        limit = stops.get(f"{self.base}|{self.size}")
        return f"{self.base or '0'}:{f'min({stop}, {limit})' if limit else stop}"


class _Values(ast.NodeVisitor):
    """The indices that the names of a function stand for, in the order of its lines."""

    def __init__(self) -> None:
        self.names: dict[str, _Index] = {}
        self.masks: dict[str, ast.expr] = {}

    def visit_Assign(self, node: ast.Assign) -> None:
        target = node.targets[0]
        match target, node.value:
            case ast.Name(id=name), value:
                index = self.index(value)
                if index is not None and index.size:
                    self.names[name] = index
                elif isinstance(value, ast.Compare | ast.BinOp) and self._mentions(value):
                    self.masks[name] = value
            case ast.Tuple(elts=names), ast.Subscript(value=ast.Attribute(attr="mgrid"), slice=inside):
                parts = inside.elts if isinstance(inside, ast.Tuple) else [inside]
                for name, part in zip(names, parts, strict=False):
                    if isinstance(name, ast.Name) and isinstance(part, ast.Slice) and part.upper is not None:
                        low = _text(part.lower) if part.lower is not None else "0"
                        size = _text(part.upper) if low == "0" else f"{_text(part.upper)} - {low}"
                        self.names[name.id] = _Index("" if low == "0" else low, size)
            case _:
                pass

    def _mentions(self, node: ast.AST) -> bool:
        return any(isinstance(part, ast.Name) and part.id in self.names for part in ast.walk(node))

    def index(self, node: ast.expr) -> _Index | None:
        """The index that an expression is; None if it is none, or one of several variables."""
        match node:
            case ast.Name(id=name) if name in self.names:
                return self.names[name]
            case ast.Subscript(value=ast.Call(func=ast.Attribute(attr="arange"), args=[size])):
                return _Index("", _text(size))
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                one, other = self.index(left), self.index(right)
                return one.plus(other) if one is not None and other is not None else None
            case _:
                if self._mentions(node) or any(
                    isinstance(n, ast.Attribute) and n.attr in _NAMES for n in ast.walk(node)
                ):
                    return None
                return _Index("" if _text(node) == "0" else _text(node))

    def stops(self, mask: ast.expr | None) -> dict[str, str]:
        """The bounds of a mask by index."""
        match mask:
            case ast.Name(id=name) if name in self.masks:
                return self.stops(self.masks[name])
            case ast.BinOp(left=left, op=ast.BitAnd(), right=right):
                return self.stops(left) | self.stops(right)
            case ast.Compare(left=left, ops=[ast.Lt() | ast.LtE() as op], comparators=[limit]):
                index = self.index(left)
                if index is None or not index.size or self._mentions(limit):
                    return {}
                text = _text(limit) if isinstance(op, ast.Lt) else f"{_text(limit)} + 1"
                return {f"{index.base}|{index.size}": text}
            case _:
                return {}


class _Sliced(ast.NodeTransformer):
    """Replaces index tiles by slices, and leaves masks out."""

    def __init__(self, values: _Values) -> None:
        self.values = values
        self.stops: dict[str, str] = {}

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        return self._statement(node)

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        return self._statement(node)

    def _statement(self, node: ast.Assign | ast.Expr) -> ast.AST:
        """A statement, with the bounds of its call for the subscripts on both sides."""
        if isinstance(node.value, ast.Call):
            self.stops = self.values.stops(_mask(node.value))
        result = self.generic_visit(node)
        self.stops = {}
        return result

    def visit_Call(self, node: ast.Call) -> ast.AST:
        before, mask = self.stops, _mask(node)
        if mask is not None:
            self.stops = self.values.stops(mask)
        node.keywords = [k for k in node.keywords if k.arg != "mask" or not self.stops]
        self.generic_visit(node)
        self.stops = before
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        keys = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        indices = [None if isinstance(key, ast.Slice) else self.values.index(key) for key in keys]
        if not any(index is not None and index.size for index in indices):
            return self.generic_visit(node)
        texts = [
            index.slice(self.stops) if index is not None and index.size else _text(key)
            for key, index in zip(keys, indices, strict=True)
        ]
        parsed: Any = ast.parse(f"_[{', '.join(texts)}]", mode="eval").body
        return ast.Subscript(node.value, parsed.slice, node.ctx)


def _mask(call: ast.Call) -> ast.expr | None:
    return next((k.value for k in call.keywords if k.arg == "mask"), None)


def _text(node: ast.AST) -> str:
    return ast.unparse(node)


def _before(function: ast.AST, line: int) -> _Values:
    """The indices that names hold in front of ``line``."""
    values = _Values()
    for node in sorted((n for n in ast.walk(function) if isinstance(n, ast.Assign)), key=lambda n: n.lineno):
        if node.lineno < line:
            values.visit_Assign(node)
    return values


def sliced(function: ast.AST, node: Any) -> Any:
    """A copy of a statement or call of ``function`` with slices in place of index tiles."""
    values = _before(function, getattr(node, "lineno", 1))
    result: Any = _Sliced(values).visit(copy.deepcopy(node))
    return ast.fix_missing_locations(result)


def advise_index(function: ast.AST, node: ast.AST) -> str:
    """The fix for ``nl.arange``, ``nl.mgrid`` and ``mask=`` at ``node``: the statement that uses it; "" if unknown."""
    line = getattr(node, "lineno", 0)
    statements = [n for n in ast.walk(function) if isinstance(n, ast.Assign | ast.Expr)]
    own = next((n for n in statements if any(part is node for part in ast.walk(n))), None)
    if own is None:
        return ""
    if isinstance(node, ast.keyword):
        return _rewritten(function, own)
    names = {n.id for n in ast.walk(own) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    for user in sorted(statements, key=lambda n: n.lineno):
        used = {n.id for n in ast.walk(user) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
        subscripts = [n for n in ast.walk(user) if isinstance(n, ast.Subscript)]
        if user.lineno > line and names & used and subscripts:
            text = _rewritten(function, user)
            if text:
                return f"in line {user.lineno} {text}"
    return ""


def _rewritten(function: ast.AST, statement: ast.Assign | ast.Expr) -> str:
    """A statement with slices, as an instruction where it assigns to a part of a tensor."""
    new = sliced(function, statement)
    values = _before(function, statement.lineno)
    left = {n.id for n in ast.walk(new) if isinstance(n, ast.Name)} & {*values.names, *values.masks}
    if (
        left
        or ast.dump(new) == ast.dump(statement)
        or any(isinstance(n, ast.keyword) and n.arg == "mask" for n in ast.walk(new))
    ):
        return ""
    match new:
        case ast.Assign(
            targets=[ast.Subscript() as target], value=ast.Call(func=ast.Attribute(attr="load", value=nl), args=[src])
        ):
            nisa = "nisa" if _text(nl) == "nl" else "nki.isa"
            return f"write `{nisa}.dma_copy(dst={_text(target)}, src={_text(src)})`"
        case ast.Assign(value=ast.Call(func=ast.Attribute(value=ast.Name(id="nisa")))):
            return ""  # the call of an instruction has a fix of its own
        case _:
            return f"write `{_text(new)}`"


def advise_partitions(function: ast.AST, node: ast.AST) -> str:
    """The fix for ``nl.par_dim(128)`` and ``par_dim(128)``: the allocation without it; "" if it is no allocation."""
    for statement in ast.walk(function):
        if isinstance(statement, ast.Assign) and any(part is node for part in ast.walk(statement)):
            break
    else:
        return ""
    new = _WithoutPartitions()
    changed: Any = new.visit(copy.deepcopy(statement))
    text = _text(ast.fix_missing_locations(changed))
    if new.position:
        value, blocks = changed.value, new.blocks
        text = _text(value)
        for size in reversed(blocks):
            text = f"[{text} for _ in range({size})]"
        text = f"{_text(changed.targets[0])} = {text}"
        return f"make block dimensions a list of tensors, `{text}`, or move them behind the first"
    return f"write `{text}`" if new.position is not None else ""


class _WithoutPartitions(ast.NodeTransformer):
    """Puts the size in place of ``par_dim(size)``; dimensions before it go to ``blocks``."""

    def __init__(self) -> None:
        self.position: int | None = None
        self.blocks: list[str] = []

    def visit_Tuple(self, node: ast.Tuple) -> ast.AST:
        for position, part in enumerate(node.elts):
            match part:
                case ast.Call(func=ast.Name(id="par_dim") | ast.Attribute(attr="par_dim"), args=[size]):
                    self.position = position
                    self.blocks = [_text(each) for each in node.elts[:position]]
                    return replace_elements(node, [size, *node.elts[position + 1 :]])
                case _:
                    pass
        return self.generic_visit(node)


def replace_elements(node: ast.Tuple, elements: list[ast.expr]) -> ast.Tuple:
    """The tuple with other elements."""
    return ast.copy_location(ast.Tuple(elements, node.ctx), node)


def advise_removed(function: ast.AST, node: ast.AST, name: str) -> str:
    """The exact rewrite for a name or keyword of Beta 1 in ``function``; "" where only the general text is known."""
    match name:
        case "arange" | "mgrid" | "mask":
            return advise_index(function, node)
        case "par_dim":
            return advise_partitions(function, node)
        case _:
            return ""


__all__ = ["advise_removed", "sliced"]
