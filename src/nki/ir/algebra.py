"""The primitives in which the semantics of every instruction are written.

An executor implements :class:`Algebra`; an instruction's ``semantics`` calls it. A value stands for a tile of
``(partitions, elements per partition)``, whatever the shape of the tensor it came from; element-wise primitives
broadcast a size of 1 against any size.

Values carry a dtype. ``load`` gives the storage dtype; arithmetic is done in float32, so ``alu`` and ``act`` convert
their arguments; bit operators and ``integer`` arithmetic see the stored integers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from nki.base.element_types import DType, uint8, uint16, uint32
from nki.ir.types import Access

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Step:
    """One operator of a scan: ``element <op> state``, or the other way round."""

    op: str
    state_first: bool


class Algebra(Protocol[V]):
    """The primitives that an executor implements."""

    def load(self, source: Access | float) -> V:
        """The elements that ``source`` addresses, as stored; a number gives a float32 constant of one element."""
        ...

    def const(self, value: Any, dtype: DType) -> V:
        """One element: ``value`` rounded once to ``dtype`` (integers exactly)."""
        ...

    def flat(self, source: Access) -> V:
        """Like ``load`` but without partitions: one row of all elements in row-major order (DMA sees it so)."""
        ...

    def store(self, target: Access, value: V) -> None:
        """Write ``value``, converted to the target's dtype by ``cast``, with its elements in row-major order."""
        ...

    def store_bits(self, target: Access, value: V) -> None:
        """Write ``value``, the pattern of a bit operator, into a target of its width, whatever the signs of both."""
        ...

    def cast(self, value: V, dtype: DType) -> V:
        """Convert through float32: exact for equal dtypes; round to nearest even; integers saturate, NaN becomes 0."""
        ...

    def narrow(self, value: V, dtype: DType) -> V:
        """Convert an int32 value: to an integer dtype by saturation without passing float32, else as ``cast``."""
        ...

    def alu(self, op: str, left: V, right: V | None = None) -> V:
        """A row of the ALU table on float32, or on bit patterns where the row says so."""
        ...

    def integer(self, op: str, left: V, right: V, dtype: DType) -> V:
        """A sum, product, extreme or comparison of integers of up to 32 bits by value; ``dtype`` keeps 32 low bits.

        Sums, differences and products of two int64 keep 64.
        """
        ...

    def act(self, function: str, value: V, parameter: V | None = None) -> V:
        """A row of the activation table on float32: the one compiled implementation that all executors share.

        ``parameter``: for rows that have one.
        """
        ...

    def reduce(self, op: str, value: V, groups: int = 1, start: V | None = None) -> V:
        """Fold each partition's elements, split into ``groups`` equal runs, strictly left to right.

        ``start``, one element per partition, comes before the first; only arithmetic operators take it.
        """
        ...

    def scan(self, steps: tuple[Step, ...], values: tuple[V, ...], start: V) -> V:
        """Every state of each partition in float32: from ``start``, an element of each value changes it in turn."""
        ...

    def reduce_partitions(self, op: str, value: V) -> V:
        """Fold over partitions, lowest first, giving one partition."""
        ...

    def matmul(self, stationary: V, moving: V) -> V:
        """``stationary.T @ moving`` in float32: for each element a chain of fused multiply-adds over partitions.

        If both values are bfloat16 or 8-bit floats, in groups of partitions; see :mod:`nki.numerics.matmul.contract`.
        """
        ...

    def transpose(self, value: V) -> V:
        """Swap partitions and elements."""
        ...

    def iota(self, pattern: tuple[tuple[int, int], ...], offset: Any, channel_multiplier: Any, partitions: int) -> V:
        """int32 ``offset + p * channel_multiplier + sum(index * step)`` over the ``(step, count)`` pattern."""
        ...

    def select(self, condition: V, yes: V, no: V) -> V:
        """``yes`` where the condition is not zero, else ``no``; both of one dtype."""
        ...

    def top8(self, value: V) -> V:
        """The eight largest elements of each partition as float32, in descending order; NaN counts as the largest."""
        ...

    def find(self, value: V, wanted: V, last_first: bool) -> V:
        """Position in ``value`` of each of a partition's eight ``wanted`` elements, as uint32; all ones if absent.

        Compared as float32 numbers. The first of equal wanted elements (with ``last_first`` the last) gets the first
        place, the next one the next.
        """
        ...

    def put(self, target: Access, places: V, value: V) -> None:
        """Write ``value``, one element, to the positions ``places`` (uint32) of each partition; others are ignored."""
        ...

    def strided(self, value: V, start: int, step: int, count: int | None = None) -> V:
        """Every ``step``-th element of each partition from ``start``: ``count`` of them, or all up to the last."""
        ...

    def reshape(self, value: V, partitions: int) -> V:
        """The same elements in row-major order, in another number of partitions."""
        ...

    def gather(self, value: V, index: V) -> V:
        """The element of the same partition for each number in ``index``; the dtype's poison beyond the partition."""
        ...

    def nonzero(self, value: V) -> V:
        """int32, one element more: the positions of elements that are not 0, -1 for the rest, their number."""
        ...

    def ranked(self, value: V, count: int) -> V:
        """int32 positions of each partition's ``count`` largest elements, the largest last.

        The order is of numbers, with -0 below +0 and NaN above all; of equal elements the earlier is the larger.
        """
        ...

    def xorwow(self, state: V, count: int) -> tuple[V, V]:
        """``count`` uint32 numbers from each partition's generators in turn, and the generators' words afterwards.

        A generator is six words: x, y, z, w, v and d of Marsaglia's XORWOW. All generators of a partition go the same
        number of steps: numbers that are left over are dropped.
        """
        ...

    def bits(self, value: V, dtype: DType) -> V:
        """The stored patterns as elements of another dtype of the same width."""
        ...

    def unpack(self, value: V, index: int) -> V:
        """The ``index``-th of the four numbers in each packed element, lowest bits first, as float32."""
        ...

    def pack(self, values: Sequence[V], dtype: DType) -> V:
        """Packed elements of four 8-bit floats, each rounded from the float32 of one of the four values."""
        ...

    def stack(self, values: Sequence[V], partitions: int) -> V:
        """The elements of all values, row by row, one value after the other, as so many partitions."""
        ...

    def exchange(self, value: V, to: int, source: int, pipe: int) -> V:
        """Send ``value`` to core ``to``, and receive the value that core ``source`` sends through the same ``pipe``."""
        ...

    def barrier(self, cores: tuple[int, ...], tag: str) -> None:
        """Wait until all ``cores`` have come to their barrier with this tag."""
        ...

    def rank(self) -> V:
        """The number of this rank among all of the launch: one int32."""
        ...

    def gather_ranks(self, value: V, count: int) -> Sequence[V]:
        """The ``value`` of each of the ``count`` ranks of the group of the running collective, in its order."""
        ...

    def fold_ranks(self, value: V, count: int, combine: Callable[[V, V], V]) -> V:
        """Fold the values of the group in its order, with ``combine``, which works element by element."""
        ...

    def exchange_parts(self, value: V, count: int) -> Sequence[V]:
        """Part r of each rank of the group, for rank r of it, in the order of the group.

        The parts of a ``value``, one row, are ``count`` runs of equal length.
        """
        ...

    def permute_ranks(self, value: V, otherwise: V, pairs: Sequence[tuple[int, int]]) -> V:
        """The ``value`` of the rank that a pair ``(source, target)`` names as this one's source; else ``otherwise``."""
        ...

    def show(self, prefix: str, value: V, shape: tuple[int, ...]) -> None:
        """Print the elements of ``value``, in row-major order of ``shape``, as ``nl.device_print`` does."""
        ...

    def column(self, target: Access, index: int) -> Access:
        """The part of ``target`` that holds element ``index`` of each partition."""
        ...


def column_of(target: Access, index: int) -> Access:
    """Element ``index`` of every partition of ``target`` as an access of its own."""
    offset = target.offset
    for size, step in zip(reversed(target.shape[1:]), reversed(target.strides[1:]), strict=True):
        index, here = divmod(index, size)
        offset += here * step
    return Access(target.tensor, offset, (target.shape[0], 1), (target.strides[0], 1), target.dtype)


def last_of(target: Access) -> Access:
    """Access to the last element of every partition of a target, which alone remains of a write to one place."""
    return Access(target.tensor, target.offset, (target.shape[0], 1), (target.strides[0], 1), target.dtype)


def permuted(target: Access, axes: tuple[int, ...]) -> Access:
    """The same elements with dimension ``axes[i]`` as dimension ``i``; the first may be any, also on chip."""
    shape, strides = tuple(target.shape[a] for a in axes), tuple(target.strides[a] for a in axes)
    return Access(target.tensor, target.offset, shape, strides, target.dtype)


_BITS: Final = {1: uint8, 2: uint16, 4: uint32}
"""Integers of each width in bytes."""


def as_moved(access: Access) -> Access:
    """``access`` for instructions that move elements unchanged: packed ones and scales as integers of their width."""
    return access if access.dtype.computes else reinterpreted(access, _BITS[access.dtype.itemsize])


def reinterpreted(target: Access, dtype: DType) -> Access:
    """The same storage seen as ``dtype``, which is as wide: bit operators store patterns, whatever their signs."""
    return Access(target.tensor, target.offset, target.shape, target.strides, dtype)
