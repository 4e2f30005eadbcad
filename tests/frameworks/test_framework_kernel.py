"""The public FrameworkKernel, and what importing the package costs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import torch

from nki.base import dtype as nl
from nki.base.errors import UnknownDTypeError
from nki.frameworks.config import BackendConfig
from nki.frameworks.jax import JAXFrameworkKernel
from nki.frameworks.kernel import FrameworkKernel
from nki.frameworks.numpy import NumPyFrameworkKernel
from nki.frameworks.torch import PyTorchFrameworkKernel

from .kernels import add, sum_and_scaled

EXAMPLES = {
    PyTorchFrameworkKernel: lambda *shape: torch.zeros(shape),
    JAXFrameworkKernel: lambda *shape: jnp.zeros(shape),
    NumPyFrameworkKernel: lambda *shape: np.zeros(shape, np.float32),
}


@pytest.mark.parametrize("bridge", EXAMPLES, ids=lambda b: b.__name__)
def test_dump_config(bridge):
    example = EXAMPLES[bridge]
    kernel = bridge(func_name="adding", func=add, grid=(1,))
    text, inputs, outputs = kernel.dump_config(example(4, 6), b=example(4, 6))
    assert (inputs, outputs) == (["a", "b"], ["out"])
    config = BackendConfig.decode(text)
    assert (config.func_name, config.grid) == ("adding", (1,))
    assert config.input_names == ("a", "b") and Path(config.binary).is_file()
    assert kernel.dump_config(example(4, 6), example(4, 6))[0] == text
    assert kernel.dump_config(example(8, 6), example(8, 6))[0] != text


def test_constants_are_part_of_the_kernel():
    kernel = NumPyFrameworkKernel(func=sum_and_scaled)
    a = np.zeros((4, 6), np.float32)
    assert kernel.func_name == "sum_and_scaled"
    assert kernel.dump_config(a, a, scale=2.0)[0] != kernel.dump_config(a, a, scale=3.0)[0]
    assert kernel.dump_config(a, a)[2] == ["out", "out.1"]


def test_without_cache_the_config_is_equal():
    a = np.zeros((4, 6), np.float32)
    kernel = NumPyFrameworkKernel(func=add, enable_cache=False)
    assert kernel.dump_config(a, a) == kernel.dump_config(a, a) == NumPyFrameworkKernel(func=add).dump_config(a, a)


def test_tensors_of_any_device_describe_a_kernel():
    a = torch.zeros(4, 6, device="meta")
    assert PyTorchFrameworkKernel(func=add).dump_config(a, a)[1] == ["a", "b"]


def test_it_needs_a_function_and_the_three_methods():
    with pytest.raises(TypeError, match=r"func="):
        NumPyFrameworkKernel(func_name="f")
    with pytest.raises(TypeError, match=r"abstract"):
        FrameworkKernel(func=add)


def test_the_three_methods():
    kernel = PyTorchFrameworkKernel(func=add)
    tensor = torch.rand((2, 3), dtype=torch.bfloat16)
    assert kernel.is_framework_tensor(tensor) and not kernel.is_framework_tensor("a string")
    assert kernel.map_framework_tensor(tensor) == (torch.Size([2, 3]), torch.bfloat16)
    assert kernel.translate_to_neuron_dtype(torch.bfloat16) == nl.bfloat16
    assert kernel.translate_to_neuron_dtype(torch.bool) == nl.bool_
    assert JAXFrameworkKernel(func=add).translate_to_neuron_dtype(jnp.dtype("float8_e4m3")) == nl.float8_e4m3
    assert NumPyFrameworkKernel(func=add).translate_to_neuron_dtype(np.dtype(ml_dtypes.bfloat16)) == nl.bfloat16
    with pytest.raises(UnknownDTypeError):
        kernel.translate_to_neuron_dtype(torch.float64)


class Shape:
    """A tensor of a framework that this package does not know."""

    def __init__(self, *shape):
        self.shape = shape


class OwnKernel(FrameworkKernel):
    def translate_to_neuron_dtype(self, _dtype):
        return nl.BY_NAME[_dtype]

    def is_framework_tensor(self, t):
        return isinstance(t, Shape)

    def map_framework_tensor(self, t):
        return t.shape, "float16"


def test_a_framework_of_ones_own():
    _, inputs, outputs = OwnKernel(func_name="add", func=add).dump_config(Shape(4, 6), Shape(4, 6))
    assert (inputs, outputs) == (["a", "b"], ["out"])


def test_the_numpy_bridge_imports_no_other_framework():
    program = "import sys, nki.frameworks.numpy\nassert not {'torch', 'jax', 'jaxlib'} & set(sys.modules)\n"
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).parents[2])
