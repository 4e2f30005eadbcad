"""Arguments that have a shape and a dtype, and no data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nki.base import dtype as dtypes
from nki.base.dtype import DType


@dataclass(frozen=True)
class ShapeDtype:
    """A tensor argument without data: its ``shape``, and its ``dtype`` as NKI's, NumPy's or a name."""

    shape: tuple[int, ...]
    dtype: Any


def is_shape_only(value: Any) -> bool:
    """Test if ``value`` describes a tensor without holding data: :class:`ShapeDtype`, JAX's ``ShapeDtypeStruct``, a
    tensor on PyTorch's meta device, and any other object with ``shape`` and ``dtype`` that cannot be read.
    """
    if isinstance(value, np.ndarray | np.generic):
        return False
    if getattr(getattr(value, "device", None), "type", "") == "meta":
        return True
    has_shape = hasattr(value, "shape") and hasattr(value, "dtype")
    return has_shape and not (hasattr(value, "__array__") or hasattr(value, "__dlpack__"))


def placeholder(value: Any) -> Any:
    """An array of the shape and dtype of ``value`` that takes no memory, if it has no data; else ``value``."""
    if not is_shape_only(value):
        return value
    kind: NDArray[Any] = np.zeros((), _numpy_dtype(value.dtype))
    return np.broadcast_to(kind, tuple(value.shape))


def _numpy_dtype(kind: Any) -> Any:
    if isinstance(kind, DType):
        return kind.dtype
    name = str(kind).removeprefix("torch.")
    try:
        return np.dtype(kind)
    except TypeError:
        return dtypes.of(name).dtype
