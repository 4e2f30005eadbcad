"""Indices that exist only when the kernel runs: where they may come from, and what they may choose.

Limits: NKI language guide and access-pattern guide. One run-time index a view; on chip never the partition; an index
for each row only in HBM, on dimension 0; an offset for each element only on chip (NKI reference, NkiTensor.indirect).
"""

from __future__ import annotations

import operator
from itertools import pairwise
from typing import Any

from nki.base.errors import (
    DynamicIndexError,
    GenerationError,
    IndexRangeError,
    NkiError,
    ViewError,
    keep_report,
)
from nki.frontend.builder import current
from nki.ir.indirection.gather_offsets import INDICES
from nki.ir.loop import is_scalar_register
from nki.ir.types import Access, Buffer, Dynamic, IndexKind, access_of, is_element_indexed, is_row_indexed
from nki.target.memory_spaces import OFFSET_GROUP, TENSOR_OFFSET_GROUP

_GENERATION = 4


def one_index(t: Access, dim: int, source: Access) -> Access:
    """``source`` as an index of dimension ``dim`` of ``t``, after checks: one integer in SBUF or in a register."""
    if source.size != 1:
        raise IndexRangeError(
            f"index '{source.name}' {source.shape} into dimension {dim} of '{t.name}' {t.shape} is not one element",
            fix=f"index with one element, such as index[0:1, 0:1]; for an index per row use {_by_rows(t, source)}",
        )
    _check_source(t, dim, source)
    if dim == 0 and t.buffer.on_chip:
        raise DynamicIndexError(
            f"run-time index '{source.name}' into dimension 0 of '{t.name}' {t.shape} in {t.buffer.value}, the "
            "partitions: engines reach partitions that are known when the kernel is compiled",
            fix="index a free dimension, or keep the data in HBM and let nisa.dma_copy fetch the row",
        )
    return source


def _check_source(t: Access, dim: int, source: Access) -> None:
    into = f"into dimension {dim} of '{t.name}' {t.shape}"
    if not source.dtype.is_integer:
        raise IndexRangeError(
            f"index '{source.name}' {into} is {source.dtype}: an index is an integer",
            fix="copy it into an int32 tile with nisa.tensor_copy, which rounds, and index with that",
        )
    if source.dtype.itemsize > 4 and not (is_scalar_register(source) and t.buffer.is_hbm):
        raise DynamicIndexError(
            f"index '{source.name}' {into} in {t.buffer.value} is {source.dtype}: only scalars in HBM have 64 bits",
            fix="load the index from a tensor of nl.int32",
        )
    if source.buffer is not Buffer.sbuf and not is_scalar_register(source):
        how = "nisa.dma_copy" if source.buffer.is_hbm else "nisa.tensor_copy"
        raise IndexRangeError(
            f"index '{source.name}' {into} is in {source.buffer.value}: indices are read from SBUF or from registers",
            fix=f"copy it to a tile in SBUF with {how}",
        )
    if t.strides[dim] == 0:
        raise DynamicIndexError(
            f"index '{source.name}' {into}, which repeats one element: there is nothing to choose",
            fix="select from the tensor as it was before t.broadcast, or with index 0",
        )
    if source.dynamic is not None:
        raise DynamicIndexError(
            f"index '{source.name}' {into} is itself found at a run-time index, in '{source.dynamic.source.name}'",
            fix="copy the index to a tile of its own first",
        )


def _by_rows(t: Access, source: Access) -> str:
    """The code of a view with an index per row, with the names of tensor and index if variables have them."""
    column = source.size == source.shape[0]
    if t.buffer.is_hbm and column and t.name.isidentifier() and source.name.isidentifier():
        return f"`{t.name}.vector_select(0, {source.name})`"
    return "t.vector_select(0, column), with t in HBM"


def second_index(t: Access, present: Dynamic) -> NkiError:
    """The error of a view that would have two run-time indices."""
    return DynamicIndexError(
        f"'{t.name}' {t.shape} is already indexed at run time by '{present.source.name}'; a view has one such index",
        fix="compute one index from both, of scalars as in `t.reshape((rows * columns, 1))[nl.ds(i * columns + j, 1)]`,"
        " else in a (1, 1) tile; or copy in two steps; t.is_indirect() tells such views",
    )


def column_index(t: Access, dim: int, column: Any, what: str, *, columns: bool = False) -> Access:
    """``column`` as the indices of the rows of ``t``, after checks: one integer per partition of SBUF.

    ``columns``: or several of them, in a tile of two dimensions.
    """
    column = access_of(column)
    if not isinstance(column, Access):
        raise IndexRangeError(
            f"{what}: the indices of the rows of '{t.name}' {t.shape} are {column!r:.40} ({type(column).__name__}), "
            "not a tensor",
            fix="pass a (rows, 1) integer tile in SBUF",
        )
    if t.buffer.on_chip:
        raise DynamicIndexError(
            f"{what}: an index per row of '{t.name}' {t.shape} in {t.buffer.value}: only tensors in HBM take one",
            fix="gather from HBM with nisa.dma_copy",
        )
    if dim != 0:
        raise DynamicIndexError(
            f"{what}: an index per row on dimension {dim} of '{t.name}' {t.shape}; only dimension 0 takes one",
            fix="use dimension 0 of a reshape, or of a permuted view, that brings the indexed dimension first",
        )
    if is_scalar_register(column) or not (column.free_elements == 1 or (columns and column.ndim == 2)):
        raise IndexRangeError(
            f"{what}: indices '{column.name}' {column.shape} are not one element per partition",
            fix="pass a column of (rows, 1), such as indices[:, 0:1]",
        )
    if t.dynamic is not None:
        raise second_index(t, t.dynamic)
    _check_source(t, dim, column)
    return column


def vector_select(t: Access, dim: int, vector_offset: Any) -> Access:
    """``t`` with dimension 0 replaced by the rows that the column ``vector_offset`` names."""
    column = column_index(t, dim, vector_offset, "vector_select")
    dynamic = Dynamic(column, t.strides[0], IndexKind.rows)
    shape, strides = (column.shape[0], *t.shape[1:]), (0, *t.strides[1:])
    return t.__class__(t.tensor, t.offset, shape, strides, t.dtype, dynamic)


def keep_first(t: Access, what: str) -> None:
    """Raise unless dimension 0 of ``t`` may change its place or size: ``what`` would do so."""
    if t.buffer.on_chip:
        raise ViewError(
            f"{what} of '{t.name}' {t.shape} in {t.buffer.value} would change dimension 0, the partitions",
            fix="change only the other dimensions; nisa.nc_transpose and nisa.dma_copy move data between partitions",
        )
    if is_row_indexed(t):
        raise DynamicIndexError(
            f"{what} of '{t.name}' {t.shape} would change dimension 0; its rows are chosen at run time",
            fix="change the shape first, and choose the rows last",
        )


def indirect(t: Access, index: Any, num_elem: Any = None) -> Access:
    """The elements of every partition of ``t`` at the offsets in the tile ``index``: shape (partitions, offsets).

    ``index`` is (partitions, K), uint16, uint32 or int32, in SBUF: a list for each group of 16 partitions, on the
    Tensor engine of 32, down the group's partitions first. ``num_elem`` is how many of them count, by default all of a
    single group. See :mod:`nki.ir.indirection.gather_offsets`. Raises :class:`GenerationError`,
    :class:`DynamicIndexError`, :class:`IndexRangeError` or :class:`ViewError`.
    """
    target = current("NkiTensor.indirect").target
    view = f"indirect view of '{t.name}' {t.shape}"
    if target.generation < _GENERATION:
        raise GenerationError(
            f"{view}: tensor indirection needs gen{_GENERATION}; {target.name} has none",
            fix="target trn3, or gather in HBM with t.vector_select(0, indices)",
        )
    if not t.buffer.on_chip or t.dynamic is not None:
        place = "already has a run-time index" if t.dynamic is not None else f"is in {t.buffer.value}"
        raise DynamicIndexError(
            f"{view}, which {place}",
            fix="take a plain tile in SBUF or PSUM to choose columns from",
        )
    index = access_of(index)
    if not isinstance(index, Access) or index.buffer is not Buffer.sbuf or index.dtype not in INDICES:
        raise IndexRangeError(
            f"{view}: the offsets are not a tile of {' or '.join(map(str, INDICES))} in SBUF",
            fix=f"pass a tile of shape ({t.shape[0]}, columns), which nisa.tensor_copy converts others to",
        )
    if index.dynamic is not None:
        raise DynamicIndexError(
            f"{view}: the offsets '{index.name}' {index.shape} are themselves found at a run-time index",
            fix="copy them to a tile of their own first",
        )
    if index.ndim != 2 or index.shape[0] != t.shape[0]:
        raise ViewError(
            f"{view}: offsets '{index.name}' {index.shape} do not have its partitions",
            fix=f"pass a tile of shape ({t.shape[0]}, columns); offset i is read from partition i % group of column "
            f"i // group, with groups of {OFFSET_GROUP} partitions ({TENSOR_OFFSET_GROUP} on the tensor engine)",
        )
    if t.shape[0] % OFFSET_GROUP:
        raise ViewError(
            f"{view}: its {t.shape[0]} partitions are not whole groups of {OFFSET_GROUP}, each of which has a list of "
            "offsets",
            fix=f"use a multiple of {OFFSET_GROUP} partitions ({TENSOR_OFFSET_GROUP} on the tensor engine)",
        )
    count = _count(t, index, num_elem)
    return t.__class__(
        t.tensor,
        t.offset,
        (t.shape[0], count),
        (t.strides[0], 0),
        t.dtype,
        Dynamic(index, _step(t), IndexKind.elements),
    )


def _count(t: Access, index: Access, num_elem: Any) -> int:
    """The number of offsets of each list that an indirect view of ``t`` uses."""
    view, lists = f"indirect view of '{t.name}' {t.shape}", f"offsets '{index.name}' {index.shape}"
    each, most = OFFSET_GROUP * index.shape[1], min(TENSOR_OFFSET_GROUP, t.shape[0]) * index.shape[1]
    if num_elem is None and index.size > most:
        raise ViewError(
            f"{view}: without num_elem all {index.size} elements of {lists} would be one list; each group of "
            f"{OFFSET_GROUP} partitions has a list of its own, of {each}",
            fix=f"pass num_elem={each}, or less (on the tensor engine up to {most}, in groups of "
            f"{TENSOR_OFFSET_GROUP})",
        )
    try:
        count = index.size if num_elem is None else operator.index(num_elem)
    except TypeError as misfit:
        keep_report(misfit)
        count = 0
    if not 1 <= count <= most:
        raise ViewError(
            f"{view}: num_elem={num_elem!r} of {lists}, which have {each} for each group of {OFFSET_GROUP} partitions",
            fix=f"pass an integer from 1 to {each} (on the tensor engine up to {most})",
        )
    return count


def _step(t: Access) -> int:
    """The step of the one dimension that the free dimensions of ``t`` are, for offsets to count along."""
    runs = [(step, count) for step, count in list(t.pattern())[1:] if count > 1] or [(1, 1)]
    if any(step != count * inner for (step, _), (inner, count) in pairwise(runs)):
        raise ViewError(
            f"indirect view of '{t.name}' {t.shape} with steps {t.strides}: its elements are not equally far apart in "
            "their partition, and offsets count them",
            fix="take the offsets into a whole tile, or into one dimension of it",
        )
    if runs[-1][0] < 1:
        raise ViewError(
            f"indirect view of '{t.name}' {t.shape} with steps {t.strides}, which repeats one element: there is "
            "nothing to choose",
            fix="take the view before t.broadcast",
        )
    return runs[-1][0]


def keep_elements(t: Access, what: str) -> None:
    """Raise if the elements of ``t`` are chosen by offsets: ``what`` would change which."""
    if is_element_indexed(t):
        assert t.dynamic is not None
        raise DynamicIndexError(
            f"{what} of '{t.name}' {t.shape}: offsets in '{t.dynamic.source.name}' choose its elements at run time",
            fix="slice and shape the tile and its offsets first, and take t.indirect(index) last",
        )


__all__ = ["column_index", "indirect", "keep_elements", "keep_first", "one_index", "second_index", "vector_select"]
