"""Fixtures of the Beta 1 tests: each kernel runs in both executors, which give the same bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from neuronxcc import nki


@pytest.fixture
def both() -> Callable[..., Any]:
    """Run a kernel in the simulator and natively on copies of the arguments; the native result."""

    def run(kernel: Any, *args: Any, **kwargs: Any) -> Any:
        copies = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
        simulated = nki.simulate_kernel(kernel, *copies, **kwargs)
        native = kernel(*args, **kwargs)
        pairs = zip(_several(simulated), _several(native), strict=True)
        assert all(one.tobytes() == other.tobytes() for one, other in pairs), "the executors differ"
        return native

    return run


def _several(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


@pytest.fixture
def data() -> Callable[..., Any]:
    """Float32 arrays of a shape, with numbers from -1 to 1."""
    generator = np.random.default_rng(7)
    return lambda *shape: (2 * generator.random(shape) - 1).astype(np.float32)
