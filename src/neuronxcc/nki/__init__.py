"""NKI Beta 1: the namespace ``neuronxcc.nki`` on this compiler (docs/beta1.md).

``neuronxcc`` itself is a namespace without a file, so that it stands in the way of no other package of that name.
"""

from __future__ import annotations

import logging as _logging

import nki as _nki
from neuronxcc.nki import compiler, isa, language, typing
from nki.beta1.beta1_dialect import BETA1 as _BETA1
from nki.beta1.beta1_dialect import BETA1_STATIC as _BETA1_STATIC
from nki.beta1.beta1_tensor import Tensor as tensor  # noqa: N813  # the public name
from nki.beta1.grid_launch import baremetal, benchmark, jit, profile, simulate_kernel, trace
from nki.frontend.dialect import register as _register

_register(_BETA1)
_register(_BETA1_STATIC)
if not hasattr(_logging, "OFF"):  # the vendor's package adds it: published kernels write logging.disable(logging.OFF)
    setattr(_logging, "OFF", _logging.CRITICAL + 10)  # noqa: B010  # no attribute that a type checker knows


class FrameworkKernel(_nki.FrameworkKernel):
    """:class:`nki.FrameworkKernel` of a plain function, which is a kernel of Beta 1."""

    make_kernel = staticmethod(jit)


NkiError = _nki.NkiError
__version__ = _nki.__version__

__all__ = [
    "FrameworkKernel", "NkiError", "baremetal", "benchmark", "compiler", "isa", "jit", "language", "profile",
    "simulate_kernel", "tensor", "trace", "typing",
]  # fmt: skip
