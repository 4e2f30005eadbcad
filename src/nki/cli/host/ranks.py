"""The number of dimensions of a kernel's parameters, and the kernel's own names of them, as its source shows them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from nki.frontend.capture import Captured

_BASE: Final = (128, 512)
"""A shape of two dimensions; those in front of them have two elements."""
_TILE: Final = 2
"""Dimensions that a tile on chip has at least."""
_LOADS: Final = frozenset({"load", "load_transpose2d"})


@dataclass(slots=True)
class Dimensions:
    """The dimensions of one parameter, where the source tells them.

    ``exactly`` is its number of dimensions, 0 if no statement tells it; ``least`` a number that it has at least;
    ``names`` the names of the sizes, empty if the kernel has none.
    """

    exactly: int = 0
    least: int = 0
    names: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """The number of dimensions: told, or two, or as many as the source needs."""
        return self.exactly or max(_TILE, self.least)

    def shape(self, base: tuple[int, int] = _BASE) -> tuple[int, ...]:
        """A shape of that many dimensions; the last two are ``base``."""
        return (2,) * (self.count - len(base)) + base if self.count >= len(base) else base[-self.count :]


def dimensions(captured: Captured, names: list[str]) -> dict[str, Dimensions]:
    """The dimensions of the parameters ``names``.

    ``b, h, d = x.shape`` and ``x.ndim == 3`` tell their number; an index of several dimensions, ``x.shape[2]`` and a
    tile that ``nl.load`` takes, which has two dimensions, tell how many there are at least.
    """
    known = {name: Dimensions() for name in names}
    counters = {n.id for loop in ast.walk(captured.node) if isinstance(loop, ast.For) for n in _names(loop.target)}
    for node in ast.walk(captured.node):
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Attribute(attr="shape") as shape):
                if (one := _of(shape, known)) and not any(isinstance(t, ast.Starred) for t in targets):
                    one.exactly, one.names = len(targets), tuple(t.id for t in targets if isinstance(t, ast.Name))
            case ast.Compare(left=left, ops=[ast.Eq()], comparators=[ast.Constant(value=int(count))]):
                if (one := _counted(left, known)) and not one.exactly and 0 < count < 9:
                    one.exactly = count
            case ast.Subscript(value=ast.Attribute(attr="shape") as shape, slice=index):
                if one := _of(shape, known):
                    one.least = max(one.least, _position(index))
            case ast.Subscript(value=ast.Name(id=name), slice=index) if name in known:
                known[name].least = max(known[name].least, _indexed(index, counters)[0])
            case ast.Call(
                func=ast.Attribute(attr=attr), args=[ast.Subscript(value=ast.Name(id=name), slice=index), *_]
            ):
                if name in known and attr in _LOADS:
                    known[name].least = max(known[name].least, _indexed(index, counters)[1] + _TILE)
            case _:
                pass
    return known


def as_text(shape: tuple[int, ...]) -> str:
    """A shape as the options of the command write it."""
    return "x".join(map(str, shape))


def _names(node: ast.AST) -> Iterator[ast.Name]:
    return (n for n in ast.walk(node) if isinstance(n, ast.Name))


def _of(shape: ast.Attribute, known: dict[str, Dimensions]) -> Dimensions | None:
    return known.get(shape.value.id) if isinstance(shape.value, ast.Name) else None


def _counted(node: ast.expr, known: dict[str, Dimensions]) -> Dimensions | None:
    """The parameter with ``node``, ``x.ndim`` or ``len(x.shape)``, as its number of dimensions."""
    match node:
        case ast.Attribute(value=ast.Name(id=name), attr="ndim"):
            return known.get(name)
        case ast.Call(func=ast.Name(id="len"), args=[ast.Attribute(attr="shape") as shape]):
            return _of(shape, known)
        case _:
            return None


def _position(index: ast.expr) -> int:
    """The dimensions that exist if the number ``index`` names one."""
    match index:
        case ast.Constant(value=int(number)):
            return number + 1
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(number))):
            return number
        case _:
            return 0


def _indexed(index: ast.expr, counters: set[str]) -> tuple[int, int]:
    """The dimensions that an index names, and the ones that it removes: by a number, or by a loop's counter."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    removed = sum(_is_number(part, counters) for part in parts)
    named = sum(not (isinstance(part, ast.Constant) and part.value in (None, ...)) for part in parts)
    return (named, removed) if len(parts) > 1 or removed else (0, 0)


def _is_number(part: ast.expr, counters: set[str]) -> bool:
    match part:
        case ast.Constant(value=int()):
            return True
        case ast.Name(id=name):
            return name in counters
        case ast.BinOp(left=left, right=right):
            return _is_number(left, counters) and _is_number(right, counters)
        case _:
            return False


__all__ = ["Dimensions", "as_text", "dimensions"]
