"""The programs of "nki.FrameworkKernel": configurations of custom calls, for each set of shapes.

The document's kernel writes to its last argument and returns nothing; the call in the graph returns it. Its content is
left out there, and sums here. Other kernels return their results, as today's language has it.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

import nki
import nki.isa as nisa
import nki.language as nl
from nki.base.errors import ReturnError
from nki.frameworks.backend_config import BackendConfig
from nki.frameworks.kernel_adapter import find
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


def example_by_reference(in1, in2, out):
    """Stands for the document's ``example_kernel``, which it shows without content."""
    kernel_of_beta1(in1, in2, out)


def sums_and_differences(in1, in2, total, difference):
    place = nl.program_id(0), nl.program_id(1)
    left, right = nl.load(in1[place]), nl.load(in2[place])
    tile = nl.ndarray(left.shape, left.dtype, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=tile, data1=left, data2=right, op=nl.add)
    nisa.dma_copy(dst=total[place], src=tile)
    nisa.tensor_tensor(dst=tile, data1=left, data2=right, op=nl.subtract)
    nisa.dma_copy(dst=difference[place], src=tile)


def added_to(in1, out):
    place = nl.program_id(0), nl.program_id(1)
    tile = nl.load(in1[place])
    nisa.tensor_tensor(dst=tile, data1=tile, data2=nl.load(out[place]), op=nl.add)
    nisa.dma_copy(dst=out[place], src=tile)


def half_of(in1, out):
    nisa.dma_copy(
        dst=out[nl.program_id(0), nl.program_id(1), 0:8], src=nl.load(in1[nl.program_id(0), nl.program_id(1), 0:8])
    )


def launched(text, *tensors):
    executable = find(BackendConfig.decode(text).binary)
    results = [torch.empty(spec.shape, dtype=torch.float32) for spec in executable.outputs]
    executable.launch([t.data_ptr() for t in (*tensors, *results)])
    return results


def test_the_samples_of_the_document():
    """The two samples to the letter, but for the name of the class and the positions of the results."""
    example_kernel = example_by_reference
    in1 = torch.rand((16, 8, 128, 512), dtype=torch.float32)
    in2 = torch.rand((16, 8, 128, 512), dtype=torch.float32)
    out = torch.rand((16, 8, 128, 512), dtype=torch.float32)
    kernel = PyTorchFrameworkKernel(func_name=example_kernel.__name__, func=example_kernel, grid=(16, 8))
    first = kernel.dump_config(in1, in2, out)  # Dump config based on inputs
    in3 = torch.rand((16, 8, 64, 1024), dtype=torch.float32)
    in4 = torch.rand((16, 8, 64, 1024), dtype=torch.float32)
    out = torch.rand((16, 8, 64, 1024), dtype=torch.float32)
    kernel = PyTorchFrameworkKernel(func_name=example_kernel.__name__, func=example_kernel, grid=(16, 8))
    second = kernel.dump_config(in3, in4, out=out)  # Dump config based on inputs
    assert first[1:] == second[1:] == (["in1", "in2"], ["out"]) and first[0] != second[0]
    (total,) = launched(first[0], in1, in2)
    assert torch.equal(total, in1 + in2)
    (total,) = launched(second[0], in3, in4)
    assert torch.equal(total, in3 + in4)


@pytest.mark.parametrize("cached", [True, False])
def test_several_arguments_that_are_results(cached):
    in1, in2, total, difference = (torch.rand((2, 3, 16, 32)) for _ in range(4))
    kernel = PyTorchFrameworkKernel(func=sums_and_differences, grid=(2, 3), enable_cache=cached)
    for text, inputs, outputs in (
        kernel.dump_config(in1, in2, total, difference),
        kernel.dump_config(in1, in2, difference=difference, total=total),
    ):
        assert (inputs, outputs) == (["in1", "in2"], ["total", "difference"])
        assert BackendConfig.decode(text).aliases == ()
        found = launched(text, in1, in2)
        assert torch.equal(found[0], in1 + in2) and torch.equal(found[1], in1 - in2)


@pytest.mark.parametrize(("function", "expected"), [(added_to, lambda a, out: a + out), (half_of, None)])
def test_an_argument_that_is_read_or_written_in_part_stays_an_operand(function, expected):
    in1, out = torch.rand((2, 3, 16, 32)), torch.rand((2, 3, 16, 32))
    text, inputs, outputs = PyTorchFrameworkKernel(func=function, grid=(2, 3)).dump_config(in1, out)
    assert (inputs, outputs) == (["in1", "out"], ["out"])
    config = BackendConfig.decode(text)
    assert config.aliases == ((1, 0),)
    kept = out.clone()
    find(config.binary).launch([t.data_ptr() for t in (in1, out, out)])
    assert torch.equal(out, expected(in1, kept) if expected else torch.cat([in1[:, :, :8], kept[:, :, 8:]], 2))


def test_a_result_that_the_kernel_returns_by_itself_shares_its_operand():
    in1, in2, out = (torch.rand((2, 3, 16, 32)) for _ in range(3))
    kernel = PyTorchFrameworkKernel(func_name="example", func=kernel_that_returns_its_argument, grid=(2, 3))
    text, inputs, outputs = kernel.dump_config(in1, in2, out)
    assert (inputs, outputs) == (["in1", "in2", "out"], ["out"])
    config = BackendConfig.decode(text)
    assert config.aliases == ((2, 0),) and config.func_name == "example"
    find(config.binary).launch([t.data_ptr() for t in (in1, in2, out, out)])
    assert torch.equal(out, in1 + in2)


def test_elsewhere_a_kernel_returns_its_results():
    in1, in2, out = (np.ones((4, 6), np.float32) for _ in range(3))

    def by_reference(a, b, out):
        tile = nl.load(a)
        nisa.tensor_tensor(dst=tile, data1=tile, data2=nl.load(b), op=nl.add)
        nl.store(out, tile)

    PyTorchFrameworkKernel(func=by_reference).dump_config(*map(torch.from_numpy, (in1, in2, out)))
    with pytest.raises(ReturnError, match=r"writes to its argument 'out'\n(.|\n)*`return out`"):
        nki.jit(by_reference)(in1, in2, out)


def test_what_is_a_tensor():
    kernel = PyTorchFrameworkKernel(func=nki.jit(example_kernel))
    assert kernel.is_framework_tensor(torch.rand((2, 3)))
    assert not kernel.is_framework_tensor("this is not a tensor")
    assert kernel.map_framework_tensor(torch.rand((2, 3), dtype=torch.bfloat16)) == (torch.Size([2, 3]), torch.bfloat16)
    assert kernel.translate_to_neuron_dtype(torch.bfloat16) == nl.bfloat16  # there neuronxcc.nki.language.bfloat16
