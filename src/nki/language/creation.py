"""New tensors: ``nl.ndarray``, and tiles that are filled with one value."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from typing import Any, Final, cast

from nki import isa
from nki.base import element_types as dt
from nki.base.assigned_name import assigned_name
from nki.base.element_types import DType
from nki.base.errors import ArgumentError, keep_report
from nki.base.source import Where, here, is_toolchain
from nki.base.warning import NkiDeprecationWarning, warn_at
from nki.frontend.builder import current
from nki.frontend.frontend_errors import RemovedApiError
from nki.ir.floats.runtime_float import receives_floats
from nki.ir.types import Access, Buffer
from nki.language.buffers import buffer_of
from nki.language.nki_tensor import NkiTensor

_new = object.__new__
_PIECE: Final = 2048
"""Bytes of a partition from which a tensor in HBM is filled."""


class ParDim(int):
    """A size that is the partition dimension."""

    __slots__ = ()


def par_dim(size: Any) -> ParDim:
    """``size``, marked as the size of the partition dimension, which in NKI 0.2 is the first one, marked or not.

    Later releases have no such function: write the number itself. In Beta 1, dimensions in front of it were blocks.
    """
    return ParDim(operator.index(size))


def sizes_of(shape: Any, what: str) -> tuple[int, ...]:
    """``shape`` as a tuple of integers.

    Raises, in the name of ``what``, :class:`ArgumentError`, or :class:`RemovedApiError` for dimensions of blocks.
    """
    if type(shape) is tuple:
        whole: Any = shape  # pyright: ignore[reportUnknownVariableType]  # cast() would take as long as the rest
        for size in whole:
            if type(size) is not int:
                break
        else:
            return whole
    try:
        sizes = cast("tuple[Any, ...]", shape) if isinstance(shape, tuple | list) else (shape,)
        if any(isinstance(size, ParDim) for size in sizes[1:]):
            raise RemovedApiError(
                f"{what}: shape {sizes!r} has dimensions in front of `par_dim`, which were blocks in NKI Beta 1",
                fix="make block dimensions a list of tensors, or move them behind the first",
            )
        return tuple(map(operator.index, sizes))
    except TypeError as misfit:
        keep_report(misfit)
        raise ArgumentError(
            f"{what}: shape {shape!r} is not a tuple of integers", fix="pass a shape such as (128, 512)"
        ) from None


def ndarray(
    shape: Any, dtype: Any, buffer: Any = Buffer.sbuf, name: str = "", address: tuple[int, int] | None = None
) -> NkiTensor:
    """A new tensor with undefined contents.

    ``shape``: (partitions, free…) on chip, at most 128 partitions and what a partition holds (see ``nl.tile_size``);
    any in HBM. ``dtype``: an NKI dtype or its name. ``buffer``: where it lives. ``name``: for messages; by default the
    name of the variable or entry that receives it. ``address``: (first partition, byte offset) on chip.
    """
    where = here(2)  # this function is the toolchain's
    named = bool(name)
    if named and not is_toolchain(sys._getframe(1).f_code):  # pyright: ignore[reportPrivateUsage]  # the user's own name
        current("nl.ndarray").declare(name, where)
    return _allocated(shape, dtype, buffer, name or assigned_name(where, "tensor"), address, where, named)


def _allocated(
    shape: Any, dtype: Any, buffer: Any, label: str, address: tuple[int, int] | None, where: Where, named: bool
) -> NkiTensor:
    builder = current("nl.ndarray")
    sizes = sizes_of(shape, "nl.ndarray")
    kind = dtype if type(dtype) is DType else _own_dtype(dtype, where)
    place = buffer if type(buffer) is Buffer else _own_buffer(buffer, where)
    whole = _new(NkiTensor)  # without a call of the class: kernels make tiles in loops
    whole.access = Access.whole(builder.tensor(label, sizes, kind, place, address=address, where=where, named=named))
    return whole


def _own_dtype(dtype: Any, where: Where) -> DType:
    resolved = dt.of(dtype)
    _outdated(where, f"dtype {dtype!r}", f"nl.{'bool_' if resolved is dt.bool_ else resolved.name}")
    return resolved


def _own_buffer(buffer: Any, where: Where) -> Buffer:
    resolved = Buffer.sbuf if buffer is None else buffer_of(buffer, "nl.ndarray")
    _outdated(where, f"buffer {buffer!r}", f"nl.{resolved.value}")
    return resolved


def _outdated(where: Where, what: str, instead: str) -> None:
    if where.span is not None:
        message = f"{what} is of an older NKI, which took strings, NumPy's types and None: write `{instead}`"
        warn_at(where.span, message, NkiDeprecationWarning, since="0.3")


def zeros(shape: Any, dtype: Any, buffer: Any = Buffer.sbuf, name: str = "") -> NkiTensor:
    """A new tensor filled with zeros: :func:`ndarray`, then ``nisa.memset``; in HBM ``nisa.dma_copy`` of a tile."""
    return _filled("zeros", shape, 0, dtype, buffer, name)


def ones(shape: Any, dtype: Any, buffer: Any = Buffer.sbuf, name: str = "") -> NkiTensor:
    """A new tensor filled with ones: as :func:`zeros`."""
    return _filled("ones", shape, 1, dtype, buffer, name)


@receives_floats  # only nisa.memset looks at the number
def full(shape: Any, fill_value: Any, dtype: Any, buffer: Any = Buffer.sbuf, name: str = "") -> NkiTensor:
    """A new tensor filled with the number ``fill_value``: as :func:`zeros`.

    The value is rounded once to a floating ``dtype``; a whole ``dtype`` takes only a whole number in its range.
    """
    return _filled("full", shape, fill_value, dtype, buffer, name)


def zeros_like(x: Any, dtype: Any = None, buffer: Any = None, name: str = "") -> NkiTensor:
    """A new tensor of zeros with the shape of the tensor ``x``, and its dtype unless ``dtype`` is given.

    ``buffer``: by default the memory of ``x`` if it is on chip, else SBUF. Emits what :func:`zeros` emits.
    """
    like = _tensor(x, "nl.zeros_like")
    place = buffer if buffer is not None else like.buffer if like.buffer.on_chip else Buffer.sbuf
    return _filled("zeros_like", like.shape, 0, like.dtype if dtype is None else dtype, place, name)


def empty_like(x: Any, dtype: Any = None, buffer: Any = None, name: str = "") -> NkiTensor:
    """A new tensor with undefined contents, and the shape, dtype and buffer of the tensor ``x`` unless given."""
    like = _tensor(x, "nl.empty_like")
    where, place = here(), like.buffer if buffer is None else buffer
    label = name or assigned_name(where, "empty_like")
    return _allocated(like.shape, like.dtype if dtype is None else dtype, place, label, None, where, bool(name))


def _filled(what: str, shape: Any, value: Any, dtype: Any, buffer: Any, name: str) -> NkiTensor:
    where = here()
    label = name or assigned_name(where, what)
    tensor = _allocated(shape, dtype, buffer, label, None, where, bool(name))
    if tensor.buffer.on_chip:
        isa.memset(tensor, value)
        return tensor
    tiles: list[NkiTensor] = []  # one, as large as the first piece, which is the largest

    def filled(rows: int, columns: int) -> NkiTensor:
        if not tiles:
            tiles.append(ndarray((rows, columns), tensor.dtype, Buffer.sbuf, f"{label}_fill"))
            isa.memset(tiles[0], value)
        return tiles[0][0:rows, 0:columns]

    pour(tensor, filled)
    return tensor


def pour(tensor: NkiTensor, tile_of: Callable[[int, int], NkiTensor]) -> None:
    """Write ``tensor``, a new tensor in HBM, piece by piece from the tiles that ``tile_of(rows, columns)`` gives.

    Emits ``nisa.dma_copy``; the first piece is the largest.
    """
    size, start = tensor.size, 0
    flat = tensor.reshape((size,))
    columns = min(size, _PIECE // tensor.dtype.itemsize)
    while start < size:
        left = size - start
        rows = min(current("nisa.dma_copy").target.partitions, left // columns)
        tile = tile_of(rows, columns) if rows else tile_of(1, left)
        isa.dma_copy(flat[start : start + tile.size], tile)
        start += tile.size


def _tensor(x: Any, what: str) -> NkiTensor:
    if not isinstance(x, NkiTensor):
        raise ArgumentError(f"{what}: x is a {type(x).__name__}, not a tensor", fix="pass a tensor, or use nl.ndarray")
    return x


__all__ = ["ParDim", "empty_like", "full", "ndarray", "ones", "par_dim", "sizes_of", "zeros", "zeros_like"]
