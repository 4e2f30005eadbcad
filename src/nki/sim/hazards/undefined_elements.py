"""Undefined elements of results: an interpretation of the algebra that needs no data.

A value is the set of its undefined elements. An element of a result is in the set only if it depends on undefined
memory whatever the data are. Memory may hold any bits, also the bits of a NaN, so arithmetic on a float never hides an
undefined operand, not even a product with zero. What data may hide is left out: the side of a selection that is not
taken, an integer factor of zero, a bit that is masked, the elements that an index does not choose.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from nki.analysis.access_pattern import AccessPattern, pattern_of
from nki.base.element_types import DType
from nki.ir.algebra import Algebra, Step, column_of, last_of
from nki.ir.instruction import Inst
from nki.ir.types import Access, Tensor
from nki.isa.tables.alu_operators import TABLE

Mask = NDArray[np.bool_]
Place = tuple[Tensor, AccessPattern]

_PROPAGATES_NAN: Final = frozenset(name for name, row in TABLE.items() if row.nan in ("gives NaN", "kept")) - {"power"}
"""Operators that give NaN if either operand is NaN. 1 to any power is 1, and any number to the power of 0."""
_KEEPS_CHANGE: Final = frozenset(("add", "subtract", "bitwise_xor", "invert", "bypass"))
"""Operators with a result that changes with either operand, whatever the other one is."""
_NEEDS_BOTH: Final = frozenset(("bitwise_and", "bitwise_or", "logical_and", "logical_or", "multiply"))
"""Operators with a result that one operand may decide alone."""


def place_of(access: Access) -> Place:
    """The key of the bytes of ``access``."""
    return access.tensor, pattern_of(access)


@dataclass(frozen=True, slots=True)
class Undefined:
    """The undefined elements of a value, (partitions, elements); ``may_be_nan``: each of them may be NaN.

    ``number`` is the constant's.
    """

    mask: Mask
    may_be_nan: bool = True
    number: float | None = None


def _none(partitions: int, elements: int, number: float | None = None) -> Undefined:
    return Undefined(np.zeros((partitions, elements), np.bool_), number=number)


def _some(mask: Mask, axis: int) -> Mask:
    return np.asarray(mask.any(axis=axis))


def _every(mask: Mask, axis: int) -> Mask:
    return np.asarray(mask.all(axis=axis))


def _hidden(value: Undefined) -> Undefined:
    return _none(*value.mask.shape)


class UndefinedElements:
    """The algebra of undefined elements. ``undefined``: the undefined elements of each operand, in its shape."""

    def __init__(self, undefined: Mapping[Place, Mask]) -> None:
        self._undefined = undefined
        self.results: list[tuple[Access, Mask]] = []
        """The results of the instruction in the order of its stores, each with its undefined elements."""

    def visit(self, inst: Inst) -> None:
        """Collect the results of ``inst``, which has no operand with a run-time index."""
        inst.semantics(cast("Algebra[Undefined]", self))

    def load(self, source: Access | float) -> Undefined:
        if not isinstance(source, Access):
            return _none(1, 1, source)
        mask = self._undefined.get(place_of(source))
        if mask is None:
            return _none(source.shape[0], source.size // source.shape[0])
        return Undefined(mask.reshape(source.shape[0], -1), source.dtype.kind == "f")

    def const(self, value: Any, dtype: DType) -> Undefined:  # noqa: ARG002  # as the algebra has it
        return _none(1, 1, value)

    def flat(self, source: Access) -> Undefined:
        value = self.load(source)
        return Undefined(value.mask.reshape(1, -1), value.may_be_nan)

    def store(self, target: Access, value: Undefined) -> None:
        mask = value.mask
        if target.one_place():
            columns = mask.reshape(target.partitions, -1) if mask.size == target.size else mask
            target, mask = last_of(target), columns[:, -1:]
        if mask.size != target.size:
            mask = np.broadcast_to(mask, (target.partitions, target.free_elements))
        self.results.append((target, mask.reshape(target.shape)))

    store_bits = store

    def put(self, target: Access, places: Undefined, value: Undefined) -> None:  # noqa: ARG002  # as the algebra has it
        self.results.append((target, np.zeros(target.shape, np.bool_)))  # defined somewhere

    def cast(self, value: Undefined, dtype: DType) -> Undefined:
        may_be_nan = value.may_be_nan and (dtype.kind == "f" or not value.mask.any())
        return Undefined(value.mask, may_be_nan, value.number)

    narrow = cast

    def bits(self, value: Undefined, dtype: DType) -> Undefined:
        return Undefined(value.mask, dtype.kind == "f")

    def alu(self, op: str, left: Undefined, right: Undefined | None = None) -> Undefined:
        if right is None:
            sure = op in _KEEPS_CHANGE or (left.may_be_nan and op in _PROPAGATES_NAN)
            return left if sure else _hidden(left)
        if op == "power" and right.number and left.may_be_nan:
            return Undefined(np.broadcast_to(left.mask, np.broadcast_shapes(left.mask.shape, right.mask.shape)))
        return self._joined(op, left, right)

    def integer(self, op: str, left: Undefined, right: Undefined, dtype: DType) -> Undefined:  # noqa: ARG002  # as above
        return self._joined(op, left, right)

    @staticmethod
    def _joined(op: str, left: Undefined, right: Undefined) -> Undefined:
        result = np.zeros(np.broadcast_shapes(left.mask.shape, right.mask.shape), np.bool_)
        if op in _KEEPS_CHANGE:
            result = left.mask ^ right.mask  # two undefined operands may be equal
        elif op in _NEEDS_BOTH:
            result = left.mask & right.mask
        if op in _PROPAGATES_NAN:
            for side in (left, right):
                if side.may_be_nan:
                    result = result | side.mask
        return Undefined(result, left.may_be_nan and right.may_be_nan)

    def act(self, function: str, value: Undefined, parameter: Undefined | None = None) -> Undefined:  # noqa: ARG002
        sides = [side if side.may_be_nan else _hidden(side) for side in (value, parameter) if side is not None]
        mask = sides[0].mask if parameter is None else sides[0].mask | sides[1].mask
        return Undefined(mask)  # of a NaN every function is NaN

    def reduce(self, op: str, value: Undefined, groups: int = 1, start: Undefined | None = None) -> Undefined:
        runs = value.mask.reshape(len(value.mask), groups, -1)
        if start is not None:
            first = np.broadcast_to(start.mask[:, :, None], (len(runs), groups, 1))
            runs = np.concatenate([first, runs], axis=2)
        return self._folded(op, runs, 2, value.may_be_nan)

    def reduce_partitions(self, op: str, value: Undefined) -> Undefined:
        return self._folded(op, value.mask[None], 1, value.may_be_nan)

    @staticmethod
    def _folded(op: str, mask: Mask, axis: int, may_be_nan: bool) -> Undefined:
        if may_be_nan and op in _PROPAGATES_NAN:
            return Undefined(_some(mask, axis))
        if op in _KEEPS_CHANGE:
            return Undefined(np.asarray(mask.sum(axis=axis) == 1), may_be_nan)
        return Undefined(_every(mask, axis) & (op in _NEEDS_BOTH), may_be_nan)

    def scan(self, steps: tuple[Step, ...], values: tuple[Undefined, ...], start: Undefined) -> Undefined:
        masks = [(v if v.may_be_nan else _hidden(v)).mask for v in (*values, start)]
        rows, columns = np.broadcast_shapes(*(mask.shape for mask in masks[:-1]))
        if any(step.op not in _PROPAGATES_NAN for step in steps):
            return _none(rows, columns)
        element = np.zeros((rows, columns), np.bool_)
        for mask in masks[:-1]:
            element |= mask
        return Undefined(np.logical_or.accumulate(element, axis=1) | masks[-1][:, :1])

    def matmul(self, stationary: Undefined, moving: Undefined) -> Undefined:
        rows, columns = (_some(v.mask, 0) & v.may_be_nan for v in (stationary, moving))
        return Undefined(rows[:, None] | columns[None, :])

    def transpose(self, value: Undefined) -> Undefined:
        return Undefined(value.mask.T, value.may_be_nan)

    def iota(self, pattern: tuple[tuple[int, int], ...], offset: Any, multiplier: Any, partitions: int) -> Undefined:  # noqa: ARG002
        return _none(partitions, prod(count for _, count in pattern))

    def select(self, condition: Undefined, yes: Undefined, no: Undefined) -> Undefined:
        shape = np.broadcast_shapes(condition.mask.shape, yes.mask.shape, no.mask.shape)
        return Undefined(np.broadcast_to(yes.mask & no.mask, shape), yes.may_be_nan and no.may_be_nan)

    def top8(self, value: Undefined) -> Undefined:
        return Undefined(np.repeat(_every(value.mask, 1)[:, None], 8, axis=1), value.may_be_nan)

    def find(self, value: Undefined, wanted: Undefined, last_first: bool) -> Undefined:  # noqa: ARG002  # as above
        return _hidden(wanted)

    def gather(self, value: Undefined, index: Undefined) -> Undefined:
        rows = np.arange(max(len(value.mask), len(index.mask))) % len(value.mask)
        whole = _every(value.mask, 1)[:, None][rows]
        return Undefined(np.repeat(whole, index.mask.shape[1], axis=1), value.may_be_nan)

    def nonzero(self, value: Undefined) -> Undefined:
        return _none(len(value.mask), value.mask.shape[1] + 1)

    def ranked(self, value: Undefined, count: int) -> Undefined:
        return _none(len(value.mask), count)

    def strided(self, value: Undefined, start: int, step: int, count: int | None = None) -> Undefined:
        stop = None if count is None else start + count * step
        return Undefined(value.mask[:, start:stop:step], value.may_be_nan)

    def reshape(self, value: Undefined, partitions: int) -> Undefined:
        return Undefined(value.mask.reshape(partitions, -1), value.may_be_nan)

    def xorwow(self, state: Undefined, count: int) -> tuple[Undefined, Undefined]:
        return _none(len(state.mask), count), _hidden(state)

    def unpack(self, value: Undefined, index: int) -> Undefined:  # noqa: ARG002  # as the algebra has it
        return Undefined(value.mask, may_be_nan=False)

    def pack(self, values: Sequence[Undefined], dtype: DType) -> Undefined:  # noqa: ARG002  # as the algebra has it
        mask = values[0].mask
        for value in values[1:]:
            mask = mask | value.mask
        return Undefined(mask, may_be_nan=False)

    def stack(self, values: Sequence[Undefined], partitions: int) -> Undefined:
        mask = np.concatenate([value.mask.reshape(-1) for value in values])
        return Undefined(mask.reshape(partitions, -1), all(value.may_be_nan for value in values))

    def exchange(self, value: Undefined, to: int, source: int, pipe: int) -> Undefined:  # noqa: ARG002  # as above
        return _hidden(value)  # what another core sends is recorded when it is received

    def barrier(self, cores: tuple[int, ...], tag: str) -> None:
        """Nothing: a barrier moves no elements."""

    def rank(self) -> Undefined:
        return _none(1, 1)

    def gather_ranks(self, value: Undefined, count: int) -> list[Undefined]:
        return [_hidden(value)] * count  # what other ranks have left undefined is not known here

    def fold_ranks(self, value: Undefined, count: int, combine: object) -> Undefined:  # noqa: ARG002  # as above
        return _hidden(value)

    def exchange_parts(self, value: Undefined, count: int) -> list[Undefined]:
        return [_none(1, value.mask.size // count)] * count

    def permute_ranks(self, value: Undefined, otherwise: Undefined, pairs: object) -> Undefined:  # noqa: ARG002
        return _hidden(value)

    def show(self, prefix: str, value: Undefined, shape: tuple[int, ...]) -> None:
        """Nothing: what is printed is no result."""

    def column(self, target: Access, index: int) -> Access:
        return column_of(target, index)
