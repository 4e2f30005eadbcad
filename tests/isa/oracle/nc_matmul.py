"""nki.isa.nc_matmul (Tensor Engine).

Chosen where the reference is silent: in transpose mode (gen3 on) every column of ``moving`` must be a unit vector or
zero, else the result is undefined and the oracle refuses; 8-bit input to a wider ``dst`` is not modelled in that mode.
``tile_position`` and ``tile_size`` say where on the array, never what is computed; the onezero flags are hints.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from . import numerics, verdict
from .numerics import Array
from .tile import rows

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


def _product(dst: Array, stationary: Array, moving: Array, perf_mode: str, adds: bool) -> tuple[Array, Array, Array]:
    """Real sums, the error of a float32 evaluation in any order, and where it may overflow.

    A product goes through K + 1 roundings at most: its own, the additions of others, that to PSUM. Each adds 2**-24 of
    its result. K of them, the products or what they are fused with, may also add half of the spacing of subnormal
    numbers, 2**-149; additions alone are exact there. The rest of K + 2 is for errors of errors: (K + 2)**2 < 2**24.
    """
    left, right = _flat(stationary, perf_mode), _flat(moving, perf_mode)
    with np.errstate(all="ignore"):
        total, size, finite = sums(left, right)
        if adds:
            before = numerics.read(rows(dst))
            total, size = total + before, size + np.abs(before)
            finite = finite + np.where(np.isfinite(before), np.abs(before), 0.0)
        error = (left.shape[0] + 2) * (2.0**-24 * size + 2.0**-150)
    return total, np.where(np.isnan(error), np.inf, error), verdict.overflows(finite)


def _adds(accumulate: bool | None, written: bool) -> bool:
    return written if accumulate is None else accumulate


def oracle(
    dst: Array,
    *,
    stationary: Array,
    moving: Array,
    is_transpose: bool = False,
    accumulate: bool | None = None,
    perf_mode: str = "none",
    written: bool = False,
    target: str = "gen3",
    **_: Any,
) -> Array:
    """``stationary.T @ moving``, or that added to ``dst``.

    Without ``accumulate`` the first matmul into a place overwrites and later ones add: ``written`` says that one came
    before. A bfloat16 ``dst`` (gen4) is widened, added to in float32, and rounded once. Reference: nki.isa.nc_matmul;
    Trainium2 architecture guide, "Double FP8" and "Built-in Transpose Support"; Trainium3 guide, "BF16 Matmul Results".
    """
    if is_transpose and target != "gen2":
        return _transpose(dst, stationary, moving)
    total = _product(dst, stationary, moving, perf_mode, _adds(accumulate, written))[0]
    return numerics.write(total, dst.dtype).reshape(dst.shape)


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


def bounds(
    dst: Array,
    *,
    stationary: Array,
    moving: Array,
    is_transpose: bool = False,
    accumulate: bool | None = None,
    perf_mode: str = "none",
    written: bool = False,
    target: str = "gen3",
    **_: Any,
) -> verdict.Bounds | None:
    if is_transpose and target != "gen2":
        return None
    total, error, free = _product(dst, stationary, moving, perf_mode, _adds(accumulate, written))
    return verdict.around(total, error, dst, free)


_bf16, _e4, _e5 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3, ml_dtypes.float8_e5m2
_left = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
_right = np.array([[1, 0, -1, 2], [0, 1, 1, 2], [1, 1, 0, 2]], np.float32)
_want = np.array([[6, 8, 2, 18], [8, 10, 2, 24]], np.float32)
_seven = np.full((2, 4), 7, np.float32)
_odd = np.array([[np.nan, np.inf], [-0.0, 1.0]], np.float32)
VECTORS = [
    ({"dst": _seven, "stationary": _left.astype(_bf16), "moving": _right.astype(_bf16), "written": False}, _want),
    ({"dst": _seven, "stationary": _left, "moving": _right, "accumulate": True}, _want + 7),
    ({"dst": _seven, "stationary": _left, "moving": _right, "written": True}, _want + 7),
    ({"dst": _seven, "stationary": _left, "moving": _right, "written": True, "accumulate": False}, _want),
    # double_row: element (k, j) of the halves is row j * K + k of the contraction: [1 2 3 4] @ [1 10 100 1000].
    (
        {
            "dst": np.zeros((1, 1), np.float32),
            "stationary": np.array([[[1], [3]], [[2], [4]]], _e4),
            "moving": np.array([[[1], [0.25]], [[16], [64]]], _e5),
            "perf_mode": "double_row",
        },
        np.array([[1 + 32 + 0.75 + 256]], np.float32),
    ),
    # bfloat16 in PSUM: 256 + 3 = 259 is a tie and goes to the even 260.
    (
        {
            "dst": np.array([[256]], _bf16),
            "stationary": np.array([[1]], _bf16),
            "moving": np.array([[3]], _bf16),
            "accumulate": True,
            "target": "gen4",
        },
        np.array([[260]], _bf16),
    ),
    (
        {
            "dst": np.zeros((2, 2), np.float32),
            "stationary": _odd,
            "moving": np.eye(2, dtype=np.float32),
            "is_transpose": True,
        },
        _odd.T,
    ),
    # gen2 has no such mode: a NaN or infinity spreads, since 0 * inf is NaN.
    (
        {
            "dst": np.zeros((2, 2), np.float32),
            "stationary": _odd,
            "moving": np.eye(2, dtype=np.float32),
            "is_transpose": True,
            "target": "gen2",
        },
        np.array([[np.nan, np.nan], [np.inf, np.nan]], np.float32),
    ),
]
