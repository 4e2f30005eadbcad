"""Errors of tensors of frameworks, and of kernels inside their graphs, gradients and traces."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from nki.base.errors import NkiError


class ByteOrderError(NkiError):
    """An array with its bytes in the order of another machine."""

    code = "NKI-FW001"


class EmptyTensorError(NkiError):
    """A tensor without elements, as an argument of a kernel."""

    code = "NKI-FW002"


class ScalarTensorError(NkiError):
    """A tensor of rank 0, as an argument of a kernel."""

    code = "NKI-FW003"


class TensorLayoutError(NkiError):
    """A tensor that is not one block of plain elements: sparse, nested, masked."""

    code = "NKI-FW004"


class TensorDeviceError(NkiError):
    """A tensor that is not in the memory where the kernel runs."""

    code = "NKI-FW005"


class OutputDTypeError(NkiError):
    """A kernel returns a dtype that the calling framework does not have."""

    code = "NKI-FW006"


class NotDifferentiableError(NkiError):
    """A gradient through a kernel without a derivative."""

    code = "NKI-FW007"


class NotBatchableError(NkiError):
    """A kernel under ``vmap``: its shapes are fixed when it is compiled."""

    code = "NKI-FW008"


class BackendConfigError(NkiError):
    """The ``backend_config`` of a custom call is damaged, or of a kind that this package cannot run."""

    code = "NKI-FW009"


class OperandError(NkiError):
    """A graph calls a compiled kernel with operands other than those that it was compiled for."""

    code = "NKI-FW010"


class GradientMismatchError(NkiError):
    """A backward that ``nki.testing.gradcheck`` finds to be the derivative of something else."""

    code = "NKI-FW030"


class FixedShapeError(NkiError):
    """A trace that leaves a size of a kernel's tensor open. A kernel is compiled for numbers."""

    code = "NKI-FW040"


class ScriptError(NkiError):
    """A kernel in source that ``torch.jit.script`` compiles, which knows no kernels."""

    code = "NKI-FW041"


class EagerTraceError(NkiError):
    """The eager simulator was called while a framework traces, without values."""

    code = "NKI-FW050"


def _refuse(callee: Any) -> None:
    raise ScriptError(
        f"torch.jit.script compiles Python source, and {callee!r} is no part of its language",
        fix="use torch.jit.trace, torch.export or torch.compile, which record the call",
    )


class Unscriptable:
    """A base of callables that ``torch.jit.script`` must refuse, instead of a Python call that it cannot type or save.

    It, and nothing else, reads these attributes of what a function calls.
    """

    _torchscript_modifier = property(_refuse)
    __prepare_scriptable__ = property(_refuse)

    def __dir__(self) -> Iterable[str]:
        return sorted(set(super().__dir__()) - {"_torchscript_modifier", "__prepare_scriptable__"})
