"""Functions of NumPy, PyTorch or JAX that say what a kernel should compute; the rounding that a result may have."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

import numpy as np
from ml_dtypes import finfo
from numpy.typing import NDArray

from nki.jit import adapter_for

ROUNDING: Final = 8.0
"""Units in the last place of the gradient's dtype that it may be off, of its largest element: the cast at the end, and
a few of intermediate tiles in the same dtype."""
SUMMING: Final = 64.0
"""The same of float32, in which engines compute: a sum of n terms loses about sqrt(n) units, of 4096 terms 64."""


REFUSALS: Final = (TypeError, AttributeError)
"""Errors of a function that gets arrays of another framework than its own."""


def of_arrays_or_tensors(reference: Callable[..., Any], torch: Any) -> Callable[..., Any]:
    """``reference`` of NumPy arrays; it gets PyTorch tensors if it refuses arrays, as ``torch.nn.functional`` does.

    ``torch``: the module; None if it is not loaded, but ``reference`` may load it.
    """
    refuses_arrays = False

    def call(*values: Any, **named: Any) -> Any:
        nonlocal refuses_arrays, torch
        if not refuses_arrays:
            try:
                return reference(*values, **named)
            except REFUSALS:
                torch = torch or sys.modules.get("torch")
                if torch is None:
                    raise
                refuses_arrays = True
        tensors = [torch.from_numpy(v) if isinstance(v, np.ndarray) else v for v in values]
        return results_of(reference(*tensors, **named))

    return call


def results_of(found: Any) -> list[Any]:
    """Results or gradients as arrays, None where there is none."""
    items = cast("Sequence[Any]", found) if isinstance(found, (tuple, list)) else [found]
    return [None if item is None else as_array(item) for item in items]


def as_array(item: Any) -> NDArray[Any]:
    """A result as an array. Of PyTorch's tensors NumPy reads float64, which no kernel has, and the bridge bfloat16."""
    if isinstance(item, (np.ndarray, np.generic, float, int)):
        return np.asarray(item)
    item = detached(item)
    try:
        return np.asarray(item)
    except TypeError:
        return adapter_for((item,), {}).to_numpy(item)


def detached(tensor: Any) -> Any:
    """A tensor of PyTorch without its gradient."""
    return tensor.detach() if hasattr(tensor, "detach") else tensor


def eps(dtype: np.dtype[Any]) -> float:
    """The distance from 1 to the next greater number of a float dtype."""
    return float(cast("Any", finfo(dtype)).eps)


def in_double_precision() -> contextlib.AbstractContextManager[Any]:
    """Context manager: functions of JAX compute in the dtype of their arguments, also in float64."""
    jax: Any = sys.modules.get("jax")
    return contextlib.nullcontext() if jax is None else jax.enable_x64(True)


def deviations(found: NDArray[Any], right: NDArray[Any]) -> NDArray[Any]:
    """The error of each element: 0 where both are the same, NaN or infinities too; infinite where only one is."""
    with np.errstate(all="ignore"):
        error = np.abs(found - right)
    same = (found == right) | (np.isnan(found) & np.isnan(right))
    return np.where(same, 0.0, np.where(np.isfinite(error), error, np.inf))
