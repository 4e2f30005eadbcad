"""nki.isa.nc_matmul_mx (Tensor Engine, gen4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np

from . import microscaling, numerics, verdict
from .nc_matmul import product
from .numerics import Array
from .vectors import bf16, f32, vector

TOLERANCE = "(4 K + 2) * 2**-24 * sum |s||m| in any order of addition, then one cast"


def _dequantised(words: Array, name: str, scale: Array) -> Array:
    """(4 x partitions, elements) numbers with their scales, as float32 holds them."""
    values = microscaling.numbers(words, name) * microscaling.factors(scale, words.shape[0])[:, :, None]
    return numerics.round32(values.transpose(2, 0, 1).reshape(-1, values.shape[1]))


def _asked(dst: Array, asked: Mapping[str, Any]) -> tuple[Array, Array, Array]:
    left, right = (_dequantised(asked[n], asked[f"{n}_dtype"], asked[f"{n}_scale"]) for n in ("stationary", "moving"))
    return product(dst, left, right, asked)


def oracle(dst: Array, **asked: Any) -> Array:
    """``stationary.T @ moving`` over partitions and packed numbers, each times its group's scale, or that added.

    Reference: nki.isa.nc_matmul_mx; Trainium3 architecture guide, "Quad-MXFP8/MXFP4 Matmul Performance".
    """
    return numerics.write(_asked(dst, asked)[0], dst.dtype).reshape(dst.shape)


def bounds(dst: Array, **asked: Any) -> verdict.Bounds:
    total, error, free = _asked(dst, asked)
    return verdict.around(total, error, dst, free)


def _codes(count: int, *first: int) -> Array:
    """Scales of ``count`` columns on 100 partitions: 1.0 for groups that are not given, in every quadrant."""
    made = np.full((100, count), 3, np.uint8)
    for group in range(16):
        made[microscaling.row_of(group)] = first[group] if group < len(first) else 127
    return made


def _sparse(count: int, kind: Any, *numbers: tuple[int, int, int]) -> Array:
    """128 partitions of zeros with a few (partition, element, word)."""
    made = np.zeros((128, count), kind)
    for partition, element, word in numbers:
        made[partition, element] = word
    return made


_e4, _e5, _f4 = "float8_e4m3fn_x4", "float8_e5m2_x4", "float4_e2m1fn_x4"
_seven = np.full((2, 1), 7, np.float32)
# 1.0 is 0x38 in e4m3fn, 0x3c in e5m2, 0x2 in e2m1; 2.0 is 0x40, 0x40, 0x4.
_left = _sparse(2, np.uint32, (0, 0, 0x4038_4038), (127, 0, 0x38), (127, 1, 0x40))
_right = _sparse(1, np.uint32, (0, 0, 0x403C_3C3C), (127, 0, 0x3C))
_four = _sparse(1, np.uint16, (0, 0, 0x7531), (127, 0, 0xF))
VECTORS = [
    # 1*1 + 2*1 + 1*1 + 2*2 on partition 0, 1*1 or 2*1 on partition 127.
    vector(
        f32([9], [2]),
        dst=_seven,
        stationary=_left,
        stationary_dtype=_e4,
        moving=_right,
        moving_dtype=_e5,
        stationary_scale=_codes(2),
        moving_scale=_codes(1),
        accumulate=False,
    ),
    # Group 0 of stationary counts twice, group 15 of moving four times; e2m1: 0.5 1.5 3 6 and -6.
    vector(
        f32([7 + 2 * (0.5 + 3 + 3 + 12) - 24], [7 - 48]),
        dst=_seven,
        stationary=_left,
        stationary_dtype=_e4,
        moving=_four,
        moving_dtype=_f4,
        stationary_scale=_codes(2, 128),
        moving_scale=_codes(1, *[127] * 15, 129),
        accumulate=True,
    ),
    # bfloat16 in PSUM: 256 + 1 = 257 is a tie and goes to the even 256. The scale dtype of the standard.
    vector(
        bf16([256], [0]),
        dst=bf16([256], [0]),
        stationary=_sparse(2, np.uint32, (64, 0, 0x38)),
        stationary_dtype=_e4,
        moving=_sparse(1, np.uint32, (64, 0, 0x38)),
        moving_dtype=_e4,
        stationary_scale=_codes(2).view(ml_dtypes.float8_e8m0fnu),
        moving_scale=_codes(1).view(ml_dtypes.float8_e8m0fnu),
        written=True,
    ),
]
