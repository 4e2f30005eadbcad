"""Assignment into a view: ``t[…] = tile`` is a copy, ``nisa.tensor_copy`` on chip and ``nisa.dma_copy`` elsewhere.

The stub of NKI 0.7 declares ``NkiTensor.__setitem__`` without its rules. These are the rules of the two instructions,
and one more: the copies pair elements in row-major order whatever the shapes, so an assignment asks for equal shapes.
"""

from __future__ import annotations

from typing import Any

from nki import isa
from nki.base.errors import ArgumentError, NkiError, ShapeError, TensorOperatorError
from nki.ir.scalars import NkiScalar
from nki.ir.types import Access, Buffer, access_of


def assign(dst: Access, value: Any) -> None:
    """Record the copy of the tensor ``value`` to ``dst``.

    Shapes are equal, dimensions of size 1 aside (:class:`ShapeError`). Raises :class:`TensorOperatorError` for a
    number, :class:`ArgumentError` for another value that is no tensor, and what the copies raise.
    """
    src = access_of(value)
    if not isinstance(src, Access) or src.buffer is Buffer.register:
        raise _no_tensor(dst, src)
    copy, name = (isa.dma_copy, "dma_copy") if _by_dma(dst, src) else (isa.tensor_copy, "tensor_copy")
    if src.shape != dst.shape and _without_ones(src.shape) != _without_ones(dst.shape):
        raise ShapeError(
            f"assignment of '{src.name}' {src.shape} into '{dst.name}' {dst.shape}: the shapes differ",
            fix="slice both to one shape; to copy elements in row-major order between different shapes, write "
            f"nisa.{name}(dst=…, src=…)",
        )
    copy(dst, src)


def _by_dma(dst: Access, src: Access) -> bool:
    return dst.buffer.is_hbm or src.buffer.is_hbm


def _without_ones(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(size for size in shape if size != 1)


def _no_tensor(dst: Access, value: Any) -> NkiError:
    if isinstance(value, Access):
        kind = "scalar" if isinstance(value, NkiScalar) else "register"
        return ArgumentError(
            f"assignment into '{dst.name}' of {kind} '{value.name}', which is no tensor",
            fix=f"store it: nisa.{kind}_store({dst.name}[…], {value.name})",
        )
    message = f"assignment into '{dst.name}' of {value!r:.40} ({type(value).__name__}), which is no tensor"
    if not isinstance(value, int | float):
        fix = "assign a tensor; nl.shared_constant(array) is one with the contents of a NumPy array"
        return ArgumentError(message, fix=fix)
    full = f"nl.store({dst.name}[…], nl.full({dst.shape}, {value!r}, nl.{dst.dtype}))"
    fix = f"fill it: {full if dst.buffer.is_hbm else f'nisa.memset({dst.name}[…], {value!r})'}"
    return TensorOperatorError(message, fix=fix)


__all__ = ["assign"]
