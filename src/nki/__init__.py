"""Open NKI: the Neuron Kernel Interface on any machine."""

from __future__ import annotations

from typing import Any, Final

from nki import collectives, dtype, tensor, typing
from nki.base.errors import NkiError
from nki.base.locks import imported as _imported
from nki.base.version import version as _version
from nki.base.warning import NkiDeprecationWarning, NkiPortabilityWarning, NkiSpillWarning, NkiWarning
from nki.compilation.bridges import STAND_INS as _STAND_INS
from nki.compilation.bridges import register_bridges as _register_bridges
from nki.compilation.ranked_launch import ranks
from nki.frameworks import BRIDGES as _BRIDGES
from nki.frameworks import keep_hlo as _keep_hlo
from nki.frameworks.kernel_adapter import FrameworkKernel
from nki.frontend.dialect import register as _register
from nki.jit import Kernel, jit, simulate
from nki.language.nki_dialects import NKI as _NKI
from nki.language.nki_dialects import RELEASED as _RELEASED

for _dialect in (_NKI, *_RELEASED):
    _register(_dialect)
_register_bridges(_BRIDGES)
_STAND_INS.register("nki.harness.stand_in_names")
_keep_hlo()

__version__: str


_BETA1: Final = ("baremetal", "benchmark", "profile", "simulate_kernel")
_PROFILING: Final = {"ShapeDtype": "nki.profiling.shapes", "profile_step": "nki.profiling.steps.step_profile"}
_WHOLE_MODELS: Final = ("export", "load")
_SWEEPS: Final = {"sweep": "run", "tune": "tuning", "autotune": "autotune"}
_PROOFS: Final = {"prove": "nki.proofs.prove", "optimise": "nki.optimising.search"}
_MODULES: Final = ("compiler", "framework", "jax", "runtime", "simulator", "testing", "torch")


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return _version()
    # Entry points of harnesses (docs/harnesses.md), which the import of a kernel does not pay for.
    if name in _BETA1:
        return getattr(_imported("nki.harness.beta1_harness"), name)
    if name == "provide_neuron_modules":
        return _STAND_INS.provide
    if name == "cpu_simulate":
        return _imported("nki.harness.simulation").CpuSimulator
    if name in _PROFILING:
        return getattr(_imported(_PROFILING[name]), name)
    if name in _WHOLE_MODELS:
        return getattr(_imported("nki.frameworks.export"), name)
    if name in _SWEEPS:
        return getattr(_imported(f"nki.sweeps.{_SWEEPS[name]}"), name)
    if name in _PROOFS:
        return getattr(_imported(_PROOFS[name]), name)
    if name == "accuracy":
        return _imported("nki.rounding.run").accuracy
    if name in _MODULES:
        return _imported(f"nki.{name}")
    raise AttributeError(f"module 'nki' has no attribute {name!r}")


__all__ = [
    "FrameworkKernel",
    "Kernel",
    "NkiDeprecationWarning",
    "NkiError",
    "NkiPortabilityWarning",
    "NkiSpillWarning",
    "NkiWarning",
    "__version__",
    "collectives",
    "dtype",
    "jit",
    "ranks",
    "simulate",
    "tensor",
    "typing",
]
