"""Arrays of both frameworks, and the check that an entry point has said what it stands for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

MAKE: dict[str, Callable[[Any], Any]] = {"numpy": lambda array: array, "torch": torch.from_numpy}


@pytest.fixture(params=sorted(MAKE))
def make(request: pytest.FixtureRequest) -> Callable[[Any], Any]:
    """Conversion of a NumPy array to a tensor of the framework under test."""
    return MAKE[request.param]


@pytest.fixture
def arrays() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return tuple(rng.standard_normal((8, 16)).astype(np.float32) for _ in range(2))


@pytest.fixture(autouse=True)
def _one_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NEURON_LOGICAL_NC_CONFIG", raising=False)
