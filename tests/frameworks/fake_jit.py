"""A stand-in for ``nki.jit`` with the interface that the bridges use; its kernels are NumPy functions."""

from __future__ import annotations

import ctypes
import functools
import importlib
import inspect
import pickle
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nki.base.dtype import BY_NAME
from nki.ir.types import TensorSpec

_BRIDGES = {
    "numpy": "nki.frameworks.numpy",
    "torch": "nki.frameworks.torch",
    "jax": "nki.frameworks.jax",
    "jaxlib": "nki.frameworks.jax",
}
_adapters = {}


def _bridge(*types):
    """The framework of a call's arguments, with its bridge loaded."""
    roots = [t.__module__.partition(".")[0] for t in types]
    # NumPy arrays may be arguments of the other frameworks' functions, so NumPy comes last.
    root = min((r for r in roots if r in _BRIDGES), key=lambda r: r == "numpy")
    _adapters[root] = importlib.import_module(_BRIDGES[root]).ADAPTER
    return root


# What torch.compiler.assume_constant_result sets, without an import of torch.
_bridge._dynamo_marked_constant = True


def _view(address, spec):
    count = int(np.prod(spec.shape)) * spec.dtype.itemsize
    raw = np.frombuffer((ctypes.c_uint8 * count).from_address(address), np.uint8)
    return raw.view(spec.dtype.dtype).reshape(spec.shape)


@dataclass(frozen=True, eq=False)
class Executable:
    name: str
    inputs: tuple
    outputs: tuple
    returns_sequence: bool
    kernel: tuple
    constants: tuple

    def launch(self, pointers):
        assert len(pointers) == len(self.inputs) + len(self.outputs)
        views = [_view(p, s) for p, s in zip(pointers, self.inputs + self.outputs, strict=True)]
        module, name = self.kernel
        compute = getattr(importlib.import_module(module), name).compute
        compute(views[: len(self.inputs)], views[len(self.inputs) :], dict(self.constants))

    def artifact(self):
        if not hasattr(self, "_path"):
            specs = [[(t.name, t.shape, t.dtype.name) for t in ts] for ts in (self.inputs, self.outputs)]
            fields = (self.name, *specs, self.returns_sequence, self.kernel, self.constants)
            with tempfile.NamedTemporaryFile(prefix=self.name, suffix=".klir", delete=False) as file:
                pickle.dump(fields, file)
            object.__setattr__(self, "_path", Path(file.name))
        return self._path

    @staticmethod
    def load(path):
        name, *specs, returns_sequence, kernel, constants = pickle.loads(Path(path).read_bytes())
        specs = [tuple(TensorSpec(n, shape, BY_NAME[d]) for n, shape, d in ts) for ts in specs]
        return Executable(name, *specs, returns_sequence, kernel, constants)


class Kernel:
    def __init__(self, func, compute, grid=()):
        functools.update_wrapper(self, func)
        self.func, self.compute, self.grid = func, compute, grid
        self._cache = {}

    def __getitem__(self, grid):
        name = f"_grid_{grid}"
        _with_grid(self, name, grid)
        return getattr(self, name)

    def find_adapter(self, args, kwargs):
        return _adapters[_bridge(*[type(value) for value in (*args, *kwargs.values())])]

    def __call__(self, *args, **kwargs):
        return self.find_adapter(args, kwargs).call(self, args, kwargs)

    def specialise(self, args, kwargs, adapter):
        bound = inspect.signature(self.func).bind(*args, **kwargs)
        bound.apply_defaults()
        tensors, specs, constants = [], [], []
        for name, value in bound.arguments.items():
            if adapter.is_framework_tensor(value):
                shape, dtype = adapter.map_framework_tensor(value)
                tensors.append(value)
                specs.append(TensorSpec(name, shape, adapter.translate_to_neuron_dtype(dtype)))
            else:
                constants.append((name, value))
        key = (tuple(specs), tuple(constants))
        if key not in self._cache:
            outputs = self.func(*specs, **dict(constants))
            is_sequence = isinstance(outputs, tuple)
            outputs = outputs if is_sequence else () if outputs is None else (outputs,)
            owner = ("tests.frameworks.kernels", self.__name__)
            self._cache[key] = Executable(self.__name__, key[0], outputs, is_sequence, owner, key[1])
        return self._cache[key], tensors


def _with_grid(kernel, name, grid):
    if name not in kernel.__dict__:
        setattr(kernel, name, Kernel(kernel.func, kernel.compute, grid if isinstance(grid, tuple) else (grid,)))


_with_grid._dynamo_marked_constant = True


def jit(func, **attributes):
    """``func`` maps the specs of its tensors (and its constants) to the specs of its results."""
    return Kernel(func, func.compute)
