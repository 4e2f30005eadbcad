"""Numbers instead of a finite field: the formulas of a traced function in float64, to be compared with the framework.

What is unknown to a proof, such as sin or the order of a row, is computed here by NumPy, under the name that the proof
has for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from nki.proofs import executor, reals
from nki.proofs.field import FIELDS
from nki.proofs.reals import Reals
from nki.proofs.symbols import Symbols
from nki.proofs.traced import elements, folds

Array = np.ndarray

ODD = {
    "sin": np.sin,
    "arctan": np.arctan,
    "arcsin": np.arcsin,
    "arcsinh": np.arcsinh,
    "arctanh": np.arctanh,
    "cbrt": np.cbrt,
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
}
UNKNOWN = {
    "floor": np.floor,
    "ceil": np.ceil,
    "rounding to an integer": np.rint,
    "truncation to an integer": np.trunc,
    "mod": np.mod,
    "fmod": np.fmod,
    "arctan2": np.arctan2,
    "arccos": np.arccos,
    "arccosh": np.arccosh,
    "copysign": np.copysign,
    "lgamma": np.vectorize(math.lgamma),
}


class Floats(Reals):
    """The operations of :class:`Reals` on float64, which stand where residues do."""

    def __init__(self) -> None:
        super().__init__(FIELDS[0], 1)

    def of(self, array: Array, is_whole: bool = False) -> Symbols:
        return Symbols(np.asarray(array, np.float64), None, None, is_whole)

    def constant(self, numbers: Array) -> Symbols:
        return self.of(numbers, bool((np.asarray(numbers) == np.rint(numbers)).all()))

    def words(self, value: Symbols) -> Array:
        return np.ascontiguousarray(value.residues + 0.0).view(np.uint64)

    def with_residues(self, value: Symbols) -> Symbols:
        return value

    def add(self, left: Symbols, right: Symbols) -> Symbols:
        return self.of(left.residues + right.residues, left.is_whole and right.is_whole)

    def negative(self, value: Symbols) -> Symbols:
        return self.of(-value.residues, value.is_whole)

    def multiply(self, left: Symbols, right: Symbols) -> Symbols:
        return self.of(left.residues * right.residues, left.is_whole and right.is_whole)

    def scaled(self, value: Symbols, factors: Array) -> Symbols:
        return self.scale(value, factors)

    def scale(self, value: Symbols, factors: Array) -> Symbols:
        return self.of(value.residues * factors)

    def reciprocal(self, value: Symbols) -> Symbols:
        return self.of(1 / value.residues)

    def total(self, value: Symbols, axis: int) -> Symbols:
        return self.of(value.residues.sum(axis), value.is_whole)

    def matmul(self, left: Symbols, right: Symbols) -> Symbols:
        return self.of(left.residues @ right.residues, left.is_whole and right.is_whole)

    def exp(self, value: Symbols) -> Symbols:
        return self.of(np.exp(value.residues))

    def log(self, value: Symbols) -> Symbols:
        return self.of(np.log(value.residues))

    def sqrt(self, value: Symbols) -> Symbols:
        return self.of(np.sqrt(value.residues))

    def greatest(self, value: Symbols) -> Symbols:
        return self.of(value.residues.max(-1), value.is_whole)

    def ranked(self, value: Symbols, count: int) -> Symbols:
        return self.of(np.flip(np.sort(value.residues, -1), -1)[..., :count])

    def greater(self, left: Symbols, right: Symbols) -> Symbols:
        return self.of(left.residues > right.residues, True)

    def equal(self, left: Symbols, right: Symbols) -> Symbols:
        return self.of(left.residues == right.residues, True)

    def truth(self, value: Symbols) -> Symbols:
        return self.of(value.residues != 0, True)

    def both(self, left: Symbols, right: Symbols) -> Symbols:
        return self.of((left.residues != 0) & (right.residues != 0), True)

    def select(self, condition: Symbols, yes: Symbols, no: Symbols) -> Symbols:
        return self.of(np.where(condition.residues != 0, yes.residues, no.residues), yes.is_whole and no.is_whole)

    def odd(self, name: str, x: Symbols) -> Symbols:
        return self.of(ODD[name](x.residues))

    def unknown_function(self, name: str, *arguments: Symbols, salt: object = None) -> Symbols:
        parts = [each.residues for each in arguments]
        if name.startswith("bits: "):
            by_name = {
                "bits: invert": np.invert,
                "bits: left_shift": np.left_shift,
                "bits: right_shift": np.right_shift,
            }
            function = by_name.get(name) or getattr(np, name.removeprefix("bits: "))
            return self.of(function(*(part.astype(np.int64) for part in parts)), True)
        return self.of(UNKNOWN[name](*parts))

    def function_of_rows(self, name: str, value: Symbols, *places: Symbols) -> Symbols:
        row = value.residues
        where = places[0].residues.astype(np.int64)
        row = np.broadcast_to(row, (*where.shape[:-1], row.shape[-1]))
        if name == "the wanted":
            return replace(value)
        if name == "find, last first: False":
            equal = row[..., None, :] == places[0].residues[..., :, None]
            return self.of(equal.argmax(-1), True)
        table = {
            "gather": row,
            "order, ascending": np.argsort(row, -1, kind="stable"),
            "the largest": np.argsort(-row, -1, kind="stable"),
            "order, descending": np.argsort(-row, -1, kind="stable"),
        }
        return self.of(np.take_along_axis(table[name], where, -1))


def _of_the_instance(table: dict[str, Callable[..., Symbols]]) -> None:
    """Let a table name methods of whatever object calls them; for :class:`Reals` they stay the same."""
    for name, function in table.items():
        if getattr(Reals, getattr(function, "__name__", ""), None) is function:
            table[name] = lambda m, *values, method=function.__name__: getattr(m, method)(*values)


for _table in (reals.ACTIVATIONS, executor.UNARY, executor.BINARY, elements.POINTWISE, folds.FOLDS):
    _of_the_instance(_table)
