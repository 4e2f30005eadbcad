"""Open NKI: the Neuron Kernel Interface on any machine."""

from __future__ import annotations

from nki import collectives, dtype, typing
from nki.base.errors import NkiError
from nki.base.version import version as _version
from nki.base.warning import NkiDeprecationWarning, NkiPortabilityWarning, NkiWarning
from nki.frameworks.kernel import FrameworkKernel
from nki.frontend.dialect import register as _register
from nki.jit import Kernel, jit, simulate
from nki.language.dialect import NKI as _NKI

_register(_NKI)

__version__: str


def __getattr__(name: str) -> str:
    if name == "__version__":
        return _version()
    raise AttributeError(f"module 'nki' has no attribute {name!r}")


__all__ = [
    "FrameworkKernel",
    "Kernel",
    "NkiDeprecationWarning",
    "NkiError",
    "NkiPortabilityWarning",
    "NkiWarning",
    "__version__",
    "collectives",
    "dtype",
    "jit",
    "simulate",
    "typing",
]
