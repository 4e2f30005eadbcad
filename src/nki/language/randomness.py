"""Random numbers: ``nl.rand``, ``nl.random_seed``, ``nl.dropout``. The generators belong to the Vector engine."""

from __future__ import annotations

from typing import Any

from nki import isa
from nki.base import element_types as dt
from nki.base.assigned_name import assigned_name
from nki.base.errors import ShapeError
from nki.base.source import here
from nki.frontend.builder import current
from nki.ir.types import Buffer
from nki.isa.tables.operators import OPS
from nki.language.creation import full, ndarray, pour
from nki.language.nki_tensor import NkiTensor
from nki.language.operands import lifted, operand_of, result, scratch, tile_of


def rand(shape: Any, dtype: Any, buffer: Any = Buffer.sbuf, name: str = "") -> NkiTensor:
    """A new tensor with random numbers spread evenly from 0 to 1, below 1 before they are rounded to ``dtype``.

    Each is a multiple of 2**-24. Emits ``nisa.rand2`` on gen4; before, ``nisa.rng`` and two ``nisa.tensor_scalar``. In
    HBM, tiles are made so and copied with ``nisa.dma_copy``.
    """
    label = name or assigned_name(here(), "rand")
    tensor = ndarray(shape, dtype, buffer, label)
    if not tensor.buffer.on_chip:
        pour(tensor, lambda rows, columns: rand((rows, columns), tensor.dtype, Buffer.sbuf, f"{label}_part"))
        return tensor
    if current("nl.rand").target.generation >= 4:
        isa.rand2(tensor, 0.0, 1.0)
        return tensor
    bits = scratch(f"{label}_bits", tensor.shape, dt.uint32)
    isa.rng(bits)
    isa.tensor_scalar(bits, bits, OPS["right_shift"], 8)
    isa.tensor_scalar(tensor, bits, OPS["multiply"], 2.0**-24)
    return tensor


def random_seed(seed: Any) -> None:
    """Start the random numbers of :func:`rand` and :func:`dropout` again, from a 32-bit number.

    ``seed``: a (1, 1) tile in SBUF or PSUM; with a :class:`NkiPortabilityWarning` also an integer. Emits
    ``nisa.set_rng_seed``. Raises :class:`ShapeError` for another tile.
    """
    value = operand_of(seed, "nl.random_seed", "seed")
    if not isinstance(value, NkiTensor):
        lifted(f"nl.random_seed({seed!r}): NKI's own takes a (1, 1) tile (known issues of NKI 0.3)")
        value = full((1, 1), value, dt.int32 if value < 1 << 31 else dt.uint32, Buffer.sbuf, "seed")
    if value.size != 1:
        raise ShapeError(
            f"nl.random_seed: seed '{value.name}' {value.shape} is not one number", fix="pass a (1, 1) tile"
        )
    isa.set_rng_seed(value)


def dropout(x: Any, rate: Any, dtype: Any = None) -> NkiTensor:
    """``x`` with elements replaced by 0, each with the probability ``rate``; the others are not scaled.

    ``x``: a tile in SBUF or PSUM. ``rate``: a number from 0 to 1, or a (partitions, 1) tile. ``dtype``: of the result,
    by default the dtype of ``x``. Emits ``nisa.dropout``, and ``nisa.tensor_copy`` for another dtype.
    """
    tile, chance = tile_of(x, "nl.dropout"), operand_of(rate, "nl.dropout", "rate")
    kind = tile.dtype if dtype is None else dt.of(dtype)
    dst = result("dropout", tile.shape, kind)
    kept = dst if kind is tile.dtype else scratch("kept", tile.shape, tile.dtype)
    isa.dropout(kept, tile, chance)
    if kept is not dst:
        isa.tensor_copy(dst, kept)
    return dst


__all__ = ["dropout", "rand", "random_seed"]
