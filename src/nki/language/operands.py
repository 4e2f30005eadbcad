"""Operands of the functions of ``nki.language``: which tiles they take, and how these come to one shape and dtype."""

from __future__ import annotations

from typing import Any, Final, cast

import numpy as np

from nki import isa
from nki.base import element_types as dt
from nki.base.assigned_name import assigned_name
from nki.base.element_types import DType
from nki.base.errors import ArgumentError, MemoryRegionError, ShapeError
from nki.base.source import here
from nki.base.warning import NkiPortabilityWarning, warn_here
from nki.ir.recorder import current
from nki.ir.types import Buffer
from nki.language.creation import ndarray
from nki.language.nki_tensor import NkiTensor

Number = int | float
Operand = NkiTensor | Number

_FLOATS: Final = {"float8_e4m3": 1, "float8_e4m3fn": 1, "float8_e5m2": 1, "float16": 2, "bfloat16": 2, "tfloat32": 3,
                  "float32": 4}  # fmt: skip
"""Floating types by what they hold: two of one row have no common type in it."""
_SIGNED: Final = {1: dt.int8, 2: dt.int16, 4: dt.int32}


def tile_of(x: Any, what: str, name: str = "x") -> NkiTensor:
    """``x``, which has to be a tile in SBUF or PSUM; ``what`` and ``name`` are for the message."""
    if not isinstance(x, NkiTensor):
        current(what)  # outside a kernel, this is what is wrong
        raise ArgumentError(
            f"{what}: {name} is a {type(x).__name__}, not a tile",
            fix="pass a tile: of nl.load, nl.full, nl.ndarray, …"
            + ("; of Python's numbers compute with Python, such as `min(a, b)`" if isinstance(x, int | float) else ""),
        )
    if not x.buffer.on_chip:
        raise MemoryRegionError(
            f"{what}: {name} '{x.name}' is in {x.buffer.value}; functions compute on tiles in sbuf and psum",
            fix=f"load it first: nl.load({x.name})",
        )
    return x


def operand_of(x: Any, what: str, name: str) -> Operand:
    """``x`` as a tile or a Python number."""
    if isinstance(x, np.generic):
        x = cast(Any, x).item()
    if isinstance(x, bool):
        return int(x)
    if isinstance(x, int | float):
        return x
    if not isinstance(x, NkiTensor):
        current(what)  # outside a kernel, this is what is wrong
        raise ArgumentError(
            f"{what}: {name} is a {type(x).__name__}, neither a tile nor a number", fix="pass one of them"
        )
    return tile_of(x, what, name)


def result(what: str, shape: tuple[int, ...], dtype: Any) -> NkiTensor:
    """A new SBUF tile, called like the variable that the user's call fills."""
    return ndarray(shape, dtype, Buffer.sbuf, assigned_name(here(), what))


def scratch(name: str, shape: tuple[int, ...], dtype: DType = dt.float32) -> NkiTensor:
    """A new SBUF tile for something in between."""
    return ndarray(shape, dtype, Buffer.sbuf, name)


def in_sbuf(x: NkiTensor) -> NkiTensor:
    """``x``, or a copy of it if it is in PSUM (``nisa.tensor_copy``)."""
    if x.buffer is Buffer.sbuf:
        return x
    copied = scratch(f"{x.name}_copy", x.shape, x.dtype)
    isa.tensor_copy(copied, x)
    return copied


def lifted(message: str) -> None:
    """Warn at the user's line that NKI itself does not allow what is done here."""
    warn_here(message, NkiPortabilityWarning)


def promoted(a: DType, b: DType) -> DType:
    """The type of what is computed of both: the floating one, the wider one, or the next that holds the values of both.

    bool gives way to all; float16 with bfloat16 makes float32, two kinds of 8-bit floats bfloat16; signed with unsigned
    integers the narrowest signed type that holds both, and int32 with uint32 float32.
    """
    if a is b or b.kind == "b":
        return a
    if a.kind == "b":
        return b
    if not a.is_float and not b.is_float:
        return _integers(a, b)
    if not (a.is_float and b.is_float):
        return a if a.is_float else b
    first, second = _FLOATS.get(a.name, 0), _FLOATS.get(b.name, 0)
    if first != second:
        return a if first > second else b
    return dt.bfloat16 if first == 1 else dt.float32


def _integers(a: DType, b: DType) -> DType:
    if a.kind == b.kind:
        return a if a.itemsize > b.itemsize else b
    signed, unsigned = (a, b) if a.kind == "i" else (b, a)
    return _SIGNED.get(max(signed.itemsize, 2 * unsigned.itemsize), dt.float32)


def common_shape(what: str, **tiles: NkiTensor) -> tuple[int, ...]:
    """The shape to which all of the tiles can be repeated. Raises :class:`ShapeError` where there is none.

    Each dimension has one size in all of them, or size 1; a (partitions, 1) tile goes with any number of dimensions.
    """
    ndim = max(t.ndim for t in tiles.values())
    shapes = [_shape_in(t, ndim) for t in tiles.values()]
    sizes = [set(extents) - {1} or {1} for extents in zip(*shapes, strict=True)] if None not in shapes else []  # pyright: ignore[reportArgumentType]
    if not sizes or any(len(extents) > 1 for extents in sizes):
        listed = " and ".join(f"{name} '{t.name}' {t.shape}" for name, t in tiles.items())
        raise ShapeError(
            f"{what}: {listed} do not fit each other",
            fix="give them the same shape; a dimension of size 1 is repeated, others are not",
        )
    return tuple(extents.pop() for extents in sizes)


def _shape_in(t: NkiTensor, ndim: int) -> tuple[int, ...] | None:
    """The shape of ``t`` with ``ndim`` dimensions."""
    if t.ndim == ndim:
        return t.shape
    return (t.shape[0], *(1,) * (ndim - 1)) if t.access.free_elements == 1 else None


def spread(x: NkiTensor, shape: tuple[int, ...]) -> NkiTensor:
    """``x`` repeated to ``shape``, with which it has to fit: a view, or, for the partitions, a new tile.

    A row gets to all partitions by way of HBM: two ``nisa.dma_copy``, which keep every bit.
    """
    if x.shape == shape:
        return x
    if x.ndim != len(shape):
        x = x.reshape((x.shape[0], *(1,) * (len(shape) - 1)))
    if x.shape[0] != shape[0]:
        row = in_sbuf(x)
        outside = ndarray(row.shape, row.dtype, Buffer.private_hbm, f"{x.name}_row")
        isa.dma_copy(outside, row)
        x = scratch(f"{x.name}_rows", (shape[0], *x.shape[1:]), row.dtype)
        isa.dma_copy(x, outside.broadcast(0, shape[0]))
    for dim, size in enumerate(shape):
        if x.shape[dim] != size:
            x = x.broadcast(dim, size)
    return x


def aligned(what: str, **tiles: NkiTensor) -> list[NkiTensor]:
    """The tiles, repeated to one shape; a warning says so where they had different ones."""
    shape = common_shape(what, **tiles)
    for name, t in tiles.items():
        if t.shape != shape:
            lifted(
                f"{what} repeats {name} '{t.name}' {t.shape} to {shape}; NKI's own functions take tiles of one shape "
                "(known issues of NKI 0.3: binary operations do not support broadcasting)"
            )
    return [spread(t, shape) for t in tiles.values()]


__all__ = [
    "Number", "Operand", "aligned", "common_shape", "in_sbuf", "lifted", "operand_of", "promoted", "result", "scratch",
    "spread", "tile_of",
]  # fmt: skip
