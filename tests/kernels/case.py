"""What a kernel of the corpus is: the kernel, its arguments, and what NumPy computes in float64 from the same ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from nki.compilation.executable import Executable
from nki.target import ENVIRONMENT

Array = np.ndarray[Any, Any]
ALL = ("trn1", "trn2", "trn3")
EPSILON = 2.0**-23
"""The distance from 1 to the next float32."""


@dataclass(frozen=True)
class Case:
    """``reference`` gets the arguments with floating-point arrays widened to float64 and gives one array per output.

    ``bound``: each output may differ from it by this much, relative to the largest magnitude in that output.
    """

    kernel: Any
    make: Callable[[np.random.Generator], Sequence[Any]]
    reference: Callable[..., Any]
    bound: float
    targets: tuple[str, ...] = ALL

    def arguments(self) -> list[Any]:
        return list(self.make(np.random.default_rng(7)))

    def arrays(self) -> list[Array]:
        return [argument for argument in self.arguments() if isinstance(argument, np.ndarray)]

    def compile(self, patch: pytest.MonkeyPatch, **options: Any) -> Executable:
        """The kernel for its arguments and the newest target; ``patch`` keeps that target."""
        patch.setenv(ENVIRONMENT, self.targets[-1])
        return self.kernel.compile(*self.arguments(), **options)

    def expected(self, arguments: Sequence[Any]) -> list[Array]:
        result = self.reference(*map(_wide, arguments))
        return list(result) if isinstance(result, tuple | list) else [result]


CASES: dict[str, Case] = {}


def case(
    make: Callable[[np.random.Generator], Sequence[Any]],
    reference: Callable[..., Any],
    bound: float,
    targets: tuple[str, ...] = ALL,
) -> Callable[[Any], Any]:
    """Enter the decorated kernel into the corpus."""

    def enter(kernel: Any) -> Any:
        name = kernel.func.__name__
        assert name not in CASES
        CASES[name] = Case(kernel, make, reference, bound, targets)
        return kernel

    return enter


def _wide(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.dtype.kind not in "iub":
        return value.astype(np.float64)
    return value


def normal(*shape: int, dtype: Any = np.float32) -> Callable[[np.random.Generator], list[Array]]:
    """One argument of standard normal numbers."""
    return lambda random: [random.standard_normal(shape).astype(np.float32).astype(dtype)]


def normals(*shapes: tuple[int, ...], dtype: Any = np.float32) -> Callable[[np.random.Generator], list[Array]]:
    """Several arguments of standard normal numbers."""
    return lambda random: [random.standard_normal(shape).astype(np.float32).astype(dtype) for shape in shapes]


def integers(low: int, high: int, *shape: int, dtype: Any = np.int32) -> Callable[[np.random.Generator], list[Array]]:
    """One argument of whole numbers from ``low`` to ``high - 1``."""
    return lambda random: [random.integers(low, high, shape).astype(dtype)]
