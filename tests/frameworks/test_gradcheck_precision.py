"""``nki.testing.gradcheck`` without a reference where results are coarser than arguments: right and wrong gradients."""

from __future__ import annotations

import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.base.framework_errors import GradientMismatchError
from nki.testing import gradcheck
from tests.support.kernel_parts import returned

DTYPES = pytest.mark.parametrize("dtype", [nl.bfloat16, nl.float16, nl.float8_e4m3, nl.float8_e5m2], ids=str)
SHAPES = pytest.mark.parametrize("shape", [(1, 16), (8, 128), (128, 128), (128, 4), (8, 2048)], ids=str)


@nki.jit
def scaled_rows(x, gain):
    """x gain: each row of x times the one of gain, rounded to x's dtype."""
    tile, gains = nl.load(x), nl.broadcast_to(nl.load(gain), x.shape)
    nisa.tensor_tensor(tile, tile, gains, nl.multiply)
    return returned(tile)


@nki.jit
def shifted_rows(x, shift):
    """x + shift, rounded to x's dtype."""
    tile, shifts = nl.load(x), nl.broadcast_to(nl.load(shift), x.shape)
    nisa.tensor_tensor(tile, tile, shifts, nl.add)
    return returned(tile)


@nki.jit
def halves(x, gain):
    """As scaled_rows, in float32 but for a tile of x's dtype between."""
    tile, gains = nl.load(x), nl.broadcast_to(nl.load(gain), x.shape)
    nisa.tensor_tensor(tile, tile, gains, nl.multiply)
    wide = nl.ndarray(x.shape, nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(wide, tile)
    return returned(wide)


def product_backward(x, gain, dy):
    wide = dy.astype(np.float32)
    return (wide * gain).astype(x.dtype), (wide * x.astype(np.float32)).sum(0, keepdims=True)


def sum_backward(x, shift, dy):
    return dy, dy.astype(np.float32).sum(0, keepdims=True)


def arguments(shape, dtype, seed):
    random = np.random.default_rng(seed)
    return random.standard_normal(shape).astype(dtype), 1 + random.random((1, shape[1]), np.float32)


@DTYPES
@SHAPES
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    ("kernel", "backward"),
    [(scaled_rows, product_backward), (shifted_rows, sum_backward), (halves, product_backward)],
    ids=["scaled", "shifted", "halves"],
)
def test_right_gradients_pass(kernel, backward, shape, dtype, seed):
    gradcheck(kernel, backward, *arguments(shape, dtype, seed), elements=16, seed=seed)


SPOILED = {
    "sign": lambda x, gain, dx, dgain: (dx, -dgain),
    "sign of the first": lambda x, gain, dx, dgain: (-dx.astype(np.float32), dgain),
    "no sum": lambda x, gain, dx, dgain: (dx, np.broadcast_to(dgain.mean(), dgain.shape).astype(np.float32)),
    "not times the gradient": lambda x, gain, dx, dgain: (dx, x.astype(np.float32).sum(0, keepdims=True)),
    "swapped": lambda x, gain, dx, dgain: (np.broadcast_to(dgain, dx.shape), dx[:1].astype(np.float32)),
    "none": lambda x, gain, dx, dgain: (dx, np.zeros_like(dgain)),
}


@DTYPES
@pytest.mark.parametrize("shape", [(8, 128), (128, 128), (8, 2048)], ids=str)
@pytest.mark.parametrize("spoil", SPOILED.values(), ids=SPOILED)
def test_wrong_gradients_fail(spoil, shape, dtype):
    def backward(x, gain, dy):
        return spoil(x, gain, *product_backward(x, gain, dy))

    with pytest.raises(GradientMismatchError):
        gradcheck(scaled_rows, backward, *arguments(shape, dtype, 0))


@nki.jit
def square_roots(x):
    tile = nl.load(x)
    nisa.activation(tile, nl.sqrt, tile)
    rounded = nl.ndarray(x.shape, nl.bfloat16, buffer=nl.sbuf)
    nisa.tensor_copy(rounded, tile)
    return returned(rounded)


def test_a_step_out_of_the_domain_is_shortened():
    x = np.full((2, 4), 0.125, np.float32)
    gradcheck(square_roots, lambda x, dy: (dy.astype(np.float32) / (2 * np.sqrt(x)),), x)
    with pytest.raises(GradientMismatchError):
        gradcheck(square_roots, lambda x, dy: (-dy.astype(np.float32) / (2 * np.sqrt(x)),), x)


def test_a_step_below_the_rounding_of_all_results():
    x = np.full((4, 8), 1000, nl.bfloat16)
    gradcheck(shifted_rows, sum_backward, x, np.ones((1, 8), np.float32))
