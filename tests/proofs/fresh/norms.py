"""Softmax, cross entropy, norms and optimisers as a stranger writes them."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import torch

import nki
import nki.isa as nisa
import nki.language as nl
from tests.proofs.pair import Input, Pair, tensors
from tests.support.kernel_parts import activated, applied, column, joined, product, reduced, returned

EPS = 1e-5


@nki.jit
def log_softmax(x):
    tile = nl.load(x)
    shifted = nl.subtract(tile, nl.max(tile, axis=1, keepdims=True))
    return returned(nl.subtract(shifted, nl.log(nl.sum(nl.exp(shifted), axis=1, keepdims=True))))


@nki.jit
def log_of_softmax(x):
    return returned(nl.log(nl.softmax(nl.load(x), axis=1)))


def torch_log_softmax(x):
    return torch.nn.functional.log_softmax(x, dim=-1)


def jax_log_softmax(x):
    return jax.nn.log_softmax(x, axis=-1)


@nki.jit
def logsumexp_in_halves(x):
    """log(exp(a) + exp(b)) = a + softplus(b - a)."""
    tile, half = nl.load(x), x.shape[1] // 2
    ends = []
    for start in (0, half):
        part = tile[:, start : start + half]
        top, total = reduced(part, nl.maximum, negate=True), column(tile)
        nisa.activation_reduce(nl.ndarray(part.shape, nl.float32), nl.exp, part, nl.add, total, bias=top)
        ends.append(joined(activated(total, nl.log), nl.subtract, top))
    return returned(joined(ends[0], nl.add, activated(joined(ends[1], nl.subtract, ends[0]), nl.softplus)))


def jax_logsumexp(x):
    return jax.scipy.special.logsumexp(x, axis=1, keepdims=True)


def torch_logsumexp(x):
    return torch.logsumexp(x, dim=1, keepdim=True)


@nki.jit
def tempered(x):
    """Softmax at a temperature of 0.7."""
    tile = nl.load(x)
    top, total = reduced(tile, nl.maximum), column(tile)
    nisa.tensor_scalar(top, top, nl.multiply, -1 / 0.7)
    nisa.activation_reduce(tile, nl.exp, tile, nl.add, total, bias=top, scale=1 / 0.7)
    return returned(applied(tile, nl.divide, total))


def torch_tempered(x):
    return (x / 0.7).softmax(-1)


@nki.jit
def cross_entropy(x, labels):
    tile, places = nl.load(x), nl.ndarray(x.shape, nl.int32)
    nisa.iota(places, [[1, x.shape[1]]])
    hit = nl.equal(places, nl.load(labels))
    right = nl.sum(nl.multiply(tile, hit), axis=1, keepdims=True)
    top = nl.max(tile, axis=1, keepdims=True)
    total = nl.sum(nl.exp(nl.subtract(tile, top)), axis=1, keepdims=True)
    return returned(nl.subtract(nl.add(nl.log(total), top), right))


def numpy_cross_entropy(x, labels):
    powers = np.exp(x)
    chance = powers / powers.sum(axis=1, keepdims=True)
    return -np.log(np.take_along_axis(chance, labels, axis=1))


@nki.jit
def cross_entropy_backward(x, labels):
    """softmax(x) - one_hot(label), over the batch."""
    tile, places = nl.softmax(nl.load(x), axis=1), nl.ndarray(x.shape, nl.int32)
    nisa.iota(places, [[1, x.shape[1]]])
    hit = nl.equal(places, nl.load(labels))
    return returned(nl.multiply(nl.subtract(tile, hit), 1.0 / x.shape[0]))


def jax_cross_entropy_backward(x, labels):
    hit = jax.nn.one_hot(labels[:, 0], x.shape[1])
    return jax.grad(lambda y: jnp.mean(-(hit * jax.nn.log_softmax(y)).sum(axis=1)))(x)


@nki.jit
def softmax_backward(y, g):
    """y (g - sum(y g))."""
    tile, change = nl.load(y), nl.load(g)
    inner = nl.sum(nl.multiply(tile, change), axis=1, keepdims=True)
    return returned(nl.multiply(tile, nl.subtract(change, inner)))


def numpy_softmax_backward(y, g):
    """The Jacobian, row by row."""
    return np.stack([(np.diag(a) - np.outer(a, a)) @ b for a, b in zip(y, g, strict=True)])


@nki.jit
def layernorm_welford(x, gain, shift):
    """Mean and sum of squares of halves, joined as Chan does."""
    tile, half = nl.load(x), x.shape[1] // 2
    means, squares = [], []
    for start in (0, half):
        part = tile[:, start : start + half]
        mean = nl.mean(part, axis=1, keepdims=True)
        means.append(mean)
        squares.append(nl.sum(nl.square(nl.subtract(part, mean)), axis=1, keepdims=True))
    gap = nl.subtract(means[1], means[0])
    mean = nl.multiply(nl.add(means[0], means[1]), 0.5)
    spread = nl.add(nl.add(squares[0], squares[1]), nl.multiply(nl.square(gap), half / 2))
    scale = nl.rsqrt(nl.add(nl.multiply(spread, 1.0 / x.shape[1]), EPS))
    result = nl.multiply(nl.subtract(tile, mean), scale)
    rows = (x.shape[0], x.shape[1])
    gains, shifts = nl.broadcast_to(nl.load(gain), rows), nl.broadcast_to(nl.load(shift), rows)
    return returned(nl.add(nl.multiply(result, gains), shifts))


def torch_layernorm(x, gain, shift):
    return torch.layer_norm(x, (x.shape[-1],), gain.flatten(), shift.flatten(), EPS)


def jax_layernorm(x, gain, shift):
    mean = x.mean(axis=-1, keepdims=True)
    return (x - mean) / jnp.sqrt(jnp.var(x, axis=-1, keepdims=True) + EPS) * gain + shift


@nki.jit
def layernorm_of_bn(x, gain, shift):
    tile = nl.load(x)
    stats, moments = nl.ndarray((x.shape[0], 6), nl.float32), nl.ndarray((x.shape[0], 2), nl.float32)
    nisa.bn_stats(stats, tile)
    nisa.bn_aggr(moments, stats)
    scale = applied(moments[:, 1:2], nl.add, EPS, op1=nl.power, operand1=-0.5)
    nisa.tensor_scalar(tile, tile, nl.subtract, moments[:, 0:1], op1=nl.multiply, operand1=scale)
    ones = nl.ones((1, x.shape[0]), nl.float32)
    gains, shifts = product(ones, nl.load(gain)), product(ones, nl.load(shift))
    return returned(joined(joined(tile, nl.multiply, gains), nl.add, shifts))


@nki.jit
def layernorm_of_e2(x, gain, shift):
    """E[x²] - E[x]², and exp(-log(s) / 2)."""
    tile = nl.load(x)
    mean = nl.mean(tile, axis=1, keepdims=True)
    spread = nl.subtract(nl.mean(nl.square(tile), axis=1, keepdims=True), nl.square(mean))
    scale = nl.exp(nl.multiply(nl.log(nl.add(spread, EPS)), -0.5))
    result = nl.multiply(nl.subtract(tile, mean), scale)
    gains, shifts = nl.broadcast_to(nl.load(gain), x.shape), nl.broadcast_to(nl.load(shift), x.shape)
    return returned(nl.add(nl.multiply(result, gains), shifts))


@nki.jit
def rms_reciprocal(x):
    """1 / sqrt."""
    tile = nl.load(x)
    total = column(tile)
    nisa.activation_reduce(nl.ndarray(x.shape, nl.float32), nl.square, tile, nl.add, total)
    nisa.activation(total, nl.sqrt, total, scale=1.0 / x.shape[1], bias=EPS)
    nisa.reciprocal(total, total)
    return returned(applied(tile, nl.multiply, total))


@nki.jit
def rms_power(x):
    tile = nl.load(x)
    total = nl.sum(nl.multiply(tile, tile), axis=1, keepdims=True)
    scale = applied(total, nl.multiply, 1.0 / x.shape[1], op1=nl.add, operand1=EPS)
    return returned(applied(tile, nl.multiply, applied(scale, nl.power, -0.5)))


@nki.jit
def rms_logarithm(x):
    """x exp(-log(E[x²] + eps) / 2)."""
    tile = nl.load(x)
    scale = activated(
        applied(reduced(nl.square(tile), nl.add), nl.multiply, 1.0 / x.shape[1], op1=nl.add, operand1=EPS), nl.log
    )
    nisa.activation(scale, nl.exp, scale, scale=-0.5)
    return returned(applied(tile, nl.multiply, scale))


@nki.jit
def rms_by_sums(x):
    """The root of the sum of squares, the root of the width before it."""
    tile, width = nl.load(x), x.shape[1]
    total = applied(reduced(nl.square(tile), nl.add), nl.add, width * EPS)
    return returned(applied(tile, nl.multiply, math.sqrt(width), op1=nl.multiply, operand1=activated(total, nl.rsqrt)))


def torch_rms(x):
    return torch.nn.functional.rms_norm(x, (x.shape[-1],), eps=EPS)


def jax_rms(x):
    return x * jax.lax.rsqrt(jnp.mean(jnp.square(x), -1, keepdims=True) + EPS)


def numpy_rms(x):
    """One row after the other."""
    out = np.zeros_like(x)
    for i in range(x.shape[0]):
        out[i] = x[i] / np.sqrt(np.dot(x[i], x[i]) / x.shape[1] + EPS)
    return out


@nki.jit
def normalised(x):
    """x / |x|, by a root and a quotient."""
    tile = nl.load(x)
    length = nl.sqrt(nl.sum(nl.square(tile), axis=1, keepdims=True))
    return returned(nl.divide(tile, length))


@nki.jit
def normalised_twice(x):
    """x / |x| once more: its length is 1."""
    tile = nl.load(x)
    for _ in range(2):
        tile = nl.multiply(tile, nl.rsqrt(nl.sum(nl.square(tile), axis=1, keepdims=True)))
    return returned(tile)


@nki.jit
def squared_length(x):
    """sqrt(s) sqrt(s) of a sum of squares."""
    root = nl.sqrt(nl.sum(nl.square(nl.load(x)), axis=1, keepdims=True))
    return returned(nl.multiply(root, root))


@nki.jit
def length_squared(x):
    return returned(nl.sum(nl.square(nl.load(x)), axis=1, keepdims=True))


@nki.jit
def cosine(x, y):
    """x y / (|x| |y|)."""
    a, b = nl.load(x), nl.load(y)
    inner, left, right = (nl.sum(nl.multiply(*two), axis=1, keepdims=True) for two in ((a, b), (a, a), (b, b)))
    return returned(nl.multiply(inner, nl.rsqrt(nl.multiply(left, right))))


@nki.jit
def cosine_of_units(x, y):
    a, b = nl.load(x), nl.load(y)
    units = [nl.divide(t, nl.sqrt(nl.sum(nl.square(t), axis=1, keepdims=True))) for t in (a, b)]
    return returned(nl.sum(nl.multiply(units[0], units[1]), axis=1, keepdims=True))


def numpy_cosine(x, y):
    return np.sum(x * y, axis=1, keepdims=True) / (
        np.linalg.norm(x, axis=1, keepdims=True) * np.linalg.norm(y, axis=1, keepdims=True)
    )


@nki.jit
def groupnorm(x):
    """Four groups of 8 channels, (n, 32)."""
    tile, out = nl.load(x), nl.ndarray(x.shape, nl.float32)
    for group in range(4):
        part = tile[:, 8 * group : 8 * group + 8]
        mean = nl.mean(part, axis=1, keepdims=True)
        centred = nl.subtract(part, mean)
        scale = nl.rsqrt(nl.add(nl.mean(nl.square(centred), axis=1, keepdims=True), EPS))
        nisa.tensor_scalar(out[:, 8 * group : 8 * group + 8], centred, nl.multiply, scale)
    return returned(out)


def torch_groupnorm(x):
    return torch.nn.functional.group_norm(x, 4, eps=EPS)


def numpy_groupnorm(x):
    groups = x.reshape(x.shape[0], 4, 8)
    return ((groups - groups.mean(2, keepdims=True)) / np.sqrt(groups.var(2, keepdims=True) + EPS)).reshape(x.shape)


@nki.jit
def adam(w, g, m, v):
    """One step: rate 0.001, betas 0.9 and 0.99, of step 3; returns the weights."""
    weights, slope, first, second = (nl.load(each) for each in (w, g, m, v))
    first = nl.add(nl.multiply(first, 0.9), nl.multiply(slope, 0.1))
    second = nl.add(nl.multiply(second, 0.99), nl.multiply(nl.square(slope), 0.01))
    mean, spread = nl.multiply(first, 1 / (1 - 0.9**3)), nl.multiply(second, 1 / (1 - 0.99**3))
    step = nl.divide(mean, nl.add(nl.sqrt(spread), 1e-8))
    return returned(nl.subtract(weights, nl.multiply(step, 1e-3)))


@nki.jit
def adam_fused(w, g, m, v):
    """m + (1 - beta) (g - m), a root that is scaled by itself, and a reciprocal."""
    weights, slope, first, second = (nl.load(each) for each in (w, g, m, v))
    gap = applied(joined(slope, nl.subtract, first), nl.multiply, 0.1)
    first = joined(first, nl.add, gap)
    squares = activated(slope, nl.square)
    gap = applied(joined(squares, nl.subtract, second), nl.multiply, 0.01)
    second = joined(second, nl.add, gap)
    nisa.activation(second, nl.sqrt, second, scale=1 / (1 - 0.99**3))
    nisa.tensor_scalar(second, second, nl.add, 1e-8)
    nisa.reciprocal(second, second)
    nisa.tensor_scalar(first, first, nl.multiply, -1e-3 / (1 - 0.9**3))
    return returned(joined(joined(first, nl.multiply, second), nl.add, weights))


def torch_adam(w, g, m, v):
    m = torch.lerp(m, g, 0.1)
    v = v.mul(0.99).addcmul(g, g, value=0.01)
    return w - 1e-3 * (m / (1 - 0.9**3)) / (torch.sqrt(v / (1 - 0.99**3)) + 1e-8)


@nki.jit
def clipped(g):
    """Gradients, scaled to a length of at most 1."""
    tile = nl.load(g)
    length = nl.sqrt(nl.sum(nl.square(tile), axis=1, keepdims=True))
    return returned(nl.multiply(tile, nl.minimum(nl.reciprocal(length), 1.0)))


@nki.jit
def clipped_by_maximum(g):
    tile = nl.load(g)
    length = nl.sqrt(nl.sum(nl.square(tile), axis=1, keepdims=True))
    return returned(nl.divide(tile, nl.maximum(length, 1.0)))


ROWS, WIDE = tensors((24, 32)), Input((1, 32))
LABELS = (Input((24, 32)), Input((24, 1), "int32", 0, 32))
NORM = (Input((24, 32)), WIDE, WIDE)
ADAM = (*tensors((16, 24), (16, 24), (16, 24)), Input((16, 24), low=0.1, high=2.0))
PAIRS = [
    Pair("fresh log softmax", "softmax", log_softmax, log_of_softmax, ROWS),
    Pair("fresh log softmax, torch", "pytorch", torch_log_softmax, log_softmax, ROWS),
    Pair("fresh log softmax, jax", "jax", jax_log_softmax, log_of_softmax, ROWS),
    Pair("fresh logsumexp, torch", "pytorch", torch_logsumexp, logsumexp_in_halves, ROWS),
    Pair("fresh logsumexp, jax", "jax", jax_logsumexp, logsumexp_in_halves, ROWS),
    Pair("fresh tempered softmax, torch", "pytorch", torch_tempered, tempered, ROWS),
    Pair("fresh cross entropy, numpy", "numpy", numpy_cross_entropy, cross_entropy, LABELS),
    Pair("fresh cross entropy backward, jax", "jax", jax_cross_entropy_backward, cross_entropy_backward, LABELS),
    Pair("fresh softmax backward, numpy", "numpy", numpy_softmax_backward, softmax_backward, tensors((6, 8), (6, 8))),
    Pair("fresh layernorm, Welford and torch", "pytorch", torch_layernorm, layernorm_welford, NORM),
    Pair("fresh layernorm, bn and jax", "jax", jax_layernorm, layernorm_of_bn, NORM),
    Pair("fresh layernorm, bn and Welford", "norms", layernorm_of_bn, layernorm_welford, NORM),
    Pair("fresh layernorm, logarithm", "norms", layernorm_of_bn, layernorm_of_e2, NORM, bound=1e-4),
    Pair("fresh layernorm, logarithm and torch", "pytorch", torch_layernorm, layernorm_of_e2, NORM, bound=1e-4),
    Pair("fresh rms, power", "norms", rms_reciprocal, rms_power, ROWS),
    Pair("fresh rms, logarithm", "norms", rms_reciprocal, rms_logarithm, ROWS),
    Pair("fresh rms, sums", "norms", rms_power, rms_by_sums, ROWS),
    Pair("fresh rms, torch", "pytorch", torch_rms, rms_by_sums, ROWS),
    Pair("fresh rms, jax", "jax", jax_rms, rms_logarithm, ROWS),
    Pair("fresh rms, loop", "numpy", numpy_rms, rms_power, ROWS),
    Pair("fresh unit rows", "norms", normalised, normalised_twice, ROWS),
    Pair("fresh squared length", "norms", squared_length, length_squared, ROWS),
    Pair("fresh cosine", "norms", cosine, cosine_of_units, tensors((16, 24), (16, 24))),
    Pair("fresh cosine, numpy", "numpy", numpy_cosine, cosine_of_units, tensors((16, 24), (16, 24))),
    Pair("fresh groupnorm, torch", "pytorch", torch_groupnorm, groupnorm, ROWS),
    Pair("fresh groupnorm, numpy", "numpy", numpy_groupnorm, groupnorm, ROWS),
    Pair("fresh adam", "optimisers", adam, adam_fused, ADAM),
    Pair("fresh adam, torch", "pytorch", torch_adam, adam_fused, ADAM),
    Pair("fresh clipping", "optimisers", clipped, clipped_by_maximum, ROWS),
]
