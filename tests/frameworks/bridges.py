"""The bridges as the tests of all of them see them: a tensor of an array, its address, and the ways of a call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import torch

A = np.arange(24, dtype=np.float32).reshape(4, 6)
B = A[::-1] * 3 + 1
Array = np.ndarray


@dataclass(frozen=True)
class Bridge:
    """``tensor`` of an array shares its memory where the framework can; ``array`` of a tensor holds its bits."""

    kind: type
    tensor: Callable[[Array], Any]
    array: Callable[[Any], Array]
    address: Callable[[Any], int]
    dtypes: str


def _tensor(array: Array) -> torch.Tensor:
    if array.dtype.name in dir(np):
        return torch.from_numpy(array)
    return torch.from_numpy(array.view(f"i{array.itemsize}")).view(getattr(torch, array.dtype.name))


def _array(tensor: torch.Tensor) -> Array:
    tensor, name = tensor.detach(), str(tensor.dtype).removeprefix("torch.")
    if hasattr(np, name):
        return tensor.numpy()
    return tensor.view(getattr(torch, f"int{8 * tensor.itemsize}")).numpy().view(getattr(ml_dtypes, name))


NUMPY = Bridge(
    np.ndarray, lambda a: a, lambda t: t, lambda t: t.ctypes.data, "float32 bfloat16 float16 int32 int8 uint16"
)
TORCH = Bridge(
    torch.Tensor, _tensor, _array, lambda t: t.data_ptr(),
    "float32 bfloat16 float16 int32 int8 uint8 uint16 float8_e4m3fn float8_e5m2",
)  # fmt: skip
JAX = Bridge(
    jax.Array, jnp.asarray, np.asarray, lambda t: t.unsafe_buffer_pointer(),
    "float32 bfloat16 float16 int32 int8 uint16 float8_e4m3fn float8_e5m2 float8_e4m3",
)  # fmt: skip
BRIDGES = {"NumPy": NUMPY, "PyTorch": TORCH, "JAX": JAX}


def compiled(function: Any, backend: str = "aot_eager", **options: Any) -> Any:
    """The function as one graph of PyTorch's compiler, without breaks."""
    return torch.compile(function, fullgraph=True, backend=backend, **options)


class Module(torch.nn.Module):
    """A module that calls a function."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, a: Any, b: Any = None) -> Any:
        return self.function(a) if b is None else self.function(a, b)


WAYS = {
    "NumPy": (NUMPY, lambda f: f),
    "PyTorch": (TORCH, lambda f: f),
    "torch.compile": (TORCH, lambda f: compiled(lambda *tensors: f(*tensors))),
    "JAX": (JAX, lambda f: f),
    "jax.jit": (JAX, jax.jit),
}
"""What turns a kernel into a function of tensors."""

EVERY_BRIDGE = pytest.mark.parametrize("bridge", BRIDGES.values(), ids=BRIDGES)
EVERY_WAY = pytest.mark.parametrize(("bridge", "wrap"), WAYS.values(), ids=WAYS)
