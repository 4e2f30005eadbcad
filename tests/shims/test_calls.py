"""What the stand-ins compute: calls of JAX, kernels of either dialect under one decorator, the operator of norms."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import torch

import neuronxcc.nki.language as nl1
import nki.isa as nisa
import nki.language as nl
from nki.harness.vendor_jax import nki_call
from nki.harness.vendor_torch import RmsNorm, jit
from tests.support.kernel_parts import returned


def scaled_sum(a, b, out, total, scale=1.0):
    """Two outputs behind the inputs, as kernels of Beta 1 took them."""
    tile = nl1.load(a) * scale + nl1.load(b)
    nl1.store(out, tile)
    nl1.store(total, nl1.sum(tile, axis=1, keepdims=True))


def halves(a, out):
    """Each program of the grid copies its rows."""
    rows = nl1.program_id(0) * 64 + nl1.arange(64)[:, None]
    columns = nl1.arange(8)[None, :]
    nl1.store(out[rows, columns], nl1.load(a[rows, columns]))


def test_nki_call() -> None:
    a = jnp.asarray(np.random.default_rng(1).random((128, 8)), jnp.float32)
    wide, narrow = jax.ShapeDtypeStruct((128, 8), jnp.float32), jax.ShapeDtypeStruct((128, 1), jnp.float32)

    def call(a):
        return nki_call(functools.partial(scaled_sum, scale=3.0), a, a, out_shape=(wide, narrow))

    for run in (call, jax.jit(call)):
        out, total = run(a)
        np.testing.assert_allclose(out, 4 * a, rtol=1e-6)
        np.testing.assert_allclose(total, (4 * a).sum(1, keepdims=True), rtol=1e-5)
    copied = nki_call(halves, a, grid=(2,), out_shape=wide)
    assert isinstance(copied, jax.Array)
    np.testing.assert_array_equal(copied, a)


@jit
def of_beta1(a, out):
    nl1.store(out, nl1.load(a) * 2)


@jit()
def of_today(a):
    tile = nl.load(a)
    nisa.tensor_scalar(tile, tile, nl.multiply, 2.0)
    return returned(tile)


def test_one_decorator_for_both_dialects() -> None:
    a, out = torch.rand(128, 8), torch.zeros(128, 8)
    of_beta1(a, out)
    assert torch.equal(out, 2 * a)
    assert torch.equal(of_today(a), 2 * a)


def test_rms_norm() -> None:
    x, weight = torch.randn(3, 5, 16, dtype=torch.bfloat16), torch.rand(16)
    expected = torch.nn.functional.rms_norm(x.float(), (16,), weight, 1e-5)
    got = RmsNorm.apply(x, weight, 1e-5, 2)
    assert got.dtype == torch.bfloat16
    torch.testing.assert_close(got, expected.to(torch.bfloat16))
