"""``nki.jax.op``: a kernel with its gradient, wherever JAX differentiates."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import nki.jax
from nki.base.errors import ArgumentError, NotDifferentiableError

from .kernels import multiply, sum_and_scaled
from .test_torch_op import scaled_product, scaled_product_backward

A = jnp.arange(24, dtype=jnp.float32).reshape(4, 6) / 8
B = A[::-1] * 3 + 1
product = nki.jax.op(scaled_product, backward=scaled_product_backward)
again = nki.jax.op(multiply, lambda a, b, dy: (again(dy, b), again(dy, a)))
both = nki.jax.op(sum_and_scaled, lambda a, b, dsum, dscaled, scale: (dsum.at[0].add(scale * dscaled[0]), dsum))


def loss(a, b):
    return (product(a, b, scale=3.0) * b).sum()


EXPECTED = 3 * B * B, 6 * A * B


def assert_expected(found, expected=EXPECTED):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit, jax.checkpoint], ids=["eager", "jit", "remat"])
def test_gradients(wrap):
    np.testing.assert_array_equal(wrap(loss)(A, B), loss(A, B))
    assert_expected(jax.grad(wrap(loss), argnums=(0, 1))(A, B))
    assert_expected(wrap(jax.grad(loss, argnums=(0, 1)))(A, B))


def test_vmap_and_scan():
    batch = jnp.stack([A, B])
    found = jax.vmap(jax.grad(loss), in_axes=(0, None))(batch, B)
    np.testing.assert_allclose(found, jnp.stack([3 * B * B] * 2), rtol=1e-6)

    def scanned(a):
        last, _ = jax.lax.scan(lambda c, x: (product(c, x, scale=1.0), None), a, batch / 4)
        return last.sum()

    np.testing.assert_allclose(jax.grad(scanned)(A), A * B / 16, rtol=1e-6)


def test_a_backward_of_operators_has_a_derivative():
    def slope(a):
        return jax.grad(lambda x: (again(x, B) ** 2).sum())(a).sum()

    np.testing.assert_allclose(jax.grad(slope)(A), 2 * B * B, rtol=1e-6)


def test_two_results_and_an_unused_one():
    def total(a, b):
        first, second = both(a, b, scale=3.0)
        return (first * b).sum() + (second * 2).sum()

    row = jnp.zeros_like(A).at[0].set(6.0)
    assert_expected(jax.grad(total, argnums=(0, 1))(A, B), (B + row, A + 2 * B))
    assert_expected(jax.grad(lambda a, b: both(a, b)[1].sum(), argnums=(0, 1))(A, B), (row / 3, 0 * B))


def test_defaults_and_constants_reach_the_backward():
    found = jax.grad(lambda a: product(a, B).sum())(A)
    np.testing.assert_allclose(found, 2 * B, rtol=1e-6)
    found = jax.grad(lambda a: product(a, b=B, scale=5.0).sum())(A)
    np.testing.assert_allclose(found, 5 * B, rtol=1e-6)


def test_kept_results():
    def backward(a, b, total, scaled, dy):
        np.testing.assert_array_equal(scaled.shape, (1, 6))
        return dy * scaled, dy + 0 * total

    hidden = nki.jax.op(sum_and_scaled, backward, save="all", kept=1)
    assert hidden(A, B).shape == A.shape
    assert_expected(
        jax.grad(lambda a, b: hidden(a, b).sum(), argnums=(0, 1))(A, B), (jnp.tile(2 * A[:1], (4, 1)), 1 + 0 * B)
    )


def test_tensors_without_a_gradient():
    table = nki.jax.op(multiply, lambda a, b, dy: multiply(dy, b))
    np.testing.assert_allclose(jax.grad(lambda a: table(a, B).sum())(A), B, rtol=1e-6)
    with pytest.raises(NotDifferentiableError, match="no gradient of tensor 2"):
        jax.grad(lambda a, b: table(a, b).sum(), argnums=1)(A, B)
    surplus = nki.jax.op(multiply, lambda a, b, dy: (dy, dy, dy))
    with pytest.raises(ArgumentError, match="returns 3 gradients"):
        jax.grad(lambda a: surplus(a, B).sum())(A)
    with pytest.raises(ArgumentError, match="save='nothing'"):
        nki.jax.op(multiply, lambda a, b, dy: dy, save="nothing")


def test_in_the_simulator(monkeypatch):
    native = jax.grad(loss, argnums=(0, 1))(A, B)
    monkeypatch.setenv("NKI_SIMULATOR", "1")
    for one, other in zip(jax.grad(loss, argnums=(0, 1))(A, B), native, strict=True):
        np.testing.assert_array_equal(one, other)
