"""Open NKI: the Neuron Kernel Interface on any machine."""

from __future__ import annotations

from nki.base.errors import NkiError
from nki.base.version import __version__
from nki.base.warning import NkiDeprecationWarning, NkiWarning
from nki.frameworks.kernel import FrameworkKernel
from nki.jit import Kernel, jit, simulate

__all__ = [
    "FrameworkKernel",
    "Kernel",
    "NkiDeprecationWarning",
    "NkiError",
    "NkiWarning",
    "__version__",
    "jit",
    "simulate",
]
