"""Launches of several ranks in one process, by both executors, and tensors that collectives take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import nki
import nki.isa as nisa
import nki.language as nl

Run = Callable[..., list[Any]]


def native(kernel: Any, ranks: int, *args: Any, cores: int = 1) -> list[Any]:
    """The results of ``kernel`` by native code, one for each rank; lists among ``args`` have an item for each."""
    launched = nki.jit(kernel)
    with nki.ranks(ranks):
        return (launched[cores] if cores > 1 else launched)(*args)


def eager(kernel: Any, ranks: int, *args: Any, cores: int = 1) -> list[Any]:
    """The same in the simulator."""
    launched = nki.jit(kernel)
    return nki.simulate(launched[cores] if cores > 1 else launched, ranks=ranks)(*args)


EXECUTORS = pytest.mark.parametrize("run", [native, eager], ids=["native", "eager"])


def copied(x: Any, name: Any = None, buffer: Any = nl.shared_hbm) -> Any:
    """A copy of ``x`` in HBM: arguments and results are no operands of collectives."""
    tensor = nl.ndarray(x.shape, x.dtype, buffer=buffer, name=name)
    nisa.dma_copy(tensor, x)
    return tensor


def empty(*shape: int, dtype: Any = nl.float32, buffer: Any = nl.shared_hbm) -> Any:
    """A tensor in HBM that holds nothing yet."""
    return nl.ndarray(shape, dtype, buffer=buffer)
