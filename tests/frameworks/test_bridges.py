"""What holds for the tensors of every framework, called eagerly and from compiled programs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

import nki

from .bridges import BRIDGES, EVERY_BRIDGE, EVERY_WAY, NUMPY, TORCH, WAYS, A, B, Bridge
from .kernels import add, less, overwrite_both, overwrite_first, sum_and_scaled

DTYPES = [
    pytest.param(bridge, np.dtype(getattr(ml_dtypes, kind, kind)), id=f"{name}-{kind}")
    for name, bridge in BRIDGES.items()
    for kind in bridge.dtypes.split()
]


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch.compiler.reset()


def same(bridge: Bridge, got: Any, expected: Any) -> None:
    """The bits of a result, and that it is a tensor of the framework."""
    array = bridge.array(got)
    assert isinstance(got, bridge.kind)
    assert (array.shape, array.dtype, array.tobytes()) == (expected.shape, expected.dtype, expected.tobytes())


@EVERY_WAY
def test_a_result_is_fresh(bridge: Bridge, wrap: Any) -> None:
    call, a, b = wrap(add), bridge.tensor(A), bridge.tensor(B)
    first, second = call(a, b), call(a, b)
    same(bridge, first, A + B)
    assert bridge.address(first) != bridge.address(second)
    assert bridge is not TORCH or not first.requires_grad


@EVERY_WAY
def test_plain_tensors_are_not_copied(bridge: Bridge, wrap: Any, launches: Any) -> None:
    a, b = bridge.tensor(A.copy()), bridge.tensor(B.copy())
    out = wrap(add)(a, b)
    assert launches == [tuple(map(bridge.address, (a, b, out)))]


@pytest.mark.parametrize(("bridge", "dtype"), DTYPES)
def test_dtypes_of_nki(bridge: Bridge, dtype: Any) -> None:
    ones = np.ones((3, 4), dtype)
    same(bridge, add(bridge.tensor(ones), bridge.tensor(ones)), (ones.astype(np.float32) * 2).astype(dtype))


@EVERY_BRIDGE
def test_bool_results(bridge: Bridge) -> None:
    same(bridge, less(bridge.tensor(A), bridge.tensor(B)), A < B)


@EVERY_WAY
def test_several_results_and_constants(bridge: Bridge, wrap: Any) -> None:
    results = wrap(lambda a, b: sum_and_scaled(a, b=b, scale=3.0, mode="other"))(bridge.tensor(A), bridge.tensor(B))
    assert isinstance(results, tuple)
    same(bridge, results[0], A + B)
    same(bridge, results[1], A[:1] * 3)


@EVERY_WAY
def test_errors_of_a_launch_reach_the_caller(bridge: Bridge, wrap: Any, broken_launch: None) -> None:
    # JAX raises the one or the other, depending on the path that the call takes through it.
    with pytest.raises((RuntimeError, ValueError), match="broken on purpose"):
        bridge.array(wrap(add)(bridge.tensor(A), bridge.tensor(B)))


@pytest.mark.parametrize(("bridge", "wrap"), [WAYS[n] for n in ("NumPy", "PyTorch", "jax.jit")])
def test_calls_from_several_threads(bridge: Bridge, wrap: Any) -> None:
    call = wrap(add)
    arrays = [np.full((64, 64), i, np.float32) for i in range(32)]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda a: call(a, a), map(bridge.tensor, arrays)))
    for array, result in zip(arrays, results, strict=True):
        same(bridge, result, 2 * array)


@pytest.mark.parametrize(("bridge", "dtype"), DTYPES)
def test_simulated_results_equal_native_ones(bridge: Bridge, dtype: Any) -> None:
    a, b = (bridge.tensor((x / 8).astype(dtype)) for x in (A, B[::-1]))
    same(bridge, nki.simulate(add)(a, b), bridge.array(add(a, b)))


ALIASES = {
    "the same": lambda ones: (lambda a: (a, a))(ones(4, 4)),
    "overlapping": lambda ones: (lambda b: (b[:16].reshape(4, 4), b[8:].reshape(4, 4)))(ones(24)),
    "one strided": lambda ones: (lambda b: (b[:4], b[::2]))(ones(8, 4)),
    "the other strided": lambda ones: (lambda b: (b[::2], b[:4]))(ones(8, 4)),
    "apart": lambda ones: (ones(4, 4), ones(4, 4)),
}


@pytest.mark.parametrize("kernel", [overwrite_first, overwrite_both], ids=["one", "both"])
@pytest.mark.parametrize("tensors", ALIASES.values(), ids=ALIASES)
@pytest.mark.parametrize(("bridge", "wrap"), [WAYS[n] for n in ("NumPy", "PyTorch", "torch.compile")])
def test_arguments_that_share_memory_are_tensors_of_their_own(
    kernel: Any, tensors: Any, bridge: Bridge, wrap: Any
) -> None:
    native, simulated = (tensors(lambda *shape: bridge.tensor(np.ones(shape, np.float32))) for _ in range(2))
    got, want = wrap(kernel)(*native), nki.simulate(kernel)(*simulated)
    for one, other in zip((*got, *native), (*want, *simulated), strict=True):
        same(bridge, one, bridge.array(other))


@pytest.mark.parametrize("bridge", [NUMPY, TORCH])
def test_a_changed_tensor_that_shares_no_memory_is_changed_in_place(bridge: Bridge, launches: Any) -> None:
    x, y = (bridge.tensor(np.ones((4, 4), np.float32)) for _ in range(2))
    changed, out = overwrite_first(x, y)
    assert bridge is NUMPY or changed is x
    assert launches == [tuple(map(bridge.address, (x, y, x, out)))]
