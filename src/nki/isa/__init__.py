"""``nki.isa``: one function per hardware instruction, made from the declarations in this folder."""

from __future__ import annotations

import importlib as _importlib

from nki.ir.inst import REGISTRY as _REGISTRY
from nki.ir.kernel import current as _current
from nki.isa import publish as _publish
from nki.isa.enums import dge_mode, engine, matmul_perf_mode, nc_version, oob_mode, reduce_cmd

_DECLARATIONS = (
    "activation",
    "bn",
    "dma_copy",
    "iota",
    "nc_matmul",
    "nc_transpose",
    "reciprocal",
    "tensor_copy",
    "tensor_copy_predicated",
    "tensor_reduce",
    "tensor_scalar",
    "tensor_tensor",
)

tensor_engine = engine.tensor
vector_engine = engine.vector
scalar_engine = engine.scalar
gpsimd_engine = engine.gpsimd
unknown_engine = engine.unknown


def get_nc_version() -> nc_version:
    """The NeuronCore generation that the running kernel is compiled for."""
    return nc_version(_current("nisa.get_nc_version").target.generation)


for _name in _DECLARATIONS:
    _importlib.import_module(f"nki.isa.{_name}")
# A function takes the place of the module of its name in this namespace, as users expect of nisa.activation.
_FUNCTIONS = {_name: _publish.function(_cls) for _name, _cls in _REGISTRY.items() if _cls.public}
globals().update(_FUNCTIONS)

__all__ = [
    "dge_mode",
    "engine",
    "get_nc_version",
    "gpsimd_engine",
    "matmul_perf_mode",
    "nc_version",
    "oob_mode",
    "reduce_cmd",
    "scalar_engine",
    "tensor_engine",
    "unknown_engine",
    "vector_engine",
    *_FUNCTIONS,
]  # pyright: ignore[reportUnsupportedDunderAll]  # editors read the stub beside this file
