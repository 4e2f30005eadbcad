"""``nki.isa``: one function per hardware instruction, made from the declarations in this folder."""

from __future__ import annotations

import importlib as _importlib
import pkgutil as _pkgutil

from nki.base.errors import NkiError as NkiValidationError
from nki.ir.instruction import REGISTRY as _REGISTRY
from nki.ir.instruction_handle import NkiInstruction
from nki.ir.loop import VirtualRegister
from nki.ir.recorder import current as _current
from nki.ir.scalars import NkiScalar
from nki.isa import api as _api
from nki.isa import instructions as _instructions
from nki.isa.tables.enums import dge_mode, dma_engine, engine, matmul_perf_mode, nc_version, oob_mode, reduce_cmd

_ENGINES = {
    f"{_engine.name}_engine": _engine
    for _engine in (engine.tensor, engine.vector, engine.scalar, engine.gpsimd, engine.unknown)
}


def __getattr__(name: str) -> engine:
    member = _ENGINES.get(name)
    if member is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return member


def get_nc_version() -> nc_version:
    """The NeuronCore generation that the running kernel is compiled for."""
    return nc_version(_current("nisa.get_nc_version").target.generation)


def get_nc_sub_version() -> int:
    """The revision of that generation's silicon: 0, the first; only its limits are documented."""
    _current("nisa.get_nc_sub_version")
    return 0


# Every file of the folder declares instructions when it is imported.
for _file in _pkgutil.iter_modules(_instructions.__path__):
    _importlib.import_module(f"{_instructions.__name__}.{_file.name}")
# They need no name before the loop above.
from nki.isa.instructions.register import register_alloc  # noqa: E402
from nki.isa.instructions.scalar_registers import scalar_load  # noqa: E402

# A function takes the place of the module of its name in this namespace, as users expect of nisa.activation.
_FUNCTIONS = {_name: _api.function(_cls) for _name, _cls in _REGISTRY.items() if _cls.public}
globals().update(_FUNCTIONS)

__all__ = [
    "NkiInstruction",
    "NkiScalar",
    "NkiValidationError",
    "VirtualRegister",
    "dge_mode",
    "dma_engine",
    "engine",
    "get_nc_sub_version",
    "get_nc_version",
    "matmul_perf_mode",
    "nc_version",
    "oob_mode",
    "reduce_cmd",
    "register_alloc",
    "scalar_load",
    *_ENGINES,
    *_FUNCTIONS,
]  # pyright: ignore[reportUnsupportedDunderAll]  # editors read the stub beside this file
