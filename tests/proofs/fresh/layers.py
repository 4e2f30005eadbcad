"""Products, layers, scans and movements as a stranger writes them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import torch

import neuronxcc.nki as beta
import neuronxcc.nki.language as bl
import nki
import nki.isa as nisa
import nki.language as nl
from tests.proofs.pair import Input, Pair, tensors
from tests.support.kernel_parts import (
    activated,
    applied,
    copied,
    joined,
    product,
    reduced,
    returned,
    transposed,
)


@nki.jit
def silu_by_sigmoid(x):
    tile = nl.load(x)
    return returned(joined(tile, nl.multiply, activated(tile, nl.sigmoid)))


@nki.jit
def silu_by_tanh(x):
    """x (1 + tanh(x / 2)) / 2."""
    tile, half = nl.load(x), nl.ndarray(x.shape, nl.float32)
    nisa.activation(half, nl.tanh, tile, scale=0.5)
    nisa.tensor_scalar(half, half, nl.add, 1.0, op1=nl.multiply, operand1=0.5)
    return returned(joined(half, nl.multiply, tile))


def torch_silu(x):
    return torch.nn.functional.silu(x)


@nki.jit
def swiglu(x, up):
    return returned(nl.multiply(nl.silu(nl.load(x)), nl.load(up)))


def jax_swiglu(x, up):
    return x * up / (1 + jnp.exp(-x))


@nki.jit
def gelu_erf(x):
    tile = nl.load(x)
    inner = nl.erf(nl.multiply(tile, 0.5**0.5))
    return returned(nl.multiply(nl.multiply(tile, 0.5), nl.add(inner, 1.0)))


@nki.jit
def gelu_row(x):
    return returned(nl.gelu(nl.load(x)))


def torch_gelu(x):
    return torch.nn.functional.gelu(x)


@nki.jit
def gelu_tanh(x):
    tile = nl.load(x)
    cubed = nl.multiply(nl.multiply(nl.square(tile), tile), 0.044715)
    inner = nl.tanh(nl.multiply(nl.add(tile, cubed), (2 / np.pi) ** 0.5))
    return returned(nl.multiply(nl.multiply(tile, nl.add(inner, 1.0)), 0.5))


def jax_gelu(x):
    return jax.nn.gelu(x, approximate=True)


def numpy_gelu_sigmoid(x):
    return x / (1 + np.exp(-2 * np.sqrt(2 / np.pi) * x * (1 + 0.044715 * x**2)))


@nki.jit
def mlp(x, w1, b1, w2):
    """relu(x w1 + b1) w2; x of (d, n) turned, the bias of a column."""
    hidden = product(nl.load(w1), nl.load(x))
    tile = nl.ndarray(hidden.shape, nl.float32)
    nisa.activation(tile, nl.relu, hidden, bias=nl.load(b1))
    return returned(copied(product(tile, nl.load(w2))))


@nki.jit
def mlp_in_parts(x, w1, b1, w2):
    """Hidden units in two halves; sums in SBUF; relu by a maximum."""
    d, half, n, out = w1.shape[0], w1.shape[1] // 2, x.shape[1], w2.shape[1]
    total = nl.zeros((n, out), nl.float32)
    for start in (0, half):
        hidden = copied(product(nl.load(w1[0:d, start : start + half]), nl.load(x)))
        bias = nl.load(b1[start : start + half])
        nisa.tensor_scalar(hidden, hidden, nl.add, bias, op1=nl.maximum, operand1=0.0)
        nisa.tensor_tensor(total, total, product(hidden, nl.load(w2[start : start + half])), nl.add)
    return returned(total)


def torch_mlp(x, w1, b1, w2):
    return torch.relu(torch.nn.functional.linear(x.T, w1.T, b1[:, 0])) @ w2


@nki.jit
def rope_halves(x, cos, sin):
    """x of (n, d): (a cos - b sin, b cos + a sin) of the halves a and b."""
    tile, c, s, half = nl.load(x), nl.load(cos), nl.load(sin), x.shape[1] // 2
    a, b, out = tile[:, 0:half], tile[:, half:], nl.ndarray(x.shape, nl.float32)
    nisa.tensor_tensor(out[:, 0:half], joined(a, nl.multiply, c), joined(b, nl.multiply, s), nl.subtract)
    nisa.tensor_tensor(out[:, half:], joined(b, nl.multiply, c), joined(a, nl.multiply, s), nl.add)
    return returned(out)


@nki.jit
def rope_rotated(x, cos, sin):
    """x cos + rotated(x) sin, the rotation by a product with a matrix of 0, 1 and -1."""
    tile, width, half = nl.load(x), x.shape[1], x.shape[1] // 2
    turn = nl.zeros((width, width), nl.float32)
    ones = nl.full((width, width), 1.0, nl.float32)
    back, forth = nl.ndarray((width, width), nl.float32), nl.ndarray((width, width), nl.float32)
    nisa.affine_select(back, [[-1, width]], 1, ones, 0.0, offset=half, cmp_op=nl.equal)
    nisa.affine_select(forth, [[-1, width]], 1, ones, 0.0, offset=-half, cmp_op=nl.equal)
    nisa.tensor_tensor(turn, back, forth, nl.subtract)
    rotated = copied(product(transposed(tile), turn))
    c, s = nl.load(cos), nl.load(sin)
    both_c, both_s = nl.ndarray(x.shape, nl.float32), nl.ndarray(x.shape, nl.float32)
    for start in (0, half):
        nisa.tensor_copy(both_c[:, start : start + half], c)
        nisa.tensor_copy(both_s[:, start : start + half], s)
    return returned(joined(joined(tile, nl.multiply, both_c), nl.add, joined(rotated, nl.multiply, both_s)))


def numpy_rope(x, cos, sin):
    cos, sin = np.concatenate([cos, cos], axis=1), np.concatenate([sin, sin], axis=1)
    half = x.shape[1] // 2
    return x * cos + np.concatenate([-x[:, half:], x[:, :half]], axis=1) * sin


@nki.jit
def rope_interleaved(x, cos, sin):
    tile, c, s = nl.load(x), nl.load(cos), nl.load(sin)
    a, b, out = tile[:, 0::2], tile[:, 1::2], nl.ndarray(x.shape, nl.float32)
    nisa.tensor_tensor(out[:, 0::2], joined(copied(a), nl.multiply, c), joined(copied(b), nl.multiply, s), nl.subtract)
    nisa.tensor_tensor(out[:, 1::2], joined(copied(b), nl.multiply, c), joined(copied(a), nl.multiply, s), nl.add)
    return returned(out)


def torch_rope(x, cos, sin):
    pairs = x.reshape(x.shape[0], -1, 2)
    a, b = pairs.unbind(-1)
    return torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(1)


@nki.jit
def decay_by_scan(a, x):
    """h = a h + x."""
    out = nl.ndarray(x.shape, nl.float32)
    nisa.tensor_tensor_scan(out, nl.load(a), nl.load(x), 0.0, nl.multiply, nl.add)
    return returned(out)


@nki.jit
def decay_by_blocks(a, x):
    """Blocks of 8 from 0; then the running product times the state that the block before ends with."""
    decays, tile = nl.load(a), nl.load(x)
    out = nl.ndarray(x.shape, nl.float32)
    state = nl.zeros((x.shape[0], 1), nl.float32)
    for start in range(0, x.shape[1], 8):
        part, steps = tile[:, start : start + 8], decays[:, start : start + 8]
        inner, powers = nl.ndarray((x.shape[0], 8), nl.float32), nl.ndarray((x.shape[0], 8), nl.float32)
        nisa.tensor_tensor_scan(inner, steps, part, 0.0, nl.multiply, nl.add)
        nisa.tensor_tensor_scan(powers, steps, nl.ones((x.shape[0], 8), nl.float32), 1.0, nl.multiply, nl.multiply)
        block = out[:, start : start + 8]
        nisa.scalar_tensor_tensor(block, powers, nl.multiply, state, nl.add, inner)
        nisa.tensor_copy(state, out[:, start + 7 : start + 8])
    return returned(out)


def jax_decay(a, x):
    def join(one, other):
        return one[0] * other[0], other[0] * one[1] + other[1]

    return jax.lax.associative_scan(join, (a, x), axis=1)[1]


def numpy_decay(a, x):
    state, rows = np.zeros(x.shape[0]), []
    for i in range(x.shape[1]):
        state = a[:, i] * state + x[:, i]
        rows.append(state)
    return np.stack(rows, axis=1)


@nki.jit
def sums_of_a_triangle(x):
    width = x.shape[1]
    rows, columns = nl.ndarray((width, width), nl.int32), nl.ndarray((width, width), nl.int32)
    nisa.iota(rows, [[0, width]], channel_multiplier=1)
    nisa.iota(columns, [[1, width]])
    ones = nl.ndarray((width, width), nl.float32)
    nisa.tensor_tensor(ones, rows, columns, nl.less_equal)
    return returned(copied(product(transposed(nl.load(x)), ones)))


def torch_cumsum(x):
    return torch.cumsum(x, dim=1)


@nki.jit
def split_product(a, b):
    """a of (64, m), b of (64, n): four parts of 16, in PSUM."""
    total = nl.ndarray((a.shape[1], b.shape[1]), nl.float32, buffer=nl.psum)
    for start in range(0, a.shape[0], 16):
        nisa.nc_matmul(total, nl.load(a[start : start + 16]), nl.load(b[start : start + 16]), accumulate=start > 0)
    return returned(copied(total))


@nki.jit
def strided_product(a, b):
    """Even rows and odd rows, added in SBUF."""
    parts = [copied(product(nl.load(a[start::2]), nl.load(b[start::2]))) for start in (0, 1)]
    return returned(joined(parts[1], nl.add, parts[0]))


@nki.jit
def turned_product(a, b):
    return returned(transposed(copied(product(nl.load(b), nl.load(a)))))


def numpy_loop_product(a, b):
    total = np.zeros((a.shape[1], b.shape[1]))
    for left, right in zip(a, b, strict=True):
        total = total + np.outer(left, right)
    return total


def einsum_product(a, b):
    return torch.einsum("km,kn->mn", a, b)


def bf16_product(a, b):
    """Casts are the identity to a proof."""
    return (a.to(torch.bfloat16).T @ b.to(torch.bfloat16)).float()


@beta.jit
def beta_split_product(a, b):
    out = bl.ndarray((a.shape[1], b.shape[1]), dtype=bl.float32, buffer=bl.shared_hbm)
    total = bl.zeros((a.shape[1], b.shape[1]), dtype=bl.float32, buffer=bl.psum)
    for k in bl.affine_range(4):
        total += bl.matmul(bl.load(a[bl.ds(k * 16, 16), :]), bl.load(b[bl.ds(k * 16, 16), :]), transpose_x=True)
    bl.store(out, bl.copy(total))
    return out


@nki.jit
def int8_before(x, w, scale):
    """int8 weights, times their scale, then the product; x of (k, m), w of (k, n), scale of (1, n)."""
    weights = nl.ndarray(w.shape, nl.float32)
    nisa.tensor_copy(weights, nl.load(w))
    nisa.tensor_tensor(weights, weights, nl.broadcast_to(nl.load(scale), w.shape), nl.multiply)
    return returned(copied(product(nl.load(x), weights)))


@nki.jit
def int8_after(x, w, scale):
    weights = copied(nl.load(w), nl.float32)
    result = copied(product(nl.load(x), weights))
    rows = product(nl.ones((1, x.shape[1]), nl.float32), nl.load(scale))
    return returned(joined(result, nl.multiply, rows))


def torch_int8(x, w, scale):
    return x.T @ (w.float() * scale)


@nki.jit
def conv_by_shifts(x, w):
    """x of (c, 20), w of (c, 3): each channel by itself, without padding."""
    tile, weights, wide = nl.load(x), nl.load(w), x.shape[1] - 2
    out = nl.zeros((x.shape[0], wide), nl.float32)
    for tap in range(3):
        nisa.scalar_tensor_tensor(out, tile[:, tap : tap + wide], nl.multiply, weights[:, tap : tap + 1], nl.add, out)
    return returned(out)


def torch_conv(x, w):
    return torch.nn.functional.conv1d(x[None], w[:, None], groups=x.shape[0])[0]


def numpy_conv(x, w):
    return sum(w[:, t : t + 1] * x[:, t : t + 18] for t in range(3))


@nki.jit
def conv_by_products(x, w):
    """x of (4, 20), w of (3, 4, 8): a product for each tap."""
    total = nl.ndarray((w.shape[2], 18), nl.float32, buffer=nl.psum)
    for tap in range(3):
        nisa.nc_matmul(total, nl.load(w[tap]), nl.load(x[0:4, tap : tap + 18]), accumulate=tap > 0)
    return returned(copied(total))


def jax_conv(x, w):
    return jnp.stack([sum(x[:, i + t] @ w[t] for t in range(3)) for i in range(18)], axis=1)


@nki.jit
def rows_by_one_hot(table, ids):
    """table of (16, d), ids of (12, 1)."""
    places = nl.ndarray((12, 16), nl.int32)
    nisa.iota(places, [[1, 16]])
    hot = nl.ndarray((12, 16), nl.float32)
    nisa.tensor_scalar(hot, places, nl.equal, copied(nl.load(ids), nl.float32))
    return returned(copied(product(transposed(hot), nl.load(table))))


def torch_embedding(table, ids):
    return torch.nn.functional.embedding(ids[:, 0].long(), table)


def numpy_rows(table, ids):
    return table[ids[:, 0]]


@nki.jit
def masked_by_select(x, mask):
    tile, chosen = nl.load(x), nl.load(mask)
    return returned(nl.where(nl.greater(chosen, 0.5), tile, 0.0))


@nki.jit
def masked_by_product(x, mask):
    tile, chosen = nl.load(x), nl.load(mask)
    return returned(joined(applied(chosen, nl.greater, 0.5), nl.multiply, tile))


def torch_masked(x, mask):
    return x.masked_fill(mask <= 0.5, 0.0)


@nki.jit
def leaky_by_maximum(x):
    tile = nl.load(x)
    return returned(joined(applied(tile, nl.multiply, 0.01), nl.maximum, tile))


def torch_leaky(x):
    return torch.nn.functional.leaky_relu(x, 0.01)


@nki.jit
def clamped(x):
    return returned(applied(nl.load(x), nl.maximum, -1.0, op1=nl.minimum, operand1=1.0))


def numpy_clamped(x):
    return np.clip(x, -1, 1)


@nki.jit
def hinge(x, y):
    """max(0, 1 - x y), its sum of rows."""
    tile = applied(joined(nl.load(x), nl.multiply, nl.load(y)), nl.multiply, -1.0, op1=nl.add, operand1=1.0)
    return returned(reduced(applied(tile, nl.maximum, 0.0), nl.add))


def jax_hinge(x, y):
    return jnp.sum(jax.nn.relu(1 - x * y), axis=1, keepdims=True)


@nki.jit
def largest_of_max8(x):
    found = nl.ndarray((x.shape[0], 8), nl.float32)
    nisa.max8(found, nl.load(x))
    return returned(found[:, 0:1])


@nki.jit
def largest(x):
    return returned(reduced(nl.load(x), nl.maximum))


@nki.jit
def top8_in_another_order(x):
    """The eight largest of the same numbers, halves exchanged."""
    tile, half, swapped = nl.load(x), x.shape[1] // 2, nl.ndarray(x.shape, nl.float32)
    nisa.tensor_copy(swapped[:, 0:half], tile[:, half:])
    nisa.tensor_copy(swapped[:, half:], tile[:, 0:half])
    found = nl.ndarray((x.shape[0], 8), nl.float32)
    nisa.max8(found, swapped)
    return returned(found)


@nki.jit
def top8(x):
    found = nl.ndarray((x.shape[0], 8), nl.float32)
    nisa.max8(found, nl.load(x))
    return returned(found)


@nki.jit
def turned_by_dma(x):
    tile = nl.ndarray((x.shape[1], x.shape[0]), nl.bfloat16)
    nisa.dma_transpose(tile, x)
    return returned(tile)


@nki.jit
def turned_by_engine(x):
    return returned(transposed(nl.load(x)))


def jax_turned(x):
    return jnp.swapaxes(x, 0, 1)


@nki.jit
def variance(x):
    return returned(nl.var(nl.load(x), axis=1, keepdims=True))


def numpy_pairs_variance(x):
    """Half of the mean of all squared differences."""
    gaps = x[:, :, None] - x[:, None, :]
    return (gaps**2).mean(axis=(1, 2))[:, None] / 2


@nki.jit
def means_by_products(x):
    """Means of columns, over partitions, by a product with ones."""
    ones = nl.full((x.shape[0], 1), 1.0 / x.shape[0], nl.float32)
    return returned(copied(product(ones, nl.load(x))))


@nki.jit
def means_by_partitions(x):
    out = nl.ndarray((1, x.shape[1]), nl.float32)
    nisa.tensor_partition_reduce(out, nl.add, nl.load(x))
    return returned(applied(out, nl.divide, float(x.shape[0])))


@nki.jit
def softplus_stable(x):
    """max(x, 0) + log(1 + exp(-|x|))."""
    tile = nl.load(x)
    tail = nl.log(nl.add(nl.exp(nl.negative(nl.abs(tile))), 1.0))
    return returned(nl.add(nl.maximum(tile, 0.0), tail))


@nki.jit
def softplus_row(x):
    return returned(activated(nl.load(x), nl.softplus))


def torch_bce(x, y):
    return torch.nn.functional.binary_cross_entropy_with_logits(x, y, reduction="none")


@nki.jit
def bce(x, y):
    tile, wanted = nl.load(x), nl.load(y)
    return returned(nl.subtract(activated(tile, nl.softplus), nl.multiply(tile, wanted)))


ROWS, LONG = tensors((16, 24)), tensors((64, 24), (64, 20))
ROPE = tensors((12, 16), (12, 8), (12, 8))
QUANTISED = (Input((32, 12)), Input((32, 16), "int8", 0, 8), Input((1, 16)))
MLP = tensors((16, 12), (16, 32), (32, 1), (32, 10))
IDS = (Input((16, 10)), Input((12, 1), "int32", 0, 16))
PAIRS = [
    Pair("fresh silu", "mlp", silu_by_sigmoid, silu_by_tanh, ROWS),
    Pair("fresh silu, torch", "pytorch", torch_silu, silu_by_tanh, ROWS),
    Pair("fresh swiglu, jax", "jax", jax_swiglu, swiglu, tensors((16, 24), (16, 24))),
    Pair("fresh gelu", "mlp", gelu_row, gelu_erf, ROWS),
    Pair("fresh gelu, torch", "pytorch", torch_gelu, gelu_erf, ROWS),
    Pair("fresh gelu of tanh, jax", "jax", jax_gelu, gelu_tanh, ROWS),
    Pair("fresh gelu of tanh, numpy", "numpy", numpy_gelu_sigmoid, gelu_tanh, ROWS),
    Pair("fresh mlp", "mlp", mlp, mlp_in_parts, MLP),
    Pair("fresh mlp, torch", "pytorch", torch_mlp, mlp_in_parts, MLP),
    Pair("fresh rope of halves", "mlp", rope_halves, rope_rotated, ROPE),
    Pair("fresh rope of halves, numpy", "numpy", numpy_rope, rope_halves, ROPE),
    Pair("fresh rope of neighbours, torch", "pytorch", torch_rope, rope_interleaved, ROPE),
    Pair("fresh decay", "scans", decay_by_scan, decay_by_blocks, tensors((8, 24), (8, 24))),
    Pair("fresh decay, jax", "jax", jax_decay, decay_by_blocks, tensors((8, 24), (8, 24))),
    Pair("fresh decay, numpy", "numpy", numpy_decay, decay_by_scan, tensors((8, 24), (8, 24))),
    Pair("fresh sums of a triangle, torch", "pytorch", torch_cumsum, sums_of_a_triangle, ROWS),
    Pair("fresh split product", "products", split_product, strided_product, LONG),
    Pair("fresh turned product", "products", turned_product, strided_product, LONG),
    Pair("fresh product, loop", "numpy", numpy_loop_product, split_product, LONG),
    Pair("fresh product, einsum", "pytorch", einsum_product, turned_product, LONG),
    Pair("fresh product, bfloat16", "pytorch", bf16_product, split_product, LONG, bound=2e-2, sense="rounding"),
    Pair("fresh product, Beta 1", "beta1", beta_split_product, split_product, LONG),
    Pair("fresh int8", "products", int8_before, int8_after, QUANTISED),
    Pair("fresh int8, torch", "pytorch", torch_int8, int8_after, QUANTISED),
    Pair("fresh convolution, torch", "pytorch", torch_conv, conv_by_shifts, tensors((6, 20), (6, 3))),
    Pair("fresh convolution, numpy", "numpy", numpy_conv, conv_by_shifts, tensors((6, 20), (6, 3))),
    Pair("fresh convolution by products, jax", "jax", jax_conv, conv_by_products, tensors((4, 20), (3, 4, 8))),
    Pair("fresh embedding, torch", "pytorch", torch_embedding, rows_by_one_hot, IDS),
    Pair("fresh embedding, numpy", "numpy", numpy_rows, rows_by_one_hot, IDS),
    Pair("fresh mask", "masks", masked_by_select, masked_by_product, tensors((16, 24), (16, 24))),
    Pair("fresh mask, torch", "pytorch", torch_masked, masked_by_product, tensors((16, 24), (16, 24))),
    Pair("fresh leaky relu, torch", "pytorch", torch_leaky, leaky_by_maximum, ROWS),
    Pair("fresh clamp, numpy", "numpy", numpy_clamped, clamped, ROWS),
    Pair("fresh hinge, jax", "jax", jax_hinge, hinge, tensors((16, 24), (16, 24))),
    Pair("fresh largest", "reductions", largest, largest_of_max8, ROWS),
    Pair("fresh top 8", "reductions", top8, top8_in_another_order, ROWS),
    Pair("fresh transpose", "layouts", turned_by_dma, turned_by_engine, tensors((32, 32), dtype="bfloat16")),
    Pair("fresh transpose, jax", "jax", jax_turned, turned_by_dma, tensors((32, 32), dtype="bfloat16")),
    Pair("fresh variance, numpy", "numpy", numpy_pairs_variance, variance, ROWS),
    Pair("fresh means", "reductions", means_by_products, means_by_partitions, ROWS),
    Pair("fresh softplus", "mlp", softplus_row, softplus_stable, ROWS),
    Pair(
        "fresh binary cross entropy, torch",
        "pytorch",
        torch_bce,
        bce,
        (Input((16, 24)), Input((16, 24), low=0, high=1)),
    ),
]
