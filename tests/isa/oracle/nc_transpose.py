"""nki.isa.nc_transpose.

Chosen where the reference is silent: on gen2 only the rows that a NaN or infinity reaches lose their bits; all finite
data, -0 included, comes through.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import numerics
from .numerics import Array
from .tile import rows
from .vectors import f32, i8, vector


def copies_bits(dst: Array, *, data: Array, engine: str = "unknown", target: str = "gen3", **_: Any) -> bool:
    return not (engine == "tensor" and target == "gen2")


def oracle(dst: Array, *, data: Array, engine: str = "unknown", target: str = "gen3", **_: Any) -> Array:
    """Partition and (flattened) free axis change places, bit for bit.

    On gen2 the Tensor Engine multiplies by an identity matrix: where a column holds a NaN or an infinity, 0 * inf puts
    NaN into the rest of its row. Reference: nki.isa.nc_transpose.
    """
    if dst.dtype != data.dtype:
        assert target == "gen2" and dst.dtype == np.float32 and data.dtype.name in ("bfloat16", "float16")
        return oracle(np.zeros(dst.shape, data.dtype), data=data, engine=engine, target=target).astype(np.float32)
    source = rows(numerics.bits(data))
    words = np.empty((source.shape[1], source.shape[0]), source.dtype)
    for p in range(source.shape[0]):
        for i in range(source.shape[1]):
            words[i, p] = source[p, i]
    result = words.view(dst.dtype)
    if target == "gen2" and engine == "tensor" and data.dtype.name in numerics.FORMATS:
        for row in range(result.shape[0]):
            bad = np.flatnonzero(~np.isfinite(numerics.exact(result[row])))
            for p in range(result.shape[1]):
                if any(other != p for other in bad.tolist()):
                    result[row, p] = numerics.write(np.array([np.nan]), dst.dtype)[0]
    return result.reshape(dst.shape)


_data = f32([1, np.inf, -0.0], [4, 5, 6])
VECTORS = [
    vector(f32([1, 4], [np.inf, 5], [-0.0, 6]), data=_data),
    vector(f32([1, 4], [np.inf, np.nan], [-0.0, 6]), data=_data, engine="tensor", target="gen2"),
    vector(i8([0, 4], [1, 5], [2, 6], [3, 7]), data=np.arange(8, dtype=np.int8).reshape(2, 2, 2)),
]
