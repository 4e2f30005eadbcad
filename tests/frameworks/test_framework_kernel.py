"""The public FrameworkKernel, and what importing the package costs."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import torch

import nki.isa as nisa
import nki.language as nkl
from nki import target as targets
from nki.base import element_types as nl
from nki.base.errors import NkiError, ReturnError, UnknownDTypeError
from nki.compilation import eager, pipeline
from nki.frameworks.backend_config import BackendConfig
from nki.frameworks.jax import JAXFrameworkKernel
from nki.frameworks.kernel_adapter import FrameworkKernel, find
from nki.frameworks.numpy import NumPyFrameworkKernel
from nki.frameworks.torch import PyTorchFrameworkKernel
from nki.ir.types import TensorSpec
from tests.support.fresh_process import finished

from .kernels import add, sum_and_scaled

EXAMPLES = {
    PyTorchFrameworkKernel: lambda *shape: torch.zeros(shape),
    JAXFrameworkKernel: lambda *shape: jnp.zeros(shape),
    NumPyFrameworkKernel: lambda *shape: np.zeros(shape, np.float32),
}


@pytest.fixture
def compilations(monkeypatch):
    """The names of the kernels that were specialised, whatever the caches hold."""
    names = []
    specialised = pipeline._specialised

    def record(fn, *others):
        names.append(fn.__name__)
        return specialised(fn, *others)

    monkeypatch.setattr(pipeline, "_specialised", record)
    return names


@pytest.mark.parametrize("bridge", EXAMPLES, ids=lambda b: b.__name__)
def test_dump_config(bridge):
    example = EXAMPLES[bridge]
    kernel = bridge(func_name="adding", func=add, grid=(1,))
    text, inputs, outputs = kernel.dump_config(example(4, 6), b=example(4, 6))
    assert (inputs, outputs) == (["a", "b"], ["out"])
    config = BackendConfig.decode(text)
    assert (config.func_name, config.grid, config.platform_target) == ("adding", (), "trn3")
    assert config.input_names == ("a", "b") and Path(config.binary).is_file()
    assert kernel.dump_config(example(4, 6), example(4, 6))[0] == text
    assert kernel.dump_config(example(8, 6), example(8, 6))[0] != text


def test_constants_are_part_of_the_kernel():
    kernel = NumPyFrameworkKernel(func=sum_and_scaled)
    a = np.zeros((4, 6), np.float32)
    assert kernel.func_name == "sum_and_scaled"
    assert kernel.dump_config(a, a, scale=2.0)[0] != kernel.dump_config(a, a, scale=3.0)[0]
    assert kernel.dump_config(a, a)[2] == ["out", "out.1"]


class Uncached(NumPyFrameworkKernel):
    enable_cache = False


@pytest.mark.parametrize("kernel", [NumPyFrameworkKernel(func=add, enable_cache=False), Uncached(func=add)])
def test_without_cache_it_compiles_anew_and_the_config_is_equal(kernel, compilations):
    a = np.zeros((4, 6), np.float32)
    first = kernel.dump_config(a, a)
    assert kernel.dump_config(a, a) == first and len(compilations) == 2
    assert NumPyFrameworkKernel(func=add).dump_config(a, a) == first


def test_with_cache_it_compiles_once_per_shapes(compilations):
    kernel = Uncached(func=sum_and_scaled, enable_cache=True)
    for rows in (11, 12, 11):
        a = np.zeros((rows, 6), np.float32)
        kernel.dump_config(a, a)
    assert len(compilations) == 2


def test_the_artifact_is_written_again_after_the_cache_was_cleared():
    a = np.zeros((4, 6), np.float32)
    kernel = NumPyFrameworkKernel(func=add)
    path = Path(BackendConfig.decode(kernel.dump_config(a, a)[0]).binary)
    path.unlink()
    kernel.dump_config(a, a)
    assert path.is_file()


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


NUMPY_DTYPES = {"f4": np.dtype("float32"), "f4 type": np.float32, "bf16": np.dtype("|V2"), "f2": "float16"}


class NumPyDtypes(OwnKernel):
    """Describes shapes as lists, and dtypes in NumPy's representation."""

    def translate_to_neuron_dtype(self, _dtype):
        return NUMPY_DTYPES[_dtype]

    def map_framework_tensor(self, t):
        return list(t.shape[:-1]), t.shape[-1]


@pytest.mark.parametrize(
    ("theirs", "ours"), [("f4", "float32"), ("f4 type", "float32"), ("bf16", "bfloat16"), ("f2", "float16")]
)
def test_dtypes_in_numpys_representation(theirs, ours):
    tensor = Shape(4, 6, theirs)
    text, *_ = NumPyDtypes(func=add).dump_config(tensor, tensor)
    assert [spec.dtype for spec in find(BackendConfig.decode(text).binary).inputs] == [ours, ours]


@pytest.mark.parametrize("translated", [torch.float32, np.dtype("float64"), None, "thing"])
def test_what_is_no_dtype_names_the_method(translated, monkeypatch):
    monkeypatch.setitem(NUMPY_DTYPES, "other", translated)
    tensor = Shape(4, 6, "other")
    with pytest.raises(UnknownDTypeError, match=r"NumPyDtypes.translate_to_neuron_dtype makes .* of other"):
        NumPyDtypes(func=add).dump_config(tensor, tensor)


def scale_part(a):
    """Each program multiplies its part of ``a`` by its number; all write into one output."""
    out = nkl.ndarray(a.shape, dtype=a.dtype, buffer=nkl.shared_hbm)
    number = nkl.program_id(0) * nkl.num_programs(1) + nkl.program_id(1) if nkl.program_ndim() > 1 else nkl.program_id()
    part = (nkl.program_id(0), nkl.program_id(1)) if nkl.program_ndim() > 1 else nkl.program_id(0)
    tile = nkl.load(a[part])
    nisa.tensor_scalar(dst=tile, data=tile, op0=nkl.multiply, operand0=float(number))
    nkl.store(out[part], tile)
    return out


@pytest.mark.parametrize("grid", [(3, 2), (16, 8), (5,), (2,), 4], ids=str)
def test_grids_of_programs(grid):
    axes = grid if isinstance(grid, tuple) else (grid,)
    a = np.ones((*axes, 4, 6), np.float32)
    text, inputs, outputs = NumPyFrameworkKernel(func=scale_part, grid=grid).dump_config(a)
    config = BackendConfig.decode(text)
    assert (inputs, outputs, config.grid) == (["a"], ["out"], (2,) if axes == (2,) else ())
    out = np.empty_like(a)
    find(config.binary).launch([a.ctypes.data, out.ctypes.data])
    expected = np.arange(np.prod(axes), dtype=np.float32).reshape(*axes, 1, 1) * a
    assert np.array_equal(out, expected)
    (simulated,) = eager.run(scale_part, {"a": TensorSpec("a", a.shape, nl.float32)}, [a], targets.default(), axes)[1]
    assert np.array_equal(simulated, expected)


def into_argument(a, out):
    nkl.store(out[nkl.program_id(0)], nkl.load(a[nkl.program_id(0)]))


def test_a_kernel_that_writes_an_argument_and_returns_nothing():
    a, out = np.ones((3, 4, 6), np.float32), np.zeros((3, 4, 6), np.float32)
    text, inputs, outputs = NumPyFrameworkKernel(func=into_argument, grid=(3,)).dump_config(a, a)
    assert (inputs, outputs) == (["a"], ["out"])
    find(BackendConfig.decode(text).binary).launch([a.ctypes.data, out.ctypes.data])
    assert np.array_equal(out, a)


def returns_nothing(a):
    tile = nkl.load(a)
    nisa.tensor_copy(tile, tile)


def test_a_kernel_that_writes_no_argument_and_returns_nothing():
    with pytest.raises(ReturnError, match="returns nothing"):
        NumPyFrameworkKernel(func=returns_nothing).dump_config(np.ones((4, 6), np.float32))


def own_output(a):
    out = nkl.ndarray((4, 6 + nkl.program_id(1)), dtype=a.dtype, buffer=nkl.shared_hbm)
    nkl.store(out[:, 0:6], nkl.load(a))
    return out


def third_axis(a):
    nkl.program_id(2)
    return a


@pytest.mark.filterwarnings("ignore:.*is returned and in nl.hbm:nki.base.warning.NkiDeprecationWarning")
@pytest.mark.parametrize(
    ("kernel", "grid", "message"),
    [
        (own_output, (1, 2), r"program \(0, 1\) makes the shared tensor 'out'"),
        (third_axis, (3, 2), "axis 2 does not exist: this launch grid has 2 axes"),
        (third_axis, (3, 0), "positive number"),
        (third_axis, (True,), "positive number"),
    ],
)
def test_programs_that_no_grid_can_run(kernel, grid, message):
    with pytest.raises(NkiError, match=message):
        NumPyFrameworkKernel(func=kernel, grid=grid).dump_config(np.ones((4, 6), np.float32))


def test_copies_and_pickles():
    kernel = NumPyFrameworkKernel(func=add, grid=(1,))
    a = np.zeros((4, 6), np.float32)
    text = kernel.dump_config(a, a)
    for other in (copy.deepcopy(kernel), pickle.loads(pickle.dumps(kernel))):
        assert other.dump_config(a, a) == text


def test_the_numpy_bridge_imports_no_other_framework():
    program = "import sys, nki.frameworks.numpy\nassert not {'torch', 'jax', 'jaxlib'} & set(sys.modules)\n"
    finished(program)
