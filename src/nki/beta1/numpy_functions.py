"""NumPy's functions on tensors: ``np.mean(tile, axis=1)`` is the ``mean`` of ``neuronxcc.nki.language``."""

from __future__ import annotations

from typing import Any, Final, NoReturn

import numpy as np

from nki.base.beta1_errors import Beta1OperandError
from nki.beta1.beta1_tensor import Tensor, operations
from nki.beta1.functions import NAMES
from nki.language.beta1_functions import NUMPY_FUNCTIONS

_SPELLED: Final = {**NUMPY_FUNCTIONS, "amax": "max", "amin": "min"}
"""Names of ``neuronxcc.nki.language`` by NumPy's, where they differ."""


def _applied(_: Tensor, function: Any, method: str, *inputs: Any, **options: Any) -> Any:
    """``__array_ufunc__``: NumPy's elementwise functions, and operators behind its numbers."""
    name = _SPELLED.get(function.__name__, function.__name__)
    if method != "__call__" or name not in NAMES:
        _refuse(function, inputs)
    if isinstance(inputs[0], np.generic) and len(inputs) == 2:
        return operations["binary"](name, *inputs, by_operator=True)
    return NAMES[name](*inputs, **options)


def _called(_: Tensor, function: Any, _types: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """``__array_function__``: NumPy's other functions."""
    name = _SPELLED.get(function.__name__, function.__name__)
    if name not in NAMES:
        _refuse(function, args)
    return NAMES[name](*args, **options)


def _refuse(function: Any, args: tuple[Any, ...]) -> NoReturn:
    tensor = next((arg for arg in args if isinstance(arg, Tensor)), None)
    subject = "a tensor" if tensor is None else f"the tensor '{tensor.name}' {tensor.shape}"
    raise Beta1OperandError(
        f"np.{function.__name__} of {subject}: neuronxcc.nki.language has no function of that name",
        fix="use the functions of neuronxcc.nki.language",
    )


def _as_array(tensor: Tensor, *_: object, **__: object) -> NoReturn:
    """``__array__``: refused."""
    raise Beta1OperandError(
        f"the tensor '{tensor.name}' {tensor.shape} is used as a NumPy array",
        fix="use the functions of neuronxcc.nki.language",
    )


setattr(Tensor, "__array__", _as_array)  # noqa: B010
setattr(Tensor, "__array_ufunc__", _applied)  # noqa: B010  # the class leaves both open for this module
setattr(Tensor, "__array_function__", _called)  # noqa: B010

__all__ = ["NAMES"]
