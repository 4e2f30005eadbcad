"""Activation functions by their formulas, layers fused and unfused, rotary positions in two layouts."""

from __future__ import annotations

import math

import numpy as np

import nki
import nki.isa as nisa
import nki.language as nl
from tests.proofs.pair import Pair, tensors
from tests.support.kernel_parts import activated, copied, product, returned, transposed

ROOT = math.sqrt(2 / math.pi)


@nki.jit
def silu_activation(x):
    return returned(activated(nl.load(x), nl.silu))


@nki.jit
def silu_by_sigmoid(x):
    tile = nl.load(x)
    gate = activated(tile, nl.sigmoid)
    nisa.tensor_tensor(tile, tile, gate, nl.multiply)
    return returned(tile)


@nki.jit
def silu_by_exp(x):
    """x / (1 + exp(-x))."""
    tile = nl.load(x)
    below = nl.ndarray(x.shape, nl.float32)
    nisa.activation(below, nl.exp, tile, scale=-1.0)
    nisa.tensor_scalar(below, below, nl.add, 1.0)
    nisa.reciprocal(below, below)
    nisa.tensor_tensor(tile, tile, below, nl.multiply)
    return returned(tile)


@nki.jit
def gelu_tanh_activation(x):
    return returned(activated(nl.load(x), nl.gelu_apprx_tanh))


@nki.jit
def gelu_by_tanh(x):
    """x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x³))) / 2."""
    tile = nl.load(x)
    inner = nl.ndarray(x.shape, nl.float32)
    nisa.tensor_tensor(inner, tile, tile, nl.multiply)
    nisa.tensor_scalar(inner, inner, nl.multiply, 0.044715, op1=nl.add, operand1=1.0)
    nisa.tensor_tensor(inner, inner, tile, nl.multiply)
    nisa.activation(inner, nl.tanh, inner, scale=ROOT)
    nisa.tensor_scalar(inner, inner, nl.add, 1.0, op1=nl.multiply, operand1=0.5)
    nisa.tensor_tensor(tile, tile, inner, nl.multiply)
    return returned(tile)


@nki.jit
def gelu_by_sigmoid(x):
    """(1 + tanh(u)) / 2 = sigmoid(2 u)."""
    tile = nl.load(x)
    cube = nl.ndarray(x.shape, nl.float32)
    nisa.activation(cube, nl.square, tile)
    nisa.tensor_tensor(cube, cube, tile, nl.multiply)
    nisa.scalar_tensor_tensor(cube, cube, nl.multiply, 0.044715, nl.add, tile)
    nisa.activation(cube, nl.sigmoid, cube, scale=2 * ROOT)
    nisa.tensor_tensor(tile, tile, cube, nl.multiply)
    return returned(tile)


@nki.jit
def gelu_activation(x):
    return returned(activated(nl.load(x), nl.gelu))


@nki.jit
def gelu_by_erf(x):
    """x (1 + erf(x / sqrt 2)) / 2."""
    tile = nl.load(x)
    inner = nl.ndarray(x.shape, nl.float32)
    nisa.activation(inner, nl.erf, tile, scale=math.sqrt(0.5))
    nisa.tensor_scalar(inner, inner, nl.multiply, 0.5, op1=nl.add, operand1=0.5)
    nisa.tensor_tensor(tile, tile, inner, nl.multiply)
    return returned(tile)


@nki.jit
def gelu_sigmoid_activation(x):
    return returned(activated(nl.load(x), nl.gelu_apprx_sigmoid))


@nki.jit
def gelu_sigmoid_by_exp(x):
    """x exp(y) / (1 + exp(y)) for y = 1.702 x."""
    tile = nl.load(x)
    power, below = nl.ndarray(x.shape, nl.float32), nl.ndarray(x.shape, nl.float32)
    nisa.activation(power, nl.exp, tile, scale=1.702)
    nisa.tensor_scalar(below, power, nl.add, 1.0)
    nisa.reciprocal(below, below)
    nisa.tensor_tensor(power, power, below, nl.multiply)
    nisa.tensor_tensor(tile, tile, power, nl.multiply)
    return returned(tile)


@nki.jit
def relu_activation(x):
    tile = nl.load(x)
    nisa.activation(tile, nl.relu, tile, bias=0.5, scale=2.0)
    return returned(tile)


@nki.jit
def relu_by_maximum(x):
    tile = nl.load(x)
    nisa.tensor_scalar(tile, tile, nl.multiply, 2.0, op1=nl.add, operand1=0.5)
    nisa.tensor_scalar(tile, tile, nl.maximum, 0.0)
    return returned(tile)


@nki.jit
def relu_by_mask(x):
    """x times (x > 0)."""
    tile = nl.load(x)
    nisa.activation(tile, nl.copy, tile, bias=0.5, scale=2.0)
    nisa.scalar_tensor_tensor(tile, tile, nl.greater, 0.0, nl.multiply, tile)
    return returned(tile)


@nki.jit
def softplus_activation(x):
    return returned(activated(nl.load(x), nl.softplus))


@nki.jit
def softplus_by_log(x):
    tile = nl.load(x)
    nisa.activation(tile, nl.exp, tile)
    nisa.activation(tile, nl.log, tile, bias=1.0)
    return returned(tile)


@nki.jit
def tanh_activation(x):
    return returned(activated(nl.load(x), nl.tanh))


@nki.jit
def tanh_by_exp(x):
    """1 - 2 / (1 + exp(2 x))."""
    tile = nl.load(x)
    nisa.activation(tile, nl.exp, tile, scale=2.0)
    nisa.tensor_scalar(tile, tile, nl.add, 1.0)
    nisa.reciprocal(tile, tile)
    nisa.tensor_scalar(tile, tile, nl.multiply, -2.0, op1=nl.add, operand1=1.0)
    return returned(tile)


@nki.jit
def mlp_unfused(x, w1, w2):
    """relu(x w1) w2, with what lies between in HBM. x is (tokens, width)."""
    hidden = nl.ndarray((x.shape[0], w1.shape[1]), nl.float32, buffer=nl.private_hbm)
    tile = nl.ndarray(hidden.shape, nl.float32)
    nisa.tensor_copy(tile, product(transposed(nl.load(x)), nl.load(w1)))
    nl.store(hidden, tile)
    second = nl.load(hidden)
    nisa.tensor_scalar(second, second, nl.maximum, 0.0)
    return returned(copied(product(transposed(second), nl.load(w2))))


@nki.jit
def mlp_fused(x, w1, w2):
    """The first product turned, so that its result is the operand of the second; hidden columns in parts."""
    tokens, first, _second = transposed(nl.load(x)), nl.load(w1), nl.load(w2)
    total = nl.ndarray((x.shape[0], w2.shape[1]), nl.float32, buffer=nl.psum)
    for start in range(0, w1.shape[1], 16):
        part = nl.ndarray((16, x.shape[0]), nl.float32)
        nisa.activation(part, nl.relu, product(first[:, start : start + 16], tokens))
        nisa.nc_matmul(total, part, nl.load(w2[start : start + 16]))
    return returned(copied(total))


@nki.jit
def swiglu_two_products(x, gate, up, down):
    """silu(x gate) * (x up) down."""
    tokens = transposed(nl.load(x))
    left, right = copied(product(tokens, nl.load(gate))), copied(product(tokens, nl.load(up)))
    nisa.activation(left, nl.silu, left)
    nisa.tensor_tensor(left, left, right, nl.multiply)
    return returned(copied(product(transposed(left), nl.load(down))))


@nki.jit
def swiglu_one_product(x, gate, up, down):
    """The weights of gate and up side by side."""
    width, hidden = gate.shape
    both = nl.ndarray((width, 2 * hidden), nl.float32)
    nisa.dma_copy(both[:, 0:hidden], up)
    nisa.dma_copy(both[:, hidden : 2 * hidden], gate)
    values = copied(product(transposed(nl.load(x)), both))
    share = nl.ndarray((x.shape[0], hidden), nl.float32)
    nisa.activation(share, nl.sigmoid, values[:, hidden : 2 * hidden])
    nisa.tensor_tensor(share, share, values[:, 0:hidden], nl.multiply)
    nisa.tensor_tensor(share, share, values[:, hidden : 2 * hidden], nl.multiply)
    return returned(copied(product(transposed(share), nl.load(down))))


@nki.jit
def residuals_forwards(x, a, b, c):
    """((x + a) + b) + c / 2."""
    tile, last = nl.load(x), nl.load(c)
    nisa.tensor_tensor(tile, tile, nl.load(a), nl.add)
    nisa.tensor_tensor(tile, tile, nl.load(b), nl.add)
    nisa.scalar_tensor_tensor(tile, last, nl.multiply, 0.5, nl.add, tile)
    return returned(tile)


@nki.jit
def residuals_backwards(x, a, b, c):
    """x + (a + (b + c / 2)), the copies by DMA."""
    tile = nl.load(c)
    nisa.activation(tile, nl.copy, tile, scale=0.5)
    for one in (b, a, x):
        nisa.tensor_tensor(tile, nl.load(one), tile, nl.add)
    return returned(tile)


@nki.jit
def experts_by_weights(x, w, shares):
    """The sum over experts of share * (x w): shares (tokens, experts)."""
    tokens, parts = transposed(nl.load(x)), nl.load(shares)
    total = nl.zeros((x.shape[0], w.shape[2]), nl.float32)
    for e in range(w.shape[0]):
        part = product(tokens, nl.load(w[e]))
        nisa.scalar_tensor_tensor(total, part, nl.multiply, parts[:, e : e + 1], nl.add, total)
    return returned(total)


@nki.jit
def experts_by_tokens(x, w, shares):
    """The shares scale the tokens, and PSUM adds the experts up, from the last to the first."""
    tile, parts = nl.load(x), nl.load(shares)
    total = nl.ndarray((x.shape[0], w.shape[2]), nl.float32, buffer=nl.psum)
    scaled = nl.ndarray(x.shape, nl.float32)
    for e in reversed(range(w.shape[0])):
        nisa.tensor_scalar(scaled, tile, nl.multiply, parts[:, e : e + 1])
        nisa.nc_matmul(total, transposed(scaled), nl.load(w[e]))
    return returned(copied(total))


@nki.jit
def rotary_by_halves(x, cosine, sine):
    """Columns i and i + half are a pair."""
    tile, cos, sin = nl.load(x), nl.load(cosine), nl.load(sine)
    half = x.shape[1] // 2
    low, high = tile[:, 0:half], tile[:, half : 2 * half]
    out, other = nl.ndarray(x.shape, nl.float32), nl.ndarray((x.shape[0], half), nl.float32)
    nisa.tensor_tensor(out[:, 0:half], low, cos, nl.multiply)
    nisa.tensor_tensor(other, high, sin, nl.multiply)
    nisa.tensor_tensor(out[:, 0:half], out[:, 0:half], other, nl.subtract)
    nisa.tensor_tensor(out[:, half : 2 * half], high, cos, nl.multiply)
    nisa.tensor_tensor(other, low, sin, nl.multiply)
    nisa.tensor_tensor(out[:, half : 2 * half], out[:, half : 2 * half], other, nl.add)
    return returned(out)


HALF = 8
SWAP = np.zeros((2 * HALF, 2 * HALF), np.float32)
SWAP[np.arange(HALF) + HALF, np.arange(HALF)] = -1.0
SWAP[np.arange(HALF), np.arange(HALF) + HALF] = 1.0


@nki.jit
def rotary_by_product(x, cosine, sine):
    """x * cos + (x @ swap) * sin: the matrix exchanges the halves and one sign."""
    tile = nl.load(x)
    width = x.shape[1]
    cos, sin = nl.ndarray(x.shape, nl.float32), nl.ndarray(x.shape, nl.float32)
    for start in (0, width // 2):
        nisa.dma_copy(cos[:, start : start + width // 2], cosine)
        nisa.dma_copy(sin[:, start : start + width // 2], sine)
    turned = product(transposed(tile), nl.load(nl.shared_constant(SWAP)))
    nisa.tensor_tensor(sin, sin, turned, nl.multiply)
    nisa.tensor_tensor(tile, tile, cos, nl.multiply)
    nisa.tensor_tensor(tile, tile, sin, nl.add)
    return returned(tile)


@nki.jit
def rotary_scores_halves(q, k, cosine, sine):
    """rotary(q) rotary(k)T with halves as pairs, in columns that are sorted: even ones first."""
    cos, sin = nl.load(cosine), nl.load(sine)
    rows, width = q.shape
    half, turned = width // 2, []
    for source in (q, k):
        tile, out, other = nl.load(source), nl.ndarray((rows, width), nl.float32), nl.ndarray((rows, half), nl.float32)
        low, high = tile[:, 0:width:2], tile[:, 1:width:2]
        nisa.tensor_tensor(out[:, 0:half], low, cos, nl.multiply)
        nisa.tensor_tensor(other, high, sin, nl.multiply)
        nisa.tensor_tensor(out[:, 0:half], out[:, 0:half], other, nl.subtract)
        nisa.tensor_tensor(out[:, half:width], high, cos, nl.multiply)
        nisa.tensor_tensor(other, low, sin, nl.multiply)
        nisa.tensor_tensor(out[:, half:width], out[:, half:width], other, nl.add)
        turned.append(transposed(out))
    return returned(copied(product(turned[0], turned[1])))


@nki.jit
def rotary_scores_pairs(q, k, cosine, sine):
    """The same with neighbours as pairs, in place: a product does not see the order of columns."""
    cos, sin = nl.load(cosine), nl.load(sine)
    rows, width = q.shape
    turned = []
    for source in (q, k):
        tile = nl.load(source)
        first, second = nl.ndarray((rows, width // 2), nl.float32), nl.ndarray((rows, width // 2), nl.float32)
        even, odd = tile[:, 0:width:2], tile[:, 1:width:2]
        nisa.tensor_tensor(first, even, sin, nl.multiply)
        nisa.tensor_tensor(second, odd, sin, nl.multiply)
        nisa.tensor_tensor(even, even, cos, nl.multiply)
        nisa.tensor_tensor(even, even, second, nl.subtract)
        nisa.tensor_tensor(odd, odd, cos, nl.multiply)
        nisa.tensor_tensor(odd, odd, first, nl.add)
        turned.append(transposed(tile))
    return returned(copied(product(turned[0], turned[1])))


X = tensors((24, 40))
LAYERS = tensors((20, 24), (24, 48), (48, 28))
GATED = tensors((20, 24), (24, 32), (24, 32), (32, 28))
EXPERTS = tensors((20, 24), (3, 24, 28), (20, 3))
ROTARY = tensors((24, 16), (24, 8), (24, 8))
SIGMOID = ("sigmoid x = 1 / (1 + exp(-x))",)
TANH = ("tanh x = 2 sigmoid(2 x) - 1",)
PAIRS = [
    Pair("silu by sigmoid", "mlp", silu_activation, silu_by_sigmoid, X, identities=("silu x = x sigmoid x",)),
    Pair("silu by exp", "mlp", silu_by_sigmoid, silu_by_exp, X, identities=SIGMOID),
    Pair("silu as activation by exp", "mlp", silu_activation, silu_by_exp, X, identities=SIGMOID),
    Pair("gelu by tanh", "mlp", gelu_tanh_activation, gelu_by_tanh, X, identities=("the constant sqrt(2 / pi)",)),
    Pair("gelu by sigmoid", "mlp", gelu_by_tanh, gelu_by_sigmoid, X, identities=TANH),
    Pair("gelu by erf", "mlp", gelu_activation, gelu_by_erf, X, identities=("gelu x = x (1 + erf(x / sqrt 2)) / 2",)),
    Pair("gelu by one exp", "mlp", gelu_sigmoid_activation, gelu_sigmoid_by_exp, X, identities=SIGMOID),
    Pair("relu by maximum", "mlp", relu_activation, relu_by_maximum, X, identities=("relu x = max(x, 0)",)),
    Pair("relu by mask", "mlp", relu_by_maximum, relu_by_mask, X, identities=("max(x, 0) = x (x > 0)",)),
    Pair(
        "softplus by log", "mlp", softplus_activation, softplus_by_log, X, identities=("softplus x = log(1 + exp x)",)
    ),
    Pair("tanh by exp", "mlp", tanh_activation, tanh_by_exp, X, identities=TANH),
    Pair("MLP fused", "mlp", mlp_unfused, mlp_fused, LAYERS),
    Pair("SwiGLU in one product", "mlp", swiglu_two_products, swiglu_one_product, GATED, identities=SIGMOID),
    Pair("residuals in another order", "mlp", residuals_forwards, residuals_backwards, tensors(*[(24, 40)] * 4)),
    Pair("experts by tokens", "mlp", experts_by_weights, experts_by_tokens, EXPERTS),
    Pair("rotary by a product", "rotary", rotary_by_halves, rotary_by_product, ROTARY),
    Pair("rotary scores", "rotary", rotary_scores_halves, rotary_scores_pairs, (*tensors((24, 16)), *ROTARY)),
]
