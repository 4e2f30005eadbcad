"""Arguments that have a shape and a dtype, and no data."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nki.base import element_types as dtypes
from nki.base.element_types import DType
from nki.base.errors import KernelArgumentError, UnknownDTypeError


@dataclass(frozen=True)
class ShapeDtype:
    """A tensor argument without data: its ``shape``, and its ``dtype`` as NKI's, NumPy's or a name.

    Raises :class:`KernelArgumentError` for a shape that is no tuple of whole numbers, and :class:`UnknownDTypeError`.
    """

    shape: tuple[int, ...]
    dtype: Any

    def __post_init__(self) -> None:
        shape = _sizes(self.shape)
        if not shape or min(shape) < 1:
            raise KernelArgumentError(
                f"ShapeDtype({self.shape!r}, …): a shape is a tuple of whole numbers, each at least 1",
                fix="write nki.ShapeDtype((128, 512), 'float32')",
            )
        object.__setattr__(self, "shape", shape)
        try:
            dtypes.of(_without_package(self.dtype))
        except UnknownDTypeError as error:
            near = "int32" if "int" in str(self.dtype) else "float32"
            fix = f"use {near!r} or another dtype of NKI"
            raise UnknownDTypeError(f"ShapeDtype({shape}, …): {error.message}", fix=fix) from None


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


def _sizes(shape: Any) -> tuple[int, ...] | None:
    """``shape`` as whole numbers; None if it is none."""
    try:
        return tuple(map(operator.index, shape))
    except TypeError:
        return None


def placeholder(value: Any) -> Any:
    """An array of the shape and dtype of ``value`` that takes no memory, if it has no data; else ``value``.

    Raises :class:`KernelArgumentError` for a shape that is no tuple of whole numbers, as one with symbols.
    """
    if not is_shape_only(value):
        return value
    if _sizes(value.shape) is None or min(value.shape, default=0) < 0 or value.dtype is None:
        raise KernelArgumentError(
            f"an argument has shape {value.shape!r:.60} and dtype {value.dtype!r:.60}: a kernel is specialised for "
            "whole numbers and a dtype",
            fix="pass an array, or write nki.ShapeDtype((128, 512), 'float32')",
        )
    kind: NDArray[Any] = np.zeros((), _numpy_dtype(value.dtype))
    return np.broadcast_to(kind, tuple(value.shape))


def _without_package(kind: Any) -> Any:
    """The name of a dtype of PyTorch; any other as it is."""
    name = str(kind)
    return name.removeprefix("torch.") if name.startswith("torch.") else kind


def _numpy_dtype(kind: Any) -> Any:
    if isinstance(kind, DType):
        return kind.dtype
    kind = _without_package(kind)
    try:
        return np.dtype(kind)
    except TypeError:
        return dtypes.of(kind).dtype
