"""``nki.tensor``: arrays that are known when a kernel is compiled, for ``nl.shared_constant``.

NKI 0.2 has these functions instead of NumPy's (reference of ``nki.language.shared_constant``, Neuron 2.28). Each
gives a NumPy array, with which arithmetic makes others: ``zeros((64, 64), nl.int8) + 1``.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nki.base import element_types as dt
from nki.base.errors import ArgumentError, keep_report


def identity(n: int, dtype: Any) -> NDArray[Any]:
    """An (n, n) array of ``dtype`` with 1 on the diagonal and 0 elsewhere."""
    return np.eye(_integer("identity", "n", n)).astype(dt.of(dtype).dtype)


def zeros(shape: int | Iterable[int], dtype: Any) -> NDArray[Any]:
    """An array of ``shape`` and ``dtype`` filled with 0."""
    sizes = (shape,) if not isinstance(shape, Iterable) else shape
    return np.zeros(tuple(_integer("zeros", "shape", n) for n in sizes), dt.of(dtype).dtype)


def arange(start: int, stop: int, step: int = 1, *, dtype: Any) -> NDArray[Any]:
    """The integers from ``start`` up to ``stop``, exclusive, by ``step``, as a vector of ``dtype``.

    Raises :class:`ArgumentError` for a step of 0.
    """
    given = (("start", start), ("stop", stop), ("step", step))
    first, end, pace = (_integer("arange", name, value) for name, value in given)
    if not pace:
        raise ArgumentError("nki.tensor.arange: step=0", fix="pass a step other than 0")
    return np.arange(first, end, pace).astype(dt.of(dtype).dtype)


def _integer(function: str, name: str, value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError as misfit:
        keep_report(misfit)
        raise ArgumentError(f"nki.tensor.{function}: {name}={value!r:.40} is no integer", fix="pass 128, say") from None


__all__ = ["arange", "identity", "zeros"]
