"""Index tiles and masks of NKI Beta 1 as formulas: a base and variables, each with step, size and axis."""

from __future__ import annotations

import ast
import re
import zlib
from dataclasses import dataclass, field


class UnknownFormError(Exception):
    """The source does not tell what to write."""


@dataclass(frozen=True, slots=True)
class Variable:
    """One axis of an index tile: it runs from 0 to ``size`` along ``axis``, which counts from the last one, -1.

    ``name`` tells variables of one size and axis apart, by the place that made them.
    """

    name: str
    size: str
    axis: int


@dataclass(frozen=True, slots=True)
class Index:
    """``text + number`` plus each variable times its step; ``text`` is code, "" for 0."""

    text: str = ""
    number: int = 0
    steps: dict[Variable, str] = field(default_factory=dict[Variable, str])
    ndim: int = 0

    @property
    def base(self) -> str:
        """The index where all variables are 0, as code."""
        return plus(self.text, str(self.number))

    @property
    def variable(self) -> Variable | None:
        """The only variable, if there is one."""
        return next(iter(self.steps)) if len(self.steps) == 1 else None

    def plus(self, other: Index, sign: int = 1) -> Index:
        """The sum with ``other``, or the difference."""
        steps = dict(self.steps)
        for variable, step in other.steps.items():
            steps[variable] = plus(steps.get(variable, "0"), step if sign > 0 else times("-1", step))
        steps = {variable: step for variable, step in steps.items() if step != "0"}
        if self.text and self.text == other.text and sign < 0:
            text = ""
        else:
            text = plus(self.text, other.text) if sign > 0 else minus(self.text, other.text)
        return Index(text, self.number + sign * other.number, steps, max(self.ndim, other.ndim))

    def times(self, factor: str) -> Index:
        """The product with code that has no variable."""
        steps = {variable: times(step, factor) for variable, step in self.steps.items()}
        if _is_number(factor):
            text = times(self.text, factor) if self.text else ""
            return Index(text, self.number * int(factor), steps, self.ndim)
        text = times(self.base, factor)
        return Index("" if text == "0" else text, 0, steps, self.ndim)


@dataclass(frozen=True, slots=True)
class Comparison:
    """``index OP 0``, with ``<``, ``<=``, ``>``, ``>=`` or ``==`` and ``!=``; ``text`` is the user's code."""

    left: Index
    op: type[ast.cmpop]
    right: Index
    text: str

    @property
    def difference(self) -> Index:
        """The left side minus the right one."""
        return self.left.plus(self.right, -1)


Mask = tuple[Comparison, ...]
"""Comparisons of which all hold."""


@dataclass(slots=True)
class Bounds:
    """The limits that a mask sets: by variable the first index and the one behind the last, each as the base of the
    index that was compared and the limit of that index.
    """

    lower: dict[Variable, tuple[str, str]] = field(default_factory=dict[Variable, tuple[str, str]])
    upper: dict[Variable, tuple[str, str]] = field(default_factory=dict[Variable, tuple[str, str]])
    conditions: list[str] = field(default_factory=list[str])
    """Comparisons without a variable, as code."""
    several: list[Comparison] = field(default_factory=list[Comparison])
    """Comparisons that no slice can express."""


_MIRRORED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.Gt,
    ast.LtE: ast.GtE,
    ast.Gt: ast.Lt,
    ast.GtE: ast.LtE,
    ast.Eq: ast.Eq,
    ast.NotEq: ast.NotEq,
}


def bounds_of(mask: Mask) -> Bounds:
    """The limits of each variable."""
    bounds = Bounds()
    for part in mask:
        left, op, right = part.left, part.op, part.right
        if not left.steps:
            left, op, right = right, _MIRRORED[op], left
        variable = left.variable
        if not left.steps:
            bounds.conditions.append(part.text)
        elif right.steps or variable is None or left.steps[variable] != "1" or op is ast.NotEq:
            bounds.several.append(part)
        else:
            limit = right.base
            if op in (ast.Lt, ast.LtE, ast.Eq) and variable not in bounds.upper:
                bounds.upper[variable] = (left.base, limit if op is ast.Lt else plus(limit, "1"))
            elif op is not ast.Gt and op is not ast.GtE:
                bounds.several.append(part)
            if op in (ast.Gt, ast.GtE, ast.Eq):
                bounds.lower[variable] = (left.base, plus(limit, "1") if op is ast.Gt else limit)
    return bounds


def sliced(index: Index, bounds: Bounds) -> str | None:
    """The slice that an index of one variable is within ``bounds``; None for other indices."""
    variable = index.variable
    if variable is None:
        return None
    step, base = index.steps[variable], index.base
    limited = variable in bounds.lower or variable in bounds.upper
    if step.startswith("-") or (step != "1" and limited):
        return None
    start = _start(base, bounds.lower.get(variable))
    if step != "1":
        return f"{start}:{plus(base, plus(times(step, minus(variable.size, '1')), '1'))}:{step}"
    return f"{start}:{_stop(base, variable.size, bounds.upper.get(variable))}"


def extent(variable: Variable, bounds: Bounds) -> str | None:
    """The number of elements along a variable within ``bounds``; None where they cut its beginning off."""
    if variable in bounds.lower:
        return None
    if variable not in bounds.upper:
        return variable.size
    compared, limit = bounds.upper[variable]
    return smallest(variable.size, minus(limit, compared))


def _start(base: str, lower: tuple[str, str] | None) -> str:
    if lower is None:
        return base
    compared, limit = lower
    if compared == base:
        return limit if base == "0" and _is_number(limit) else largest(base, limit)
    return plus(base, largest("0", minus(limit, compared)))


def _stop(base: str, size: str, upper: tuple[str, str] | None) -> str:
    if upper is None:
        return plus(base, size)
    compared, limit = upper
    if compared == base:
        return smallest(plus(base, size), limit)
    return plus(base, smallest(size, minus(limit, compared)))


def smallest(one: str, other: str) -> str:
    """``min`` of two pieces of code."""
    if _is_number(one) and _is_number(other):
        return str(min(int(one), int(other)))
    return one if one == other else f"min({one}, {other})"


def largest(one: str, other: str) -> str:
    """``max`` of two pieces of code."""
    if _is_number(one) and _is_number(other):
        return str(max(int(one), int(other)))
    return one if one == other else f"max({one}, {other})"


def plus(one: str, other: str) -> str:
    """The sum of two pieces of code, with numbers at the end added up."""
    if one in ("", "0"):
        return other or "0"
    if other in ("", "0"):
        return one
    if _is_number(one) and _is_number(other):
        return str(int(one) + int(other))
    if _is_number(one):
        one, other = other, one
    if _is_number(other):
        head, number = _tail(one)
        total = number + int(other)
        if head == "" or total == 0:
            return head or str(total)
        return f"{head} + {total}" if total > 0 else f"{head} - {-total}"
    return f"{one} - {other[1:]}" if other.startswith("-") and _is_atom(other[1:]) else f"{one} + {other}"


def minus(one: str, other: str) -> str:
    """The difference of two pieces of code."""
    if other in ("", "0"):
        return one or "0"
    if _is_number(other):
        return plus(one, str(-int(other)))
    if one in ("", "0"):
        return times("-1", other)
    return "0" if one == other else f"{one} - {other if _is_atom(other) or _is_product(other) else f'({other})'}"


def times(one: str, other: str) -> str:
    """The product of two pieces of code."""
    if _is_number(one) and _is_number(other):
        return str(int(one) * int(other))
    if "0" in (one, other):
        return "0"
    if one == "1":
        return other
    if other == "1":
        return one
    if one == "-1" or other == "-1":
        return f"-{_atom(other if one == '-1' else one)}"
    return f"{_factor(one)} * {_atom(other)}"


def same(one: str, other: str) -> bool:
    """True if two pieces of code have one value, whatever their names stand for: tried with three sets of numbers."""
    return all(_tried(one, seed) == _tried(other, seed) is not None for seed in (1, 2, 3))


def _tried(text: str, seed: int) -> int | None:
    """The value of code with a number for each name; None for code other than ``+``, ``-`` and ``*``."""
    match ast.parse(text, mode="eval").body:
        case ast.Constant(value=int(number)):
            return number
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() as op, right=right):
            one, other = _tried(ast.unparse(left), seed), _tried(ast.unparse(right), seed)
            if one is None or other is None:
                return None
            return one * other if isinstance(op, ast.Mult) else one + (other if isinstance(op, ast.Add) else -other)
        case ast.Name() | ast.Attribute() | ast.Subscript():
            return zlib.crc32(f"{seed} {text}".encode())
        case _:
            return None


def _is_number(text: str) -> bool:
    return re.fullmatch(r"-?\d+", text) is not None


def _tail(text: str) -> tuple[str, int]:
    """Code without the number that is added at its end, and that number."""
    tree = ast.parse(text, mode="eval").body
    match tree:
        case ast.Constant(value=int(number)):
            return "", number
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as op, right=ast.Constant(value=int(number))):
            return ast.unparse(left), number if isinstance(op, ast.Add) else -number
        case _:
            return text, 0


def _is_atom(text: str) -> bool:
    return isinstance(
        ast.parse(text, mode="eval").body, ast.Name | ast.Constant | ast.Attribute | ast.Subscript | ast.Call
    )


def _is_product(text: str) -> bool:
    tree = ast.parse(text, mode="eval").body
    return isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Mult | ast.FloorDiv | ast.Mod)


def _atom(text: str) -> str:
    return text if _is_atom(text) else f"({text})"


def _factor(text: str) -> str:
    tree = ast.parse(text, mode="eval").body
    product = isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Mult)
    return text if product else _atom(text)


__all__ = [
    "Bounds",
    "Comparison",
    "Index",
    "Mask",
    "UnknownFormError",
    "Variable",
    "bounds_of",
    "extent",
    "minus",
    "plus",
    "same",
    "sliced",
    "times",
]
