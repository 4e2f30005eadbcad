"""nki.isa.quantize_mx (Vector Engine, gen4).

Chosen where the reference is silent: a scale below 2**-127 is 2**-127; an infinity or a NaN counts as a magnitude of
2**128, and becomes what the fp8 format makes of it (infinity becomes NaN in e4m3fn).
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from . import microscaling, numerics
from .numerics import Array

LARGEST = {"float8_e4m3fn_x4": 8, "float8_e5m2_x4": 15}


def oracle(
    dst: Array, *, src: Array, dst_scale: Array, dst_dtype: str, headroom: int = 1, **_: Any
) -> tuple[Array, Array]:
    """The packed quotients, and ``dst_scale`` with its rows written that belong to ``src``.

    Group (g, n) is partitions 8 g to 8 g + 7, elements 4 n to 4 n + 3; its scale is
    ``2 ** (floor(log2(amax)) - (Emax - 1))``. Reference: nki.isa.quantize_mx, "Scale calculation". Without
    ``headroom`` it is the OCP specification's, 2 ** (floor(log2(amax)) - Emax), and what is too large saturates.
    """
    partitions = src.shape[0]
    values = numerics.exact(src).reshape(partitions, -1, 4)
    scales = dst_scale.copy()
    rows = scales.reshape(scales.shape[0], -1).view(np.uint8)
    quotients = np.empty(values.shape)
    for group in range(partitions // 8):
        inside = slice(8 * group, 8 * group + 8)
        for column in range(values.shape[1]):
            block = values[inside, column]
            largest = 2.0**128 if not np.isfinite(block).all() else float(np.abs(block).max())
            power = int(np.frexp(largest)[1]) - 1 if largest else -(2**20)
            exponent = max(power - (LARGEST[dst_dtype] - headroom), -127)
            quotients[inside, column] = block * 2.0**-exponent
            rows[microscaling.row_of(group), column] = exponent + 127
    if not headroom:
        limit = 448.0 if dst_dtype == "float8_e4m3fn_x4" else 57344.0
        quotients = np.clip(quotients, -limit, limit)
    # A NaN of either sign is stored as the canonical one, as everywhere; e4m3fn has no infinity.
    becomes_nan = np.isnan(quotients) if dst_dtype == "float8_e5m2_x4" else ~np.isfinite(quotients)
    quotients[becomes_nan] = np.nan
    return microscaling.words(quotients, dst_dtype).reshape(dst.shape), rows.view(scales.dtype).reshape(scales.shape)


def _one_group(*first: float, rest: float = 0.0) -> Array:
    """32 partitions of one packed element; the first group's first numbers are given."""
    made = np.full((32, 4), rest, np.float32)
    made[0, : len(first)] = first
    return made.astype(ml_dtypes.bfloat16)


_empty = np.zeros((32, 1), np.uint32)
_untouched = np.full((32, 1), 7, np.uint8)


def _scales(first: int, rest: int = 0) -> Array:
    made = _untouched.copy()
    made[:4] = rest
    made[0] = first
    return made


def _words(*first: int) -> Array:
    made = _empty.copy()
    made[: len(first), 0] = first
    return made


def _vector(name: str, first: tuple[float, ...], word: int, scale: int) -> tuple[dict[str, Any], Any]:
    asked = {"dst": _empty, "dst_dtype": name, "src": _one_group(*first), "dst_scale": _untouched}
    return asked, (_words(word), _scales(scale))


# e4m3fn: scale 2**(floor(log2 amax) - 7); e5m2: 2**(floor(log2 amax) - 14). Codes by hand: 128 is 0x70, 64 0x68.
VECTORS = [
    _vector("float8_e4m3fn_x4", (1.0, 0.5, -1.0, 0.0), 0x00F0_6870, 127 - 7),
    # 1.9921875 * 2**7 = 255 is rounded up to 256, without saturation.
    _vector("float8_e4m3fn_x4", (1.9921875,), 0x78, 127 - 7),
    # 2**14 is 0x74, 1.5 * 2**14 is 0x76, 1.25 * 2**13 is 0x71 in e5m2.
    _vector("float8_e5m2_x4", (6.0, 4.0, 2.5), 0x71_7476, 127 + 2 - 14),
    # A ninth of the range below the largest: 2**-10 * 2**7 = 2**-3 is 0x20; 2**-17 * 2**7 = 2**-10 rounds to even 0.
    _vector("float8_e4m3fn_x4", (1.0, 2.0**-10, 2.0**-17), 0x00_2070, 127 - 7),
    _vector("float8_e4m3fn_x4", (0.0,), 0, 0),
    # Below 2**-120 the scale stays at 2**-127: 2**-125 * 2**127 = 4 is 0x48.
    _vector("float8_e4m3fn_x4", (2.0**-125,), 0x48, 0),
]
