"""What vectors are written with: small arrays by their dtype, and what an instruction is asked beside its result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes
import numpy as np

from .numerics import Array


def _of(kind: Any) -> Callable[..., Array]:
    def tile(*numbers: Any) -> Array:
        """One partition of numbers, or a partition for each list."""
        return np.array(numbers if isinstance(numbers[0], list) else [numbers], kind)

    return tile


f32, f16, bf16 = _of(np.float32), _of(np.float16), _of(ml_dtypes.bfloat16)
e4m3, e4m3fn, e5m2 = _of(ml_dtypes.float8_e4m3), _of(ml_dtypes.float8_e4m3fn), _of(ml_dtypes.float8_e5m2)
i8, i16, i32, i64 = map(_of, (np.int8, np.int16, np.int32, np.int64))
u8, u16, u32 = map(_of, (np.uint8, np.uint16, np.uint32))


def vector(want: Any, common: Mapping[str, Any] | None = None, /, **asked: Any) -> tuple[dict[str, Any], Any]:
    """What an oracle is asked, which is ``common`` to several vectors or ``asked`` by this one; and the result.

    ``dst`` holds zeros before, unless it is told what else.
    """
    first = want[0] if isinstance(want, tuple) else want
    return {"dst": np.zeros_like(first), **(common or {}), **asked}, want


def by_position(*names: str) -> Callable[..., tuple[dict[str, Any], Any]]:
    """:func:`vector` that takes the arguments ``names`` in this order behind the result."""
    return lambda want, *values, **more: vector(want, dict(zip(names, values, strict=True)), **more)
