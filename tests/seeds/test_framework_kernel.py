"""The programs of "nki.FrameworkKernel": configurations of custom calls, for each set of shapes.

The document's kernel gets its output as the last argument, as NKI Beta 1 had it; the kernel here returns it as well. It
sums instead of omitting its content.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

import nki
import nki.isa as nisa
import nki.language as nl
from nki.base.errors import ReturnError
from nki.frameworks.config import BackendConfig
from nki.frameworks.kernel import find
from nki.frameworks.torch import PyTorchFrameworkKernel
from tests.support.both_executors import both, numbers

# The documents still write `nl.affine_range`.
pytestmark = pytest.mark.filterwarnings("ignore:.*affine_range:nki.base.warning.NkiDeprecationWarning")


def example_kernel(in1, in2):
    out = nl.ndarray(in1.shape, dtype=in1.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(in1.shape[0]):
        for j in nl.affine_range(in1.shape[1]):
            left, right = nl.load(in1[i, j]), nl.load(in2[i, j])
            nisa.tensor_tensor(dst=left, data1=left, data2=right, op=nl.add)
            nl.store(out[i, j], left)
    return out


def kernel_of_beta1(in1, in2, out):
    place = nl.program_id(0), nl.program_id(1)
    tile = nl.load(in1[place])
    nisa.tensor_tensor(dst=tile, data1=tile, data2=nl.load(in2[place]), op=nl.add)
    nisa.dma_copy(dst=out[place], src=tile)


def kernel_that_returns_its_argument(in1, in2, out):
    kernel_of_beta1(in1, in2, out)
    return out


def test_dump_config_for_each_set_of_shapes():
    in1 = torch.rand((16, 8, 128, 512), dtype=torch.float32)
    in2 = torch.rand((16, 8, 128, 512), dtype=torch.float32)
    kernel = PyTorchFrameworkKernel(func_name=example_kernel.__name__, func=example_kernel, grid=(1,))
    first, inputs, outputs = kernel.dump_config(in1, in2)
    assert (inputs, outputs) == (["in1", "in2"], ["out"])
    in3 = torch.rand((16, 8, 64, 1024), dtype=torch.float32)
    in4 = torch.rand((16, 8, 64, 1024), dtype=torch.float32)
    second, *_ = kernel.dump_config(in3, in2=in4)
    assert BackendConfig.decode(first).func_name == BackendConfig.decode(second).func_name == "example_kernel"
    assert first != second and kernel.dump_config(in1, in2)[0] == first


def test_the_kernel_adds():
    a, b = numbers(2, 2, 3, 16, 32)
    assert np.array_equal(both(example_kernel, a, b), a + b)


def test_an_output_among_the_arguments_on_a_grid_of_two_dimensions():
    in1, in2, out = (torch.rand((16, 8, 128, 512), dtype=torch.float32) for _ in range(3))
    with pytest.raises(ReturnError, match=r"writes to its argument 'out'\n(.|\n)*`return out`"):
        PyTorchFrameworkKernel(func=kernel_of_beta1, grid=(16, 8)).dump_config(in1, in2, out)
    kernel = PyTorchFrameworkKernel(func_name="example", func=kernel_that_returns_its_argument, grid=(16, 8))
    text, inputs, outputs = kernel.dump_config(in1, in2, out)
    assert (inputs, outputs) == (["in1", "in2", "out"], ["out"])
    config = BackendConfig.decode(text)
    assert config.aliases == ((2, 0),) and config.func_name == "example"
    find(config.binary).launch([t.data_ptr() for t in (in1, in2, out, out)])
    assert torch.equal(out, in1 + in2)


def test_what_is_a_tensor():
    kernel = PyTorchFrameworkKernel(func=nki.jit(example_kernel))
    assert kernel.is_framework_tensor(torch.rand((2, 3)))
    assert not kernel.is_framework_tensor("this is not a tensor")
    assert kernel.map_framework_tensor(torch.rand((2, 3), dtype=torch.bfloat16)) == (torch.Size([2, 3]), torch.bfloat16)
    assert kernel.translate_to_neuron_dtype(torch.bfloat16) == nl.bfloat16  # there neuronxcc.nki.language.bfloat16
