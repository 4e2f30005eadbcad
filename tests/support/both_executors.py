"""Running a kernel natively and in the eager simulator, which agree to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nki
from nki.base.errors import NkiError


def both(kernel: Any, *arguments: Any) -> Any:
    """The result of the compiled kernel, which equals the simulator's."""
    native, eager = nki.jit(kernel)(*arguments), nki.simulate(kernel)(*arguments)
    if isinstance(native, tuple):
        assert all(a.dtype == b.dtype and a.tobytes() == b.tobytes() for a, b in zip(native, eager, strict=True))
    else:
        assert native.dtype == eager.dtype and native.tobytes() == eager.tobytes()
    return native


def refused(kernel: Any, *arguments: Any) -> str:
    """The report on a kernel that is refused, the same whichever way it is run."""
    with pytest.raises(NkiError) as native:
        nki.jit(kernel)(*arguments)
    with pytest.raises(NkiError) as eager:
        nki.simulate(kernel)(*arguments)
    assert str(native.value) == str(eager.value)
    return str(native.value)


def numbers(*shape: int) -> np.ndarray[Any, Any]:
    """Standard normal float32, the same in every test."""
    return np.random.default_rng(5).standard_normal(shape).astype(np.float32)
