"""``nki.testing.gradcheck``: right gradients pass in every dtype and framework, each kind of wrong one fails."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
import torch

import nki
import nki.isa as nisa
import nki.language as nl
from nki.base.errors import ArgumentError
from nki.base.framework_errors import GradientMismatchError
from nki.testing import gradcheck
from tests.support.kernel_parts import returned

from .kernels import add, less, multiply, sum_and_scaled

RANDOM = np.random.default_rng(0)
A, B = (RANDOM.standard_normal((6, 20)).astype(np.float32) for _ in range(2))


@nki.jit
def scaled_exponential(a, scale=0.5):
    tile = nl.load(a)
    nisa.activation(dst=tile, op=nl.exp, data=tile, scale=scale)
    return returned(tile)


def scaled_exponential_reference(a, scale=0.5):
    return np.exp(a * scale)


def scaled_exponential_backward(y, dy, scale):
    return (y * dy * scale).astype(y.dtype)


def product_backward(a, b, dy):
    return multiply(b, dy), multiply(a, dy)


@pytest.mark.parametrize("reference", [None, np.multiply])
@pytest.mark.parametrize(
    "convert",
    [
        np.asarray,
        lambda a: a.astype(nl.bfloat16),
        lambda a: a.astype(np.float16),
        torch.from_numpy,
        lambda a: torch.tensor(a, requires_grad=True),
        lambda a: torch.from_numpy(a).bfloat16(),
        jnp.asarray,
    ],
    ids=["numpy", "bfloat16", "float16", "torch", "torch leaf", "torch bfloat16", "jax"],
)
def test_right_gradients_pass(convert, reference):
    report = gradcheck(multiply, product_backward, convert(A), convert(B), reference=reference)
    assert [w.argument for w in report.worst] == ["a", "b"]
    assert all(w.good and w.tolerance > 0 and (w.checked, w.size) == (64, 120) for w in report.worst)


@pytest.mark.parametrize("reference", [None, scaled_exponential_reference])
def test_constants_and_saved_results(reference):
    gradcheck(scaled_exponential, scaled_exponential_backward, A, save="results", reference=reference)
    gradcheck(scaled_exponential, scaled_exponential_backward, A, scale=0.25, save="results", reference=reference)
    with pytest.raises(GradientMismatchError):
        gradcheck(scaled_exponential, lambda y, dy: y * dy, A, save="results", reference=reference)


def test_several_results_of_which_one_is_kept():
    def backward(a, b, total, scaled, d_total):
        assert np.array_equal(scaled, 2 * a[:1])
        return d_total, d_total

    gradcheck(sum_and_scaled, backward, A, B, save="all", kept=1)
    with pytest.raises(ArgumentError, match="reference returns 1 results, the kernel 2"):
        gradcheck(sum_and_scaled, lambda a, b, dt, ds: (dt, dt), A, B, reference=np.add)


@pytest.mark.parametrize("reference", [None, np.multiply], ids=["itself", "float64"])
@pytest.mark.parametrize(
    "spoil",
    [
        lambda da, db: (-da, db),
        lambda da, db: (db, da),
        lambda da, db: (da, np.zeros_like(db)),
        lambda da, db: (da * 1.01, db),
        lambda da, db: (np.where(np.arange(20) == 3, np.float32(0), da), db),
        lambda da, db: (np.where(np.arange(20) == 3, np.float32(np.nan), da), db),
    ],
    ids=["sign", "swapped", "zero", "a hundredth too large", "one column", "NaN"],
)
def test_wrong_gradients_fail(spoil, reference):
    with pytest.raises(GradientMismatchError, match=r"BAD [ab]\[\d+, \d+\]: backward"):
        gradcheck(multiply, lambda a, b, dy: spoil(b * dy, a * dy), A, B, reference=reference, elements=120)


def test_the_report_shows_the_worst_element():
    def backward(a, b, dy):
        da = b * dy
        da[2, 7] += 1
        da[3, 1] += 2
        return da, a * dy

    with pytest.raises(GradientMismatchError, match=r"BAD a\[3, 1\].*off by 2,.*\n.*ok  b\["):
        gradcheck(multiply, backward, A, B, elements=120, reference=np.multiply)


def test_wrong_rounding_of_bfloat16_is_within_a_wider_tolerance_only():
    a, b = A.astype(nl.bfloat16), B.astype(nl.bfloat16)
    with pytest.raises(GradientMismatchError):
        gradcheck(multiply, product_backward, a, b, reference=np.multiply, tolerance=1e-6)


def test_none_and_missing_gradients_are_not_compared():
    report = gradcheck(multiply, lambda a, b, dy: (None, a * dy), A, B, reference=np.multiply)
    assert [w.argument for w in report.worst] == ["b"]
    assert len(gradcheck(multiply, lambda a, b, dy: b * dy, A, B).worst) == 1


def test_mistakes():
    with pytest.raises(ArgumentError, match="3 gradients, and the kernel takes 2"):
        gradcheck(add, lambda a, b, dy: (dy, dy, dy), A, B)
    with pytest.raises(ArgumentError, match=r"gradient of 'a' has shape \(20, 6\), the tensor \(6, 20\)"):
        gradcheck(add, lambda a, b, dy: (dy.T, dy), A, B)
    with pytest.raises(ArgumentError, match="'b' is passed by name"):
        gradcheck(add, lambda a, b, dy: (dy, dy), A, b=B)
    with pytest.raises(ArgumentError, match="a gradient for a tensor of int32"):
        gradcheck(less, lambda a, b, dy: (a, b), A.astype(np.int32), B.astype(np.int32), reference=np.less)


@pytest.mark.parametrize("convert", [torch.from_numpy, lambda a: torch.from_numpy(a).bfloat16()])
def test_a_reference_of_tensors(convert):
    seen = []

    def reference(a, scale=0.5):
        seen.append(type(a))
        return torch.nn.functional.softplus(a * scale) + (a * scale).exp() - torch.nn.functional.softplus(a * scale)

    def backward(y, dy, scale):
        return (y * dy * scale).to(y.dtype)

    gradcheck(scaled_exponential, backward, convert(A), save="results", reference=reference, scale=0.25)
    assert seen[0] is np.ndarray and set(seen[1:]) == {torch.Tensor}
    with pytest.raises(GradientMismatchError):
        gradcheck(scaled_exponential, lambda y, dy, scale: y * dy, convert(A), save="results", reference=reference)


def test_a_reference_that_takes_neither_raises_its_own_error():
    def reference(a, b):
        raise TypeError("not implemented")

    with pytest.raises(TypeError, match="not implemented"):
        gradcheck(multiply, product_backward, torch.from_numpy(A), torch.from_numpy(B), reference=reference)
    with pytest.raises(TypeError, match="silu"):
        gradcheck(multiply, product_backward, A, B, reference=lambda a, b: torch.nn.functional.silu(a))
