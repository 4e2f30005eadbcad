"""Twelve more kernels with a planted loss, written when the rules stood: the others taught the rules."""

from __future__ import annotations

import numpy as np

import nki
import nki.isa as nisa
import nki.language as nl
from tests.rounding.planted import BF16, normal, returned, tile_of


@nki.jit
def rope_tables_in_bfloat16(x, cosine, sine):
    """Rotation of pairs with a table that was stored in bfloat16."""
    a = nl.load(x)
    table = tile_of(cosine, nl.bfloat16)
    nisa.dma_copy(dst=table, src=cosine)  # loss
    other = nl.load(sine)
    first, second = tile_of(x, shape=(128, 64)), tile_of(x, shape=(128, 64))
    nisa.tensor_tensor(dst=first, data1=a[:, :64], data2=table, op=nl.multiply)
    nisa.tensor_tensor(dst=second, data1=a[:, 64:], data2=other, op=nl.multiply)
    nisa.tensor_tensor(dst=first, data1=first, data2=second, op=nl.subtract)
    return returned(first)


@nki.jit
def swiglu_gate_in_float8(x, w):
    t, u = nl.load(x), nl.load(w)
    gate = tile_of(x, nl.float8_e4m3)
    nisa.activation(dst=gate, op=nl.silu, data=t)  # loss
    y = tile_of(x)
    nisa.tensor_tensor(dst=y, data1=gate, data2=u, op=nl.multiply)
    return returned(y)


@nki.jit
def quadratic_root(b, c):
    """b - sqrt(b^2 - c) with a small c."""
    t, u = nl.load(b), nl.load(c)
    root, y = tile_of(b), tile_of(b)
    nisa.tensor_tensor(dst=root, data1=t, data2=t, op=nl.multiply)
    nisa.tensor_tensor(dst=root, data1=root, data2=u, op=nl.subtract)
    nisa.activation(dst=root, op=nl.sqrt, data=root)
    nisa.tensor_tensor(dst=y, data1=t, data2=root, op=nl.subtract)  # loss
    return returned(y)


@nki.jit
def one_minus_cosine(x):
    """1 - sqrt(1 - s^2) of a small s."""
    t = nl.load(x)
    c, y = tile_of(x), tile_of(x)
    nisa.tensor_tensor(dst=c, data1=t, data2=t, op=nl.multiply)
    nisa.tensor_scalar(dst=c, data=c, op0=nl.multiply, operand0=-1.0, op1=nl.add, operand1=1.0)  # loss
    nisa.activation(dst=y, op=nl.sqrt, data=c)
    nisa.tensor_scalar(dst=y, data=y, op0=nl.multiply, operand0=-1.0, op1=nl.add, operand1=1.0)  # loss
    return returned(y)


@nki.jit
def sum_on_the_tensor_engine_in_bfloat16(x):
    """Row sums by a product with ones, of data that was made bfloat16 for it."""
    t = nl.load(x)
    low = tile_of(x, nl.bfloat16)
    nisa.tensor_copy(dst=low, src=t)  # loss
    ones = nl.full((128, 1), 1.0, nl.bfloat16)
    psum, y = tile_of(x, nl.float32, nl.psum, (1, 512)), tile_of(x, shape=(1, 512))
    nisa.nc_matmul(dst=psum, stationary=ones, moving=low)
    nisa.tensor_copy(dst=y, src=psum)
    return returned(y)


@nki.jit
def sigmoid_by_parts(x):
    """1 / (1 + exp(-x)), then its logarithm, of very negative x: exp overflows."""
    t = nl.load(x)
    e = tile_of(x)
    nisa.activation(dst=e, op=nl.exp, data=t, scale=-1.0)  # loss
    nisa.tensor_scalar(dst=e, data=e, op0=nl.add, operand0=1.0)
    nisa.reciprocal(dst=e, data=e)
    nisa.activation(dst=e, op=nl.log, data=e)
    return returned(e)


@nki.jit
def optimiser_state_in_bfloat16(m, g):
    """A moving average in bfloat16: small gradients do not move it."""
    state = tile_of(m, nl.bfloat16)
    nisa.dma_copy(dst=state, src=m)
    grad = nl.load(g)
    for _ in range(64):
        new = tile_of(m)
        nisa.tensor_scalar(dst=new, data=grad, op0=nl.multiply, operand0=0.001)
        nisa.tensor_tensor(dst=state, data1=state, data2=new, op=nl.add)  # loss
    return returned(state, nl.float32)


@nki.jit
def two_losses(x):
    """The input in bfloat16, and a float8 copy that is worse."""
    t = tile_of(x, nl.bfloat16)
    nisa.dma_copy(dst=t, src=x)
    low, y = tile_of(x, nl.float8_e5m2), tile_of(x)
    nisa.activation(dst=low, op=nl.tanh, data=t)  # loss
    nisa.tensor_tensor(dst=y, data1=low, data2=t, op=nl.add)
    return returned(y)


@nki.jit
def result_and_loss_in_one_dtype(x):
    """The caller asks for bfloat16; what loses is a sum in bfloat16 on the way."""
    t = nl.load(x)
    total = nl.zeros((128, 1), nl.bfloat16)
    for i in range(128):
        nisa.tensor_tensor(dst=total, data1=total, data2=t[:, i : i + 1], op=nl.add)  # loss
    wide, y = tile_of(x, shape=(128, 1)), tile_of(x, nl.bfloat16)
    nisa.tensor_copy(dst=wide, src=total)
    nisa.tensor_scalar(dst=y, data=t, op0=nl.multiply, operand0=wide)
    return returned(y)


@nki.jit
def covariance(x, y):
    """E[xy] - E[x]E[y]."""
    a, b = nl.load(x), nl.load(y)
    product = nl.mean(nl.multiply(a, b), axis=1)
    means = nl.multiply(nl.mean(a, axis=1), nl.mean(b, axis=1))
    return returned(nl.subtract(product, means))  # loss


@nki.jit
def transposed_in_bfloat16(x):
    """A transpose on the way that goes through bfloat16."""
    t = nl.load(x)
    low = tile_of(x, nl.bfloat16)
    nisa.tensor_copy(dst=low, src=t)  # loss
    psum, y = tile_of(x, nl.bfloat16, nl.psum), tile_of(x)
    nisa.nc_transpose(dst=psum, data=low)
    nisa.activation(dst=y, op=nl.exp, data=psum)
    return returned(y)


@nki.jit
def logits_in_bfloat16(x, w):
    """log-sum-exp of scores that left PSUM in bfloat16."""
    a, b = nl.load(x), nl.load(w)
    psum = tile_of(x, nl.float32, nl.psum, (128, 512))
    nisa.nc_matmul(dst=psum, stationary=a, moving=b)
    scores = tile_of(x, nl.bfloat16, nl.sbuf, (128, 512))
    nisa.tensor_copy(dst=scores, src=psum)  # loss
    most, e, total = tile_of(x, shape=(128, 1)), tile_of(x, shape=(128, 512)), tile_of(x, shape=(128, 1))
    nisa.tensor_reduce(dst=most, data=scores, op=nl.maximum, axis=1)
    nisa.tensor_scalar(dst=e, data=scores, op0=nl.subtract, operand0=most)
    nisa.activation(dst=e, op=nl.exp, data=e)
    nisa.tensor_reduce(dst=total, data=e, op=nl.add, axis=1)
    nisa.activation(dst=total, op=nl.log, data=total)
    nisa.tensor_tensor(dst=total, data1=total, data2=most, op=nl.add)
    return returned(total)


ARGUMENTS = {
    rope_tables_in_bfloat16: (normal(128, 128), normal(128, 64), normal(128, 64)),
    swiglu_gate_in_float8: (normal(128, 128), normal(128, 128)),
    quadratic_root: (normal(128, 64, mean=50.0), np.abs(normal(128, 64, scale=1e-2))),
    one_minus_cosine: (normal(128, 64, scale=1e-3),),
    sum_on_the_tensor_engine_in_bfloat16: (normal(128, 512, mean=1.0),),
    sigmoid_by_parts: (normal(128, 64, mean=-100.0, scale=5.0),),
    optimiser_state_in_bfloat16: (normal(128, 64, mean=1.0, scale=0.1), normal(128, 64)),
    two_losses: (normal(128, 64),),
    result_and_loss_in_one_dtype: (normal(128, 128, mean=1.0),),
    covariance: (normal(128, 512, mean=200.0), normal(128, 512, mean=300.0)),
    transposed_in_bfloat16: (normal(128, 128),),
    logits_in_bfloat16: (normal(128, 128, dtype=BF16), normal(128, 512, dtype=BF16)),
}
