"""Semantics of run-time indices of operands, shared by all executors."""

from __future__ import annotations

from collections.abc import Iterator

from nki.base.errors import OutOfBoundsError
from nki.ir.instruction import Inst
from nki.ir.types import Access, Dynamic, IndexKind, is_row_indexed


def split_rows(inst: Inst) -> Iterator[Inst]:
    """``inst`` itself; if an operand is row-indexed, the same instruction on one row after the other.

    All operands then have the same number of rows. A row may have one index of its own and be skipped alone.
    """
    operands = inst.operands()
    rows = {a.shape[0] for _, a in operands if is_row_indexed(a)}
    if not rows:
        yield inst
        return
    whole = [(a, inst.effects.row_dims.get(f.name, 0)) for f, a in operands]
    for number in range(max(rows)):
        yield inst.with_operands({i: row(a, number, dim) for i, (a, dim) in enumerate(whole)})


def row(access: Access, number: int, dim: int = 0) -> Access:
    """Element ``number`` of dimension ``dim`` of an access, which keeps that dimension, with 1 element.

    In a row-indexed access, the index of this row moves the whole row.
    """
    offset, dynamic = access.offset + number * access.strides[dim], access.dynamic
    if dynamic is not None and is_row_indexed(access):
        offset, dynamic = access.offset, Dynamic(_index(dynamic.source, number), dynamic.step)
    at = dim % access.ndim
    shape = (*access.shape[:at], 1, *access.shape[at + 1 :])
    return Access(access.tensor, offset, shape, access.strides, access.dtype, dynamic)


def _index(source: Access, number: int) -> Access:
    """The index of row ``number``: indices go down the first column, then down the next."""
    column, partition = divmod(number, source.shape[0])
    offset = source.offset + partition * source.strides[0] + column * source.strides[-1]
    return Access(source.tensor, offset, (1, 1), (source.strides[0], 1), source.dtype)


def largest_index(access: Access) -> int:
    """The largest run-time index with which ``access``, or each row or element of it, stays in bounds; below 0 if none.

    The bounds are the partition's on chip, and the tensor's in HBM.
    """
    dynamic, tensor = access.dynamic, access.tensor
    assert dynamic is not None
    shape, strides = access.shape, access.strides
    if dynamic.kind is IndexKind.rows:
        shape, strides = shape[1:], strides[1:]
    size = access.dtype.itemsize
    if tensor.buffer.on_chip:
        room, start = access.partition_step, access.offset % access.partition_step
        shape, strides = shape[1:], strides[1:]
    else:
        room, start = tensor.nbytes // size, access.offset
    last = start + sum((n - 1) * step for n, step in zip(shape, strides, strict=True) if step > 0)
    return (room - 1 - last) // dynamic.step


def out_of_bounds(inst: Inst, name: str, access: Access, index: int) -> OutOfBoundsError:
    """The error for run-time index ``index`` of operand ``name``, which is out of bounds."""
    dynamic = access.dynamic
    assert dynamic is not None
    shown = f"{index} (or {index - (1 << 32)})" if index >= 1 << 31 else str(index)
    skip = " or skip such rows with oob_mode=nisa.oob_mode.skip" if inst.effects.skips is not None else ""
    error = OutOfBoundsError(
        f"{inst.mnemonic}: {name} '{access.name}' {access.tensor.shape} was accessed at run-time index {shown} from "
        f"'{dynamic.source.name}'; in steps of {dynamic.step} elements the largest that stays inside is "
        f"{max(largest_index(access), -1)}",
        fix=f"keep the index in bounds with nisa.tensor_scalar(…, op0=nl.minimum){skip}",
    )
    error.at(inst.where.span, inst.where.stack)
    return error
