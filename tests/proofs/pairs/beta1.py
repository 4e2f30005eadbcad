"""Kernels of Beta 1 and what one writes for them today."""

from __future__ import annotations

import neuronxcc.nki as beta
import neuronxcc.nki.isa as beta_isa
import neuronxcc.nki.language as bl
import nki
import nki.isa as nisa
import nki.language as nl
from tests.proofs.pair import Pair, tensors
from tests.support.kernel_parts import column, copied, product, returned, transposed


@beta.jit
def beta_scaled(x):
    out = bl.ndarray(x.shape, dtype=x.dtype, buffer=bl.shared_hbm)
    i_p, i_f = bl.mgrid[0:32, 0:40]
    for i in bl.affine_range(2):
        tile = bl.load(x[i * 32 + i_p, i_f])
        bl.store(out[i * 32 + i_p, i_f], value=bl.multiply(bl.add(tile, 1.0), 2.0))
    return out


@nki.jit
def scaled(x):
    tile = nl.load(x)
    nisa.activation(tile, nl.copy, tile, scale=2.0, bias=2.0)
    return returned(tile)


@beta.jit
def beta_masked(x):
    """A tile of 32 rows and one of 18."""
    out = bl.ndarray(x.shape, dtype=x.dtype, buffer=bl.shared_hbm)
    rows, columns = x.shape
    i_p, i_f = bl.mgrid[0:32, 0:columns]
    for i in bl.affine_range(2):
        inside = i * 32 + i_p < rows
        tile = bl.load(x[i * 32 + i_p, i_f], mask=inside)
        bl.store(out[i * 32 + i_p, i_f], value=bl.silu(tile, mask=inside), mask=inside)
    return out


@nki.jit
def sliced(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for start in range(0, x.shape[0], 32):
        end = min(start + 32, x.shape[0])
        tile = nl.load(x[start:end])
        gate = nl.ndarray(tile.shape, nl.float32)
        nisa.activation(gate, nl.sigmoid, tile)
        nisa.tensor_tensor(tile, tile, gate, nl.multiply)
        nl.store(out[start:end], tile)
    return out


@beta.jit
def beta_product(a, b):
    out = bl.ndarray((a.shape[1], b.shape[1]), dtype=bl.float32, buffer=bl.shared_hbm)
    total = bl.zeros((a.shape[1], b.shape[1]), dtype=bl.float32, buffer=bl.psum)
    for k in bl.affine_range(a.shape[0] // 32):
        left = bl.load(a[bl.ds(k * 32, 32), :])
        right = bl.load(b[bl.ds(k * 32, 32), :])
        total += bl.matmul(left, right, transpose_x=True)
    bl.store(out, beta_isa.tensor_copy(total))
    return out


@nki.jit
def summed_product(a, b):
    """In parts of 48 rows, summed in SBUF."""
    total = nl.zeros((a.shape[1], b.shape[1]), nl.float32)
    for k in range(0, a.shape[0], 48):
        nisa.tensor_tensor(total, total, product(nl.load(a[k : k + 48]), nl.load(b[k : k + 48])), nl.add)
    return returned(total)


@beta.jit
def beta_softmax(x):
    out = bl.ndarray(x.shape, dtype=x.dtype, buffer=bl.shared_hbm)
    tile = bl.load(x)
    top = bl.max(tile, axis=1, keepdims=True)
    powers = bl.exp(bl.subtract(tile, top))
    total = bl.sum(powers, axis=1, keepdims=True)
    bl.store(out, value=bl.multiply(powers, bl.reciprocal(total)))
    return out


@nki.jit
def softmax(x):
    tile = nl.load(x)
    top, total = column(tile), column(tile)
    nisa.tensor_reduce(top, nl.maximum, tile, axis=1, negate=True)
    nisa.activation_reduce(tile, nl.exp, tile, nl.add, total, bias=top)
    nisa.reciprocal(total, total)
    nisa.tensor_scalar(tile, tile, nl.multiply, total)
    return returned(tile)


@beta.jit
def beta_triangle(x):
    out = bl.ndarray(x.shape, dtype=x.dtype, buffer=bl.shared_hbm)
    i_p, i_f = bl.mgrid[0:32, 0:32]
    tile = bl.load(x[i_p, i_f])
    causal = beta_isa.affine_select(pred=i_p >= i_f, on_true_tile=tile, on_false_value=-1.0)
    bl.store(out[i_p, i_f], value=causal)
    return out


@nki.jit
def triangle(x):
    """(x + 1) times the mask, less 1."""
    tile, place = nl.load(x), nl.ndarray(x.shape, nl.float32)
    nisa.iota(place, [[-1, x.shape[1]]], channel_multiplier=1)
    nisa.tensor_scalar(place, place, nl.greater_equal, 0.0)
    nisa.scalar_tensor_tensor(tile, tile, nl.add, 1.0, nl.multiply, place)
    nisa.tensor_scalar(tile, tile, nl.subtract, 1.0)
    return returned(tile)


@beta.jit
def beta_attention(q, k, v):
    """Queries and keys are turned: (width, length)."""
    length, width = v.shape
    out = bl.ndarray((length, width), dtype=bl.float32, buffer=bl.shared_hbm)
    scores = bl.multiply(bl.matmul(bl.load(q), bl.load(k), transpose_x=True), 0.25)
    powers = bl.exp(bl.subtract(scores, bl.max(scores, axis=1, keepdims=True)))
    total = bl.sum(powers, axis=1, keepdims=True)
    weights = bl.multiply(powers, bl.reciprocal(total))
    bl.store(out, value=bl.matmul(weights, bl.load(v)))
    return out


@nki.jit
def attention(q, k, v):
    weights = nl.ndarray((q.shape[1], k.shape[1]), nl.float32)
    total, out = column(weights), nl.ndarray(v.shape, nl.float32)
    nisa.activation_reduce(weights, nl.exp, product(nl.load(q), nl.load(k)), nl.add, total, scale=0.25)
    nisa.reciprocal(total, total)
    nisa.tensor_scalar(out, product(transposed(weights), nl.load(v)), nl.multiply, total)
    return returned(copied(out))


SHIFT = ("softmax is the same for any shift",)
ATTENTION = tensors((16, 24), (16, 24), (24, 16))
PAIRS = [
    Pair("Beta 1 index tiles", "beta1", beta_scaled, scaled, tensors((64, 40))),
    Pair("Beta 1 masks", "beta1", beta_masked, sliced, tensors((50, 24)), identities=("silu x = x sigmoid x",)),
    Pair("Beta 1 product", "beta1", beta_product, summed_product, tensors((96, 20), (96, 24))),
    Pair("Beta 1 softmax", "beta1", beta_softmax, softmax, tensors((24, 40)), identities=SHIFT),
    Pair("Beta 1 triangle", "beta1", beta_triangle, triangle, tensors((32, 32))),
    Pair("Beta 1 attention", "beta1", beta_attention, attention, ATTENTION, identities=SHIFT),
]
