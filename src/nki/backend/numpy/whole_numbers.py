"""The results of an instruction on integers as they would be if engines computed in float64, not in float32.

float64 holds every integer of 32 bits, and sums and products of few of them. What the engines really store differs
where one of the numbers is none of float32.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from nki.backend.numpy.executor import Reference
from nki.backend.numpy.memory import Array
from nki.backend.numpy.values import Value
from nki.base import element_types as dt
from nki.base.dtype_conversion import from_float32
from nki.base.element_types import DType
from nki.ir.instruction import Inst
from nki.ir.types import Access, Tensor
from nki.isa.tables.alu_operators import BITS

_COMPILED = frozenset({"power", "rsqrt"})
"""Operators that exist in float32 alone."""


class _NoWholeNumbersError(Exception):
    """The instruction computes with more than sums, products and comparisons, or exchanges with others."""


def exact_results(executor: Reference, inst: Inst) -> list[tuple[Access, Array]] | None:
    """The results that ``inst`` would store, as (partitions, elements); integers where a result is one, else float64.

    Nothing is written. None where this cannot be told, and where the engine does not compute: it moves or joins bits.
    """
    if inst.indexed_by():
        return None
    wide = _Wide(executor)
    try:
        inst.semantics(wide)
    except _NoWholeNumbersError:
        return None
    return wide.results if wide.computes else None


class _Wide(Reference):
    """The algebra in float64. Results are kept, not stored; a value said to be float32 has an array of float64."""

    def __init__(self, executor: Reference) -> None:
        super().__init__(executor.memory)
        self.results: list[tuple[Access, Array]] = []
        self.computes = False
        self._stored: set[Tensor] = set()

    def numbers(self, value: Value) -> Array:
        if value.dtype.is_packed:
            raise _NoWholeNumbersError
        self.computes = True
        with np.errstate(invalid="ignore"):
            return value.array.astype(np.float64)

    def computed(self, result: Array) -> Value:
        return Value(result.astype(np.float64), dt.float32)

    def const(self, value: Any, dtype: DType) -> Value:
        if dtype.is_integer or dtype.is_packed:
            return super().const(value, dtype)
        number = float(value)
        return Value(np.array([[number if number.is_integer() else np.float32(number)]], np.float64), dtype)

    def load(self, source: Access | float) -> Value:
        if isinstance(source, Access) and source.tensor in self._stored:
            raise _NoWholeNumbersError
        return super().load(source)

    def flat(self, source: Access) -> Value:
        if source.tensor in self._stored:
            raise _NoWholeNumbersError
        return super().flat(source)

    def store(self, target: Access, value: Value) -> None:
        if target.one_place():
            raise _NoWholeNumbersError
        self._stored.add(target.tensor)
        shape = (target.partitions, target.free_elements)
        array = value.array.reshape(shape) if value.array.size == target.size else value.array
        self.results.append((target, np.broadcast_to(array, shape)))

    def cast(self, value: Value, dtype: DType) -> Value:
        if value.dtype is dtype:
            return value
        numbers = self.numbers(value)
        return Value(from_float32(numbers, dtype) if dtype.is_integer or dtype is dt.bool_ else numbers, dtype)

    def alu(self, op: str, left: Value, right: Value | None = None) -> Value:
        if op in _COMPILED or (op in BITS and not _has_bits(left, right)):
            raise _NoWholeNumbersError
        return super().alu(op, left, right)

    def bits(self, value: Value, dtype: DType) -> Value:
        if not _has_bits(value):
            raise _NoWholeNumbersError
        return super().bits(value, dtype)

    def store_bits(self, target: Access, value: Value) -> None:
        if not _has_bits(value):
            raise _NoWholeNumbersError
        super().store_bits(target, value)

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise _NoWholeNumbersError

    act = matmul = top8 = find = put = ranked = nonzero = xorwow = unpack = pack = _refuse
    exchange = barrier = show = _refuse


def _has_bits(*values: Value | None) -> bool:
    """True if the arrays hold the bits of their dtypes."""
    return all(value is None or value.array.dtype == value.dtype.plain for value in values)
