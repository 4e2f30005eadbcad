"""Normalisations: the variance in three ways, the root in four, the scale before or after."""

from __future__ import annotations

import nki
import nki.isa as nisa
import nki.language as nl
from tests.proofs.pair import Input, Pair, tensors
from tests.support.kernel_parts import column, copied, product, returned, transposed

EPSILON = 1e-5


@nki.jit
def layernorm_two_passes(x):
    """The mean, then the mean of squared deviations from it."""
    tile = nl.load(x)
    mean, spread, squares = column(tile), column(tile), nl.ndarray(x.shape, nl.float32)
    nisa.tensor_reduce(mean, nl.add, tile, axis=1)
    nisa.tensor_scalar(mean, mean, nl.multiply, 1.0 / x.shape[1])
    nisa.tensor_scalar(tile, tile, nl.subtract, mean)
    nisa.activation_reduce(squares, nl.square, tile, nl.add, spread)
    nisa.tensor_scalar(spread, spread, nl.multiply, 1.0 / x.shape[1], op1=nl.add, operand1=EPSILON)
    nisa.activation(spread, nl.rsqrt, spread)
    nisa.tensor_scalar(tile, tile, nl.multiply, spread)
    return returned(tile)


@nki.jit
def layernorm_of_moments(x):
    """The mean of squares less the square of the mean."""
    tile = nl.load(x)
    mean, second, squared, shape = column(tile), column(tile), column(tile), x.shape
    squares = nl.ndarray(shape, nl.float32)
    nisa.tensor_reduce(mean, nl.add, tile, axis=1)
    nisa.tensor_scalar(mean, mean, nl.multiply, 1.0 / shape[1])
    nisa.tensor_tensor(squares, tile, tile, nl.multiply)
    nisa.tensor_reduce(second, nl.add, squares, axis=1)
    nisa.tensor_tensor(squared, mean, mean, nl.multiply)
    nisa.scalar_tensor_tensor(second, second, nl.multiply, 1.0 / shape[1], nl.subtract, squared)
    nisa.activation(second, nl.rsqrt, second, bias=EPSILON)
    nisa.tensor_scalar(tile, tile, nl.subtract, mean, op1=nl.multiply, operand1=second)
    return returned(tile)


@nki.jit
def layernorm_of_statistics(x):
    """Mean and variance by the Vector engine's own instructions."""
    tile = nl.load(x)
    stats, moments, scale = (
        nl.ndarray((x.shape[0], 6), nl.float32),
        nl.ndarray((x.shape[0], 2), nl.float32),
        column(tile),
    )
    nisa.bn_stats(stats, tile)
    nisa.bn_aggr(moments, stats)
    nisa.tensor_scalar(scale, moments[:, 1:2], nl.add, EPSILON)
    nisa.activation(scale, nl.rsqrt, scale)
    nisa.tensor_scalar(tile, tile, nl.subtract, moments[:, 0:1], op1=nl.multiply, operand1=scale)
    return returned(tile)


@nki.jit
def layernorm_of_pieces(x):
    """Statistics of four pieces, joined."""
    tile = nl.load(x)
    rows, width = x.shape
    stats, moments, scale = nl.ndarray((rows, 4, 6), nl.float32), nl.ndarray((rows, 2), nl.float32), column(tile)
    for i in range(4):
        nisa.bn_stats(stats[:, i], tile[:, i * width // 4 : (i + 1) * width // 4])
    nisa.bn_aggr(moments, stats)
    nisa.activation(scale, nl.sqrt, moments[:, 1:2], bias=EPSILON)
    nisa.reciprocal(scale, scale)
    nisa.tensor_scalar(tile, tile, nl.subtract, moments[:, 0:1])
    nisa.activation(tile, nl.copy, tile, scale=scale)
    return returned(tile)


@nki.jit
def layernorm_affine(x, gain, shift):
    """(x - mean) / deviation * gain + shift, gain and shift on all partitions."""
    tile = nl.load(x)
    stats, moments, scale = (
        nl.ndarray((x.shape[0], 6), nl.float32),
        nl.ndarray((x.shape[0], 2), nl.float32),
        column(tile),
    )
    nisa.bn_stats(stats, tile)
    nisa.bn_aggr(moments, stats)
    nisa.tensor_scalar(scale, moments[:, 1:2], nl.add, EPSILON)
    nisa.activation(scale, nl.rsqrt, scale)
    nisa.tensor_scalar(tile, tile, nl.subtract, moments[:, 0:1], op1=nl.multiply, operand1=scale)
    wide = nl.ndarray(x.shape, nl.float32)
    for row in range(x.shape[0]):
        nisa.dma_copy(wide[row : row + 1], gain)
    nisa.tensor_tensor(tile, tile, wide, nl.multiply)
    for row in range(x.shape[0]):
        nisa.dma_copy(wide[row : row + 1], shift)
    nisa.tensor_tensor(tile, tile, wide, nl.add)
    return returned(tile)


@nki.jit
def layernorm_turned(x, gain, shift):
    """Down the partitions, where gain and shift are columns; sums are products with ones."""
    tile = transposed(nl.load(x))
    width, _rows = tile.shape
    mean = nl.full((width, width), 1.0 / width, nl.float32)
    columns = nl.ndarray((width, 2), nl.float32)
    nisa.dma_copy(columns[:, 0:1], gain)
    nisa.dma_copy(columns[:, 1:2], shift)
    squares, spread = nl.ndarray(tile.shape, nl.float32), nl.ndarray(tile.shape, nl.float32)
    nisa.tensor_tensor(tile, tile, product(mean, tile), nl.subtract)
    nisa.activation(squares, nl.square, tile)
    nisa.activation(spread, nl.rsqrt, product(mean, squares), bias=EPSILON)
    nisa.tensor_tensor(tile, tile, spread, nl.multiply)
    nisa.tensor_scalar(tile, tile, nl.multiply, columns[:, 0:1], op1=nl.add, operand1=columns[:, 1:2])
    return returned(transposed(tile))


@nki.jit
def rms_by_rsqrt(x):
    tile = nl.load(x)
    squares, total = nl.ndarray(x.shape, nl.float32), column(tile)
    nisa.activation_reduce(squares, nl.square, tile, nl.add, total)
    nisa.tensor_scalar(total, total, nl.multiply, 1.0 / x.shape[1], op1=nl.add, operand1=EPSILON)
    nisa.activation(total, nl.rsqrt, total)
    nisa.tensor_scalar(tile, tile, nl.multiply, total)
    return returned(tile)


@nki.jit
def rms_by_power(x):
    """(mean + epsilon) ** -0.5."""
    tile = nl.load(x)
    squares, total = nl.ndarray(x.shape, nl.float32), column(tile)
    nisa.tensor_tensor(squares, tile, tile, nl.multiply)
    nisa.tensor_reduce(total, nl.add, squares, axis=1)
    nisa.tensor_scalar(total, total, nl.multiply, 1.0 / x.shape[1])
    nisa.tensor_scalar(total, total, nl.add, EPSILON, op1=nl.power, operand1=-0.5)
    nisa.tensor_scalar(tile, tile, nl.multiply, total)
    return returned(tile)


@nki.jit
def rms_by_root(x):
    """x / sqrt(mean + epsilon), scale and bias in the activation."""
    tile = nl.load(x)
    squares, total = nl.ndarray(x.shape, nl.float32), column(tile)
    nisa.activation_reduce(squares, nl.square, tile, nl.add, total)
    nisa.activation(total, nl.sqrt, total, scale=1.0 / x.shape[1], bias=EPSILON)
    nisa.reciprocal(total, total)
    nisa.activation(tile, nl.copy, tile, scale=total)
    return returned(tile)


@nki.jit
def rms_of_scaled(x):
    """x / sqrt(n) is squared, so that the sum of squares is the mean."""
    tile = nl.load(x)
    squares, total = nl.ndarray(x.shape, nl.float32), column(tile)
    nisa.tensor_scalar(squares, tile, nl.multiply, x.shape[1] ** -0.5)
    nisa.tensor_tensor(squares, squares, squares, nl.multiply)
    nisa.tensor_reduce(total, nl.add, squares, axis=1)
    nisa.activation(total, nl.rsqrt, total, bias=EPSILON)
    nisa.tensor_scalar(tile, tile, nl.multiply, total)
    return returned(tile)


@nki.jit
def rms_by_ones(x):
    """The sum of squares by the Tensor engine."""
    tile = nl.load(x)
    squares = nl.ndarray(x.shape, nl.float32)
    nisa.tensor_tensor(squares, tile, tile, nl.multiply)
    ones, total = nl.full((x.shape[1], 1), 1.0 / x.shape[1], nl.float32), column(tile)
    nisa.activation(total, nl.rsqrt, product(transposed(squares), ones), bias=EPSILON)
    nisa.tensor_scalar(tile, tile, nl.multiply, total)
    return returned(tile)


@nki.jit
def rms_then_product(x, gain, weights):
    """rms(x) * gain @ weights, as it is written."""
    tile = nl.load(x)
    squares, total, wide = nl.ndarray(x.shape, nl.float32), column(tile), nl.ndarray(x.shape, nl.float32)
    nisa.activation_reduce(squares, nl.square, tile, nl.add, total)
    nisa.activation(total, nl.rsqrt, total, scale=1.0 / x.shape[1], bias=EPSILON)
    nisa.tensor_scalar(tile, tile, nl.multiply, total)
    for row in range(x.shape[0]):
        nisa.dma_copy(wide[row : row + 1], gain)
    nisa.tensor_tensor(tile, tile, wide, nl.multiply)
    return returned(copied(product(transposed(tile), nl.load(weights))))


@nki.jit
def rms_after_product(x, gain, weights):
    """The gain scales the weights' rows, and the root the result's."""
    tile, right = nl.load(x), nl.load(weights)
    squares, total, tall = nl.ndarray(x.shape, nl.float32), column(tile), nl.ndarray((x.shape[1], 1), nl.float32)
    nisa.dma_copy(tall, gain)
    nisa.tensor_scalar(right, right, nl.multiply, tall)
    nisa.activation_reduce(squares, nl.square, tile, nl.add, total)
    nisa.activation(total, nl.rsqrt, total, scale=1.0 / x.shape[1], bias=EPSILON)
    result = nl.ndarray((x.shape[0], weights.shape[1]), nl.float32)
    nisa.tensor_scalar(result, product(transposed(tile), right), nl.multiply, total)
    return returned(result)


@nki.jit
def groups_by_loop(x):
    """Each group of 12 columns has a mean and a variance of its own."""
    tile = nl.load(x)
    stats, moments, scale = (
        nl.ndarray((x.shape[0], 6), nl.float32),
        nl.ndarray((x.shape[0], 2), nl.float32),
        column(tile),
    )
    for start in range(0, x.shape[1], 12):
        part = tile[:, start : start + 12]
        nisa.bn_stats(stats, part)
        nisa.bn_aggr(moments, stats)
        nisa.activation(scale, nl.rsqrt, moments[:, 1:2], bias=EPSILON)
        nisa.tensor_scalar(part, part, nl.subtract, moments[:, 0:1], op1=nl.multiply, operand1=scale)
    return returned(tile)


@nki.jit
def groups_by_view(x):
    """All groups at once: sums over the last of three dimensions."""
    rows, groups = x.shape[0], x.shape[1] // 12
    tile = nl.load(x)
    cube = tile.reshape((rows, groups, 12))
    squares = nl.ndarray((rows, groups, 12), nl.float32)
    mean, second, third = (nl.ndarray((rows, groups), nl.float32) for _ in range(3))
    nisa.tensor_reduce(mean, nl.add, cube, axis=2)
    nisa.tensor_scalar(mean, mean, nl.multiply, 1.0 / 12)
    nisa.activation(squares, nl.square, cube)
    nisa.tensor_reduce(second, nl.add, squares, axis=2)
    nisa.activation(third, nl.square, mean)
    nisa.scalar_tensor_tensor(second, second, nl.multiply, 1.0 / 12, nl.subtract, third)
    nisa.activation(second, nl.rsqrt, second, bias=EPSILON)
    nisa.tensor_tensor(cube, cube, mean.expand_dim(2).broadcast(2, 12), nl.subtract)
    nisa.tensor_tensor(cube, cube, second.expand_dim(2).broadcast(2, 12), nl.multiply)
    return returned(tile)


@nki.jit
def batch_by_transposes(x):
    """Mean and variance of each column: turned, along the rows, and turned back."""
    tile = transposed(nl.load(x))
    stats, moments, scale = (
        nl.ndarray((tile.shape[0], 6), nl.float32),
        nl.ndarray((tile.shape[0], 2), nl.float32),
        column(tile),
    )
    nisa.bn_stats(stats, tile)
    nisa.bn_aggr(moments, stats)
    nisa.activation(scale, nl.rsqrt, moments[:, 1:2], bias=EPSILON)
    nisa.tensor_scalar(tile, tile, nl.subtract, moments[:, 0:1], op1=nl.multiply, operand1=scale)
    return returned(transposed(tile))


@nki.jit
def batch_by_ones(x):
    """Sums over partitions by the Tensor engine, which gives them to all partitions."""
    tile = nl.load(x)
    rows = x.shape[0]
    mean = nl.full((rows, rows), 1.0 / rows, nl.float32)
    squares, scale = nl.ndarray(x.shape, nl.float32), nl.ndarray(x.shape, nl.float32)
    nisa.tensor_tensor(tile, tile, product(mean, tile), nl.subtract)
    nisa.tensor_tensor(squares, tile, tile, nl.multiply)
    nisa.activation(scale, nl.rsqrt, product(mean, squares), bias=EPSILON)
    nisa.tensor_tensor(tile, tile, scale, nl.multiply)
    return returned(tile)


@nki.jit
def length_of_rows(x):
    """x divided by its length."""
    tile = nl.load(x)
    squares, total = nl.ndarray(x.shape, nl.float32), column(tile)
    nisa.activation_reduce(squares, nl.square, tile, nl.add, total)
    nisa.activation(total, nl.rsqrt, total)
    nisa.tensor_scalar(tile, tile, nl.multiply, total)
    return returned(tile)


@nki.jit
def length_by_logarithm(x):
    """x * exp(-log(sum of squares) / 2): the engine keeps the tables of exp and log."""
    tile = nl.load(x)
    squares, total = nl.ndarray(x.shape, nl.float32), column(tile)
    nisa.tensor_tensor(squares, tile, tile, nl.multiply)
    nisa.tensor_reduce(total, nl.add, squares, axis=1)
    nisa.activation(total, nl.log, total)
    nisa.activation(total, nl.exp, total, scale=-0.5)
    nisa.tensor_scalar(tile, tile, nl.multiply, total)
    return returned(tile)


X = tensors((24, 64))
AFFINE = tensors((20, 32), (1, 32), (1, 32))
FOLDED = tensors((20, 32), (1, 32), (32, 24))
GROUPED = tensors((24, 48))
TWELFTH = ("the constant 1 / 12 stands for the fraction: rounded to a float, it is not",)
VARIANCE = ("mean of squared deviations = mean of squares - square of the mean",)
ROOT = ("rsqrt x = 1 / sqrt x = x ** -0.5",)
PAIRS = [
    Pair("layernorm of moments", "norms", layernorm_two_passes, layernorm_of_moments, X, identities=VARIANCE),
    Pair("layernorm of statistics", "norms", layernorm_two_passes, layernorm_of_statistics, X, identities=VARIANCE),
    Pair("layernorm of pieces", "norms", layernorm_of_moments, layernorm_of_pieces, X, identities=VARIANCE + ROOT),
    Pair("layernorm turned", "norms", layernorm_affine, layernorm_turned, AFFINE, identities=VARIANCE),
    Pair("RMSNorm by power", "norms", rms_by_rsqrt, rms_by_power, X, identities=ROOT),
    Pair("RMSNorm by root", "norms", rms_by_rsqrt, rms_by_root, X, identities=ROOT),
    Pair("RMSNorm of scaled", "norms", rms_by_rsqrt, rms_of_scaled, X),
    Pair("RMSNorm by ones", "norms", rms_by_power, rms_by_ones, X, identities=ROOT),
    Pair("RMSNorm folded into weights", "norms", rms_then_product, rms_after_product, FOLDED),
    Pair("group norm", "norms", groups_by_loop, groups_by_view, GROUPED, identities=VARIANCE + TWELFTH),
    Pair("batch norm", "norms", batch_by_transposes, batch_by_ones, (Input((32, 20)),), identities=VARIANCE),
    Pair(
        "rows of length one",
        "norms",
        length_of_rows,
        length_by_logarithm,
        X,
        identities=("rsqrt x = exp(-log(x) / 2)",),
    ),
]
