"""The kernels that the benchmarks time, on small inputs: the results of PyTorch, and the bits of 1, 2 and 3 threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from benchmarks import tutorial_kernels as kernels
from tests.support.shared_launches import launched, shared

torch = pytest.importorskip("torch")
F = torch.nn.functional
__all__ = ["shared"]


def causal(q: Any, k: Any, v: Any) -> Any:
    return F.scaled_dot_product_attention(q[None, None], k[None, None], v[None, None], is_causal=True)[0, 0]


CASES: dict[str, tuple[Any, Callable[..., Any], list[tuple[int, int]]]] = {
    "matmul": (kernels.matmul, lambda a, b: a.T @ b, [(256, 128), (256, 1024)]),
    "attention": (kernels.attention, causal, [(384, 128)] * 3),
    "softmax": (kernels.softmax, lambda x: torch.softmax(x, 1), [(256, 300)]),
    "layer_norm": (
        kernels.layer_norm,
        lambda x, gain, shift: F.layer_norm(x, x.shape[1:], gain[0], shift[0]),
        [(256, 700), (1, 700), (1, 700)],
    ),
    "rms_norm": (kernels.rms_norm, lambda x, gain: F.rms_norm(x, x.shape[1:], gain[0], 1e-6), [(256, 300), (1, 300)]),
    "swiglu": (kernels.swiglu, lambda gate, up: F.silu(gate) * up, [(256, 300)] * 2),
}


@pytest.mark.parametrize("name", CASES)
def test_results_and_bits(name: str, shared: pytest.MonkeyPatch) -> None:
    kernel, reference, shapes = CASES[name]
    rng = np.random.default_rng(5)
    arrays = [rng.normal(size=shape).astype(np.float32) for shape in shapes]
    result = kernel(*arrays)
    expected = reference(*map(torch.from_numpy, arrays)).numpy()
    assert np.abs(result - expected).max() <= 1e-5 * np.abs(expected).max()
    for outputs in launched(kernel.compile(*arrays).kernel, arrays, shared):
        assert outputs == [result.tobytes()]
