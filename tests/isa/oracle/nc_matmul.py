"""nki.isa.nc_matmul (Tensor Engine).

Chosen where the reference is silent: in transpose mode (gen3 on) every column of ``moving`` must be a unit vector or
zero, else the result is undefined and the oracle refuses; 8-bit input to a wider ``dst`` is not modelled in that mode.
``tile_position`` and ``tile_size`` say where on the array, never what is computed; the onezero flags are hints.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np

from . import numerics, verdict
from .numerics import Array
from .tile import rows
from .vectors import bf16, e4m3, e5m2, f32, vector

TOLERANCE = "(K + 2) * (2**-24 * sum |s||m| + 2**-150) in any order, then one cast; transpose mode (gen3 on) exact"


def _flat(tile: Array, perf_mode: str) -> Array:
    """(contraction, free) as float32 numbers; ``double_row`` splits the contraction over two axes."""
    values = numerics.read(tile)
    if perf_mode == "double_row":
        assert tile.shape[1] == 2
        values = np.concatenate([values[:, 0], values[:, 1]], axis=0)
    return values.reshape(values.shape[0], -1)


def sums(left: Array, right: Array) -> tuple[Array, Array, Array]:
    """Sums over the first axes of the products of every two columns, of their magnitudes, and of the finite ones.

    Products of float32 numbers are exact in float64, and finite if both factors are.
    """
    sizes = [np.abs(left), np.abs(right)]
    numbers = [np.where(np.isfinite(size), size, 0.0) for size in sizes]
    return tuple(np.einsum("ki,kj->ij", *pair) for pair in ([left, right], sizes, numbers))  # type: ignore[return-value]


def product(dst: Array, left: Array, right: Array, asked: Mapping[str, Any]) -> tuple[Array, Array, Array]:
    """Real sums, the error of a float32 evaluation in any order, and where it may overflow.

    Without ``accumulate`` the first matmul into a place overwrites and later ones add: ``written`` says that one came
    before. A product goes through K + 1 roundings at most: its own, the additions of others, that to PSUM. Each adds
    2**-24 of its result. K of them, the products or what they are fused with, may also add half of the spacing of
    subnormal numbers, 2**-149; additions alone are exact there. The rest of K + 2 is for errors of errors:
    (K + 2)**2 < 2**24.
    """
    accumulate = asked.get("accumulate")
    with np.errstate(all="ignore"):
        total, size, finite = sums(left, right)
        if asked.get("written", False) if accumulate is None else accumulate:
            before = numerics.read(rows(dst))
            total, size = total + before, size + np.abs(before)
            finite = finite + np.where(np.isfinite(before), np.abs(before), 0.0)
        error = (left.shape[0] + 2) * (2.0**-24 * size + 2.0**-150)
    return total, np.where(np.isnan(error), np.inf, error), verdict.overflows(finite)


def _asked(dst: Array, asked: Mapping[str, Any]) -> tuple[Array, Array, Array] | None:
    """As :func:`product`; None of an instruction that transposes, which moves bits."""
    if asked.get("is_transpose", False) and asked.get("target", "gen3") != "gen2":
        return None
    operands = (_flat(asked[name], asked.get("perf_mode", "none")) for name in ("stationary", "moving"))
    return product(dst, *operands, asked)


def oracle(dst: Array, **asked: Any) -> Array:
    """``stationary.T @ moving``, or that added to ``dst``.

    A bfloat16 ``dst`` (gen4) is widened, added to in float32, and rounded once. Reference: nki.isa.nc_matmul;
    Trainium2 architecture guide, "Double FP8" and "Built-in Transpose Support"; Trainium3 guide, "BF16 Matmul Results".
    """
    made = _asked(dst, asked)
    if made is None:
        return _transpose(dst, asked["stationary"], asked["moving"])
    return numerics.write(made[0], dst.dtype).reshape(dst.shape)


def _transpose(dst: Array, stationary: Array, moving: Array) -> Array:
    source, unit = rows(stationary), numerics.read(rows(moving))
    assert dst.dtype == stationary.dtype
    result = np.zeros((source.shape[1], unit.shape[1]), dst.dtype)
    for column in range(unit.shape[1]):
        hits = np.flatnonzero(unit[:, column])
        assert hits.size <= 1 and np.all(unit[hits, column] == 1.0)
        for row in hits:
            result[:, column] = source[row]
    return result.reshape(dst.shape)


def bounds(dst: Array, **asked: Any) -> verdict.Bounds | None:
    made = _asked(dst, asked)
    return None if made is None else verdict.around(made[0], made[1], dst, made[2])


_left = f32([1, 2], [3, 4], [5, 6])
_right = f32([1, 0, -1, 2], [0, 1, 1, 2], [1, 1, 0, 2])
_want = f32([6, 8, 2, 18], [8, 10, 2, 24])
_seven = np.full((2, 4), 7, np.float32)
_odd = f32([np.nan, np.inf], [-0.0, 1.0])
VECTORS = [
    vector(
        _want,
        dst=_seven,
        stationary=_left.astype(ml_dtypes.bfloat16),
        moving=_right.astype(ml_dtypes.bfloat16),
        written=False,
    ),
    vector(_want + 7, dst=_seven, stationary=_left, moving=_right, accumulate=True),
    vector(_want + 7, dst=_seven, stationary=_left, moving=_right, written=True),
    vector(_want, dst=_seven, stationary=_left, moving=_right, written=True, accumulate=False),
    # double_row: element (k, j) of the halves is row j * K + k of the contraction: [1 2 3 4] @ [1 10 100 1000].
    vector(
        f32(1 + 32 + 0.75 + 256),
        stationary=e4m3([[1], [3]], [[2], [4]]),
        moving=e5m2([[1], [0.25]], [[16], [64]]),
        perf_mode="double_row",
    ),
    # bfloat16 in PSUM: 256 + 3 = 259 is a tie and goes to the even 260.
    vector(bf16(260), dst=bf16(256), stationary=bf16(1), moving=bf16(3), accumulate=True, target="gen4"),
    vector(_odd.T, stationary=_odd, moving=np.eye(2, dtype=np.float32), is_transpose=True),
    # gen2 has no such mode: a NaN or infinity spreads, since 0 * inf is NaN.
    vector(
        f32([np.nan, np.nan], [np.inf, np.nan]),
        stationary=_odd,
        moving=np.eye(2, dtype=np.float32),
        is_transpose=True,
        target="gen2",
    ),
]
