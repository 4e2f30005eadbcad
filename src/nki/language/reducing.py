"""Reductions over free dimensions, and what is made of them: ``nl.sum``, ``nl.softmax``, ``nl.rms_norm`` and more."""

from __future__ import annotations

import math
import operator
from typing import Any, Final, cast

from nki import isa
from nki.base import element_types as dt
from nki.base.errors import ArgumentError, ShapeError, keep_report
from nki.isa.tables.operators import OPS
from nki.language.elementwise import apply, combine
from nki.language.nki_tensor import NkiTensor
from nki.language.operands import aligned, lifted, result, scratch, spread, tile_of


def sum(x: Any, axis: Any, dtype: Any = None, keepdims: bool = False) -> NkiTensor:
    """The sum over ``axis``, added in float32 from left to right: ``nisa.tensor_reduce``.

    ``x``: a tile in SBUF or PSUM. ``axis``: one or more of its dimensions, never dimension 0; other than the last ones
    only with a :class:`NkiPortabilityWarning`. ``dtype``: of the result, by default the dtype of ``x``. ``keepdims``
    leaves the reduced dimensions with size 1; without it they go, except that a tile keeps two dimensions. Raises
    :class:`ShapeError` for other axes.
    """
    return _reduced("sum", "add", x, axis, dtype, keepdims)


def max(x: Any, axis: Any, dtype: Any = None, keepdims: bool = False) -> NkiTensor:
    """The largest element over ``axis``, NaN if there is one: ``nisa.tensor_reduce``. Arguments as of :func:`sum`."""
    return _reduced("max", "maximum", x, axis, dtype, keepdims)


def min(x: Any, axis: Any, dtype: Any = None, keepdims: bool = False) -> NkiTensor:
    """The smallest element over ``axis``, NaN if there is one: ``nisa.tensor_reduce``. Arguments as of :func:`sum`."""
    return _reduced("min", "minimum", x, axis, dtype, keepdims)


# As operators of instructions, too (NKI reference, nki.isa.tensor_scalar_reduce).
max.operator, min.operator = OPS["maximum"], OPS["minimum"]  # type: ignore[attr-defined]  # of a function


def prod(x: Any, axis: Any, dtype: Any = None, keepdims: bool = False) -> NkiTensor:
    """The product over ``axis``, in float32 from left to right: ``nisa.tensor_reduce``. Arguments as of :func:`sum`."""
    return _reduced("prod", "multiply", x, axis, dtype, keepdims)


def all(x: Any, axis: Any, dtype: Any = None) -> NkiTensor:
    """1 where no element over ``axis`` is 0, else 0: ``nisa.tensor_reduce``. Arguments as of :func:`sum`."""
    return _reduced("all", "logical_and", x, axis, dtype, False)


def mean(x: Any, axis: Any, dtype: Any = None, keepdims: bool = False) -> NkiTensor:
    """The sum over ``axis`` times the reciprocal of the number of elements, rounded to ``dtype`` only at the end.

    Arguments as of :func:`sum`. Emits ``nisa.tensor_reduce`` and ``nisa.tensor_scalar``.
    """
    tile, axes = _arguments("nl.mean", x, axis)
    dst = result("mean", _left(tile, axes, keepdims), tile.dtype if dtype is None else dtype)
    _mean(dst, tile, axes)
    return dst


def var(x: Any, axis: Any, dtype: Any = None, keepdims: bool = False) -> NkiTensor:  # noqa: ARG001
    """The mean over ``axis`` of the squared distance from the mean, in float32; the reduced dimensions keep size 1.

    Arguments as of :func:`sum`; ``keepdims`` changes nothing, as in NKI. Emits ``nisa.tensor_reduce``,
    ``nisa.tensor_scalar``, ``nisa.tensor_tensor`` and ``nisa.activation``.
    """
    tile, axes = _arguments("nl.var", x, axis)
    dst = result("var", _left(tile, axes, True), tile.dtype if dtype is None else dtype)
    middle, distance = scratch("mean", dst.shape), scratch("distance", tile.shape)
    _mean(middle, tile, axes)
    combine(distance, OPS["subtract"], tile, spread(middle, tile.shape))
    isa.activation(distance, OPS["square"], distance)
    _mean(dst, distance, axes)
    return dst


def softmax(x: Any, axis: Any = -1, dtype: Any = None) -> NkiTensor:
    """``exp(x - max)`` over its sum, both over ``axis``; all in float32.

    Arguments as of :func:`sum`; the result has the shape of ``x``. Emits ``nisa.tensor_reduce``,
    ``nisa.tensor_tensor``, ``nisa.activation`` and ``nisa.reciprocal``.
    """
    tile, axes = _arguments("nl.softmax", x, axis)
    dst = result("softmax", tile.shape, tile.dtype if dtype is None else dtype)
    column, raised = scratch("scale", _left(tile, axes, True)), scratch("raised", tile.shape)
    _fold(column, "maximum", tile, axes)
    combine(raised, OPS["subtract"], tile, spread(column, tile.shape))
    isa.activation(raised, OPS["exp"], raised)
    _fold(column, "add", raised, axes)
    isa.reciprocal(column, column)
    combine(dst, OPS["multiply"], raised, spread(column, tile.shape))
    return dst


def rms_norm(
    x: Any, w: Any, axis: Any, n: int, epsilon: float = 1e-6, dtype: Any = None, compute_dtype: Any = None
) -> NkiTensor:
    """``x / sqrt(sum(x * x) / n + epsilon) * w``, the sum over ``axis``.

    ``x``: as of :func:`sum`. ``w``: a tile like ``x``; with a :class:`NkiPortabilityWarning` also one with dimensions
    of size 1, which are repeated. ``n``: what the sum is divided by. ``dtype``: of the result, by default as ``x``.
    ``compute_dtype``: of what is in between, by default float32. Emits ``nisa.activation``, ``nisa.tensor_reduce``,
    ``nisa.tensor_scalar`` and ``nisa.tensor_tensor``.
    """
    tile, axes = _arguments("nl.rms_norm", x, axis)
    weight = tile_of(w, "nl.rms_norm", "w")
    if not isinstance(n, int | float) or n <= 0:  # pyright: ignore[reportUnnecessaryIsInstance]  # users write it
        raise ArgumentError(f"nl.rms_norm: n={n!r} is no positive number", fix="pass the number of elements of a sum")
    dst = result("rms_norm", tile.shape, tile.dtype if dtype is None else dtype)
    kind = dt.float32 if compute_dtype is None else dt.of(compute_dtype)
    squares, column = scratch("squares", tile.shape, kind), scratch("scale", _left(tile, axes, True), kind)
    isa.activation(squares, OPS["square"], tile)
    _fold(column, "add", squares, axes)
    isa.tensor_scalar(column, column, OPS["multiply"], 1.0 / n, op1=OPS["add"], operand1=float(epsilon))
    apply(column, "rsqrt", column)
    combine(squares, OPS["multiply"], tile, spread(column, tile.shape))
    _, weight = aligned("nl.rms_norm", x=tile, w=weight)
    combine(dst, OPS["multiply"], squares, weight)
    return dst


def _reduced(what: str, op: str, x: Any, axis: Any, dtype: Any, keepdims: bool) -> NkiTensor:
    tile, axes = _arguments(f"nl.{what}", x, axis)
    dst = result(what, _left(tile, axes, keepdims), tile.dtype if dtype is None else dtype)
    _fold(dst, op, tile, axes)
    return dst


_OF_TWO: Final = {"nl.max": "nl.maximum", "nl.min": "nl.minimum", "nl.sum": "nl.add", "nl.prod": "nl.multiply"}
"""The functions of two tiles that other libraries call by the name of a reduction."""


def _arguments(what: str, x: Any, axis: Any) -> tuple[NkiTensor, tuple[int, ...]]:
    """The tile and its reduced dimensions, counted from the front and sorted."""
    tile = tile_of(x, what)
    entries: tuple[Any, ...] = tuple(cast("list[Any]", axis)) if isinstance(axis, tuple | list) else (axis,)
    try:
        axes = tuple(sorted(a + tile.ndim if a < 0 else a for a in map(operator.index, entries)))
    except TypeError as misfit:
        keep_report(misfit)
        two = _OF_TWO.get(what, "") if isinstance(axis, float | NkiTensor) else ""
        fix = (
            f"pass 1, or (1, 2); of two tiles, or a tile and a number, it is `{two}(x, y)`"
            if two
            else "pass 1, or (1, 2)"
        )
        raise ArgumentError(f"{what}: axis={axis!r} is no integer, nor several", fix=fix) from None
    if not axes or len(set(axes)) < len(axes) or axes[0] < 1 or axes[-1] >= tile.ndim:
        raise ShapeError(
            f"{what}: axis={axis!r} of '{tile.name}' {tile.shape}: only "
            f"{'dimension 1' if tile.ndim == 2 else f'dimensions 1 to {tile.ndim - 1}'} can be reduced, and once",
            fix="for dimension 0 transpose the tile first, or use nisa.tensor_partition_reduce",
        )
    if axes[0] != tile.ndim - len(axes):
        lifted(
            f"{what}: axis={axis!r} of '{tile.name}' {tile.shape} are not its last dimensions; NKI's own "
            "functions reduce only those (NKI reference, nki.language)"
        )
    return tile, axes


def _left(tile: NkiTensor, axes: tuple[int, ...], keepdims: bool) -> tuple[int, ...]:
    """The shape of ``tile`` reduced over ``axes``."""
    if keepdims:
        return tuple(1 if dim in axes else size for dim, size in enumerate(tile.shape))
    shape = tuple(size for dim, size in enumerate(tile.shape) if dim not in axes)
    return shape if len(shape) > 1 else (*shape, 1)


def _fold(dst: NkiTensor, op: str, tile: NkiTensor, axes: tuple[int, ...]) -> None:
    """``dst`` = ``tile`` folded with ``op`` over ``axes``, which a view puts last."""
    order = (*(dim for dim in range(tile.ndim) if dim not in axes), *axes)
    view = tile if order == tuple(range(tile.ndim)) else tile.permute(order)
    isa.tensor_reduce(dst, OPS[op], view, tuple(range(tile.ndim - len(axes), tile.ndim)))


def _mean(dst: NkiTensor, tile: NkiTensor, axes: tuple[int, ...]) -> None:
    total = scratch("total", dst.shape)
    _fold(total, "add", tile, axes)
    isa.tensor_scalar(dst, total, OPS["multiply"], 1.0 / math.prod(tile.shape[a] for a in axes))


__all__ = ["all", "max", "mean", "min", "prod", "rms_norm", "softmax", "sum", "var"]
