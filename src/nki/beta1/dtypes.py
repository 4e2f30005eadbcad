"""Element types: NumPy's on the surface, as in Beta 1; the compiler's inside."""

from __future__ import annotations

from typing import Any, Final, cast

import ml_dtypes
import numpy as np

from nki.base import element_types as dt
from nki.base.element_types import DType
from nki.language.operands import promoted

bfloat16: Final = np.dtype(ml_dtypes.bfloat16)
float8_e4m3: Final = np.dtype(ml_dtypes.float8_e4m3)
float8_e4m3fn: Final = np.dtype(ml_dtypes.float8_e4m3fn)
float8_e5m2: Final = np.dtype(ml_dtypes.float8_e5m2)
tfloat32: Final = dt.tfloat32


def chosen(dtype: Any, otherwise: DType) -> DType:
    """The compiler's type for the argument ``dtype`` of a function, ``otherwise`` for None."""
    return otherwise if dtype is None else dt.of(dtype)


def surface(kind: DType) -> Any:
    """The type that a kernel sees: NumPy's, and for tfloat32, which NumPy lacks, the compiler's own."""
    return kind if kind is dt.tfloat32 else kind.dtype


def of_sides(*kinds: DType | float | bool) -> DType:
    """The type of a result of tiles of these types and numbers, which are weak: int32 and float32 where alone."""
    tiles = [k for k in kinds if isinstance(k, DType)]
    numbers = [k for k in kinds if not isinstance(k, DType)]
    if not tiles:
        if any(isinstance(n, float) for n in numbers):
            return dt.float32
        return dt.uint8 if all(isinstance(n, bool) for n in numbers) else dt.int32
    result = tiles[0]
    for kind in tiles[1:]:
        result = promoted(result, kind)
    if not result.is_float and any(isinstance(n, float) for n in numbers):
        return dt.float32
    return result


def finfo(dtype: Any) -> Any:
    """The limits of a floating type."""
    return cast("Any", ml_dtypes).finfo(dt.of(dtype).dtype)


class _Limits:
    """``nl.fp32`` and ``nl.bfp16``: the smallest and largest finite numbers."""

    def __init__(self, dtype: Any) -> None:
        limits: Any = finfo(dtype)
        self.min = float(limits.min)
        self.max = float(limits.max)
        self.eps = float(limits.eps)
        self.tiny = float(limits.tiny)


fp32: Final = _Limits(np.float32)
bfp16: Final = _Limits(bfloat16)
fp16: Final = _Limits(np.float16)
