"""Sums, maxima and windows: on three engines, in several orders, as products with constants."""

from __future__ import annotations

import numpy as np

import nki
import nki.isa as nisa
import nki.language as nl
from tests.proofs.pair import Pair, tensors
from tests.support.kernel_parts import activated, column, copied, product, returned, transposed

COMMAND = nisa.reduce_cmd
SIDE = 8
POOL = np.zeros((SIDE * SIDE, SIDE * SIDE // 4), np.float32)
for _place in range(SIDE * SIDE):
    POOL[_place, _place // SIDE // 2 * (SIDE // 2) + _place % SIDE // 2] = 0.25
"""A picture of 8 x 8 in a row times this matrix is the means of its windows of 2 x 2."""


@nki.jit
def rows_by_reduce(x):
    return returned(nl.sum(nl.load(x), axis=1, keepdims=True))


@nki.jit
def rows_by_ones(x):
    """A product with a column of ones."""
    ones = nl.ones((x.shape[1], 1), nl.float32)
    return returned(copied(product(transposed(nl.load(x)), ones)))


@nki.jit
def rows_by_activation(x):
    """Two halves, added up in the Scalar engine's registers."""
    tile, half = nl.load(x), x.shape[1] // 2
    total, kept = column(tile), nl.ndarray((x.shape[0], half), nl.float32)
    first, second = tile[:, 0:half], tile[:, half : 2 * half]
    nisa.activation(kept, nl.copy, first, reduce_op=nl.add, reduce_cmd=COMMAND.reset_reduce)
    nisa.activation(kept, nl.copy, second, reduce_op=nl.add, reduce_res=total, reduce_cmd=COMMAND.reduce)
    return returned(total)


@nki.jit
def rows_by_folding(x):
    """The upper half onto the lower one until a column is left."""
    tile, width = nl.load(x), x.shape[1]
    while width > 1:
        width //= 2
        nisa.tensor_tensor(tile[:, 0:width], tile[:, 0:width], tile[:, width : 2 * width], nl.add)
    return returned(copied(tile[:, 0:1]))


@nki.jit
def columns_by_gpsimd(x):
    """Sums over the partitions."""
    tile, line = nl.load(x), nl.ndarray((1, x.shape[1]), nl.float32)
    nisa.tensor_partition_reduce(line, nl.add, tile)
    return returned(line)


@nki.jit
def columns_by_ones(x):
    return returned(copied(product(nl.ones((x.shape[0], 1), nl.float32), nl.load(x))))


@nki.jit
def columns_by_rows(x):
    """Every row to the first partition, and a view with rows as the last dimension."""
    rows, width = x.shape
    line, total = nl.ndarray((1, rows, width), nl.float32), nl.ndarray((1, width), nl.float32)
    nisa.dma_copy(line, x.reshape((1, rows, width)))
    nisa.tensor_reduce(total, nl.add, line.permute((0, 2, 1)), axis=2)
    return returned(total)


@nki.jit
def squares_by_product(x):
    """The sum of squares of each row: the diagonal of x xT, kept by a selection."""
    turned = transposed(nl.load(x))
    grams, total = copied(product(turned, turned)), nl.ndarray((x.shape[0], 1), nl.float32)
    nisa.affine_select(grams, [[1, x.shape[0]]], -1, grams, 0.0, cmp_op=nl.equal)
    nisa.tensor_reduce(total, nl.add, grams, axis=1)
    return returned(total)


@nki.jit
def squares_by_activation(x):
    tile = nl.load(x)
    total = column(tile)
    nisa.activation_reduce(tile, nl.square, tile, nl.add, total)
    return returned(total)


@nki.jit
def total_rows_first(x):
    """The mean of all elements."""
    tile = nl.load(x)
    total, line = column(tile), nl.ndarray((1, 1), nl.float32)
    nisa.tensor_reduce(total, nl.add, tile, axis=1)
    nisa.tensor_partition_reduce(line, nl.add, total)
    nisa.tensor_scalar(line, line, nl.multiply, 1.0 / 1024)
    return returned(line)


@nki.jit
def total_columns_first(x):
    """Weights that are means of columns, then the mean of the row."""
    line = copied(product(nl.full((x.shape[0], 1), 1.0 / 32, nl.float32), nl.load(x)))
    total = column(line)
    nisa.activation_reduce(line, nl.copy, line, nl.add, total, scale=1.0 / 32)
    return returned(total)


@nki.jit
def maxpool_by_view(x):
    """(channels, 8, 8): a window's two dimensions become the last ones."""
    channels, high, wide = x.shape
    tile = nl.load(x)
    out = nl.ndarray((channels, high // 2, wide // 2), nl.float32)
    windows = tile.reshape((channels, high // 2, 2, wide // 2, 2)).permute((0, 1, 3, 2, 4))
    nisa.tensor_reduce(out, nl.maximum, windows, axis=[3, 4])
    return returned(out)


@nki.jit
def maxpool_by_shifts(x):
    """The larger of four pictures of every second row and column."""
    tile = nl.load(x)
    out = copied(tile[:, 0:8:2, 0:8:2])
    for i, j in ((0, 1), (1, 0), (1, 1)):
        nisa.tensor_tensor(out, out, tile[:, i:8:2, j:8:2], nl.maximum)
    return returned(out)


@nki.jit
def meanpool_by_shifts(x):
    tile = nl.load(x)
    out = copied(tile[:, 1:8:2, 1:8:2])
    for i, j in ((0, 0), (0, 1), (1, 0)):
        nisa.tensor_tensor(out, out, tile[:, i:8:2, j:8:2], nl.add)
    nisa.tensor_scalar(out, out, nl.multiply, 0.25)
    return returned(out)


@nki.jit
def meanpool_by_product(x):
    """The picture in a row, times a constant matrix."""
    channels, high, wide = x.shape
    flat = nl.ndarray((channels, high * wide), nl.float32)
    nisa.dma_copy(flat, x.reshape((channels, high * wide)))
    means = copied(product(transposed(flat), nl.load(nl.shared_constant(POOL))))
    return returned(means.reshape((channels, high // 2, wide // 2)))


@nki.jit
def depthwise_by_shifts(x, taps):
    """y[c, t] = sum of taps[c, i] x[c, t + i]."""
    tile, weights = nl.load(x), nl.load(taps)
    count = taps.shape[1]
    length = x.shape[1] - count + 1
    out = nl.zeros((x.shape[0], length), nl.float32)
    for i in range(count):
        nisa.scalar_tensor_tensor(out, tile[:, i : i + length], nl.multiply, weights[:, i : i + 1], nl.add, out)
    return returned(out)


@nki.jit
def depthwise_by_diagonals(x, taps):
    """For each tap a diagonal matrix times a window, added up in PSUM."""
    tile, weights = nl.load(x), nl.load(taps)
    channels, count = taps.shape
    length = x.shape[1] - count + 1
    unit, diagonal = nl.shared_identity_matrix(channels, nl.float32), nl.ndarray((channels, channels), nl.float32)
    psum = nl.ndarray((channels, length), nl.float32, buffer=nl.psum)
    for i in reversed(range(count)):
        nisa.tensor_scalar(diagonal, unit, nl.multiply, weights[:, i : i + 1])
        nisa.nc_matmul(psum, diagonal, tile[:, i : i + length])
    return returned(copied(psum))


@nki.jit
def convolution_by_taps(x, taps):
    """x (channels, time), taps (count, channels, filters): a product for each tap."""
    tile, count = nl.load(x), taps.shape[0]
    length = x.shape[1] - count + 1
    psum = nl.ndarray((taps.shape[2], length), nl.float32, buffer=nl.psum)
    for i in range(count):
        nisa.nc_matmul(psum, nl.load(taps[i]), tile[:, i : i + length])
    return returned(copied(psum))


@nki.jit
def convolution_by_columns(x, taps):
    """Windows below each other, and one product."""
    channels, count = x.shape[0], taps.shape[0]
    length = x.shape[1] - count + 1
    windows = nl.ndarray((count * channels, length), nl.float32)
    for i in range(count):
        nisa.dma_copy(windows[i * channels : (i + 1) * channels], x[:, i : i + length])
    weights = nl.ndarray((count * channels, taps.shape[2]), nl.float32)
    nisa.dma_copy(weights, taps.reshape((count * channels, taps.shape[2])))
    return returned(copied(product(weights, windows)))


@nki.jit
def magnitude_by_abs(x):
    tile = nl.load(x)
    nisa.activation(tile, nl.abs, tile)
    top = column(tile)
    nisa.tensor_reduce(top, nl.maximum, tile, axis=1)
    return returned(top)


@nki.jit
def magnitude_by_negation(x):
    """max(max x, -min x)."""
    tile = nl.load(x)
    top, low = column(tile), column(tile)
    nisa.tensor_reduce(top, nl.maximum, tile, axis=1)
    nisa.tensor_reduce(low, nl.minimum, tile, axis=1, negate=True)
    nisa.tensor_tensor(top, top, low, nl.maximum)
    return returned(top)


@nki.jit
def distances_direct(x, y):
    """The squared distance of each row of x to each row of y, row by row of y."""
    tile, rows = nl.load(x), y.shape[0]
    out, wide = nl.ndarray((x.shape[0], rows), nl.float32), nl.ndarray(x.shape, nl.float32)
    for j in range(rows):
        for i in range(x.shape[0]):
            nisa.dma_copy(wide[i : i + 1], y[j : j + 1])
        nisa.tensor_tensor(wide, tile, wide, nl.subtract)
        nisa.activation_reduce(wide, nl.square, wide, nl.add, out[:, j : j + 1])
    return returned(out)


@nki.jit
def distances_by_product(x, y):
    """|x|² - 2 x y + |y|², the last by ones."""
    left, right = nl.load(x), transposed(nl.load(y))
    squares, total = activated(left, nl.square), column(left)
    nisa.tensor_reduce(total, nl.add, squares, axis=1)
    psum = nl.ndarray((x.shape[0], y.shape[0]), nl.float32, buffer=nl.psum)
    twice, lengths = nl.ndarray(x.shape, nl.float32), activated(right, nl.square)
    nisa.tensor_scalar(twice, left, nl.multiply, -2.0)
    nisa.nc_matmul(psum, transposed(twice), right, accumulate=False)
    nisa.nc_matmul(psum, nl.ones((x.shape[1], x.shape[0]), nl.float32), lengths, accumulate=True)
    out = nl.ndarray(psum.shape, nl.float32)
    nisa.tensor_scalar(out, psum, nl.add, total)
    return returned(out)


X = tensors((24, 32))
SQUARE = tensors((32, 32))
PICTURES = tensors((12, SIDE, SIDE))
MAX = ("max in any order",)
PAIRS = [
    Pair("rows by ones", "reductions", rows_by_reduce, rows_by_ones, X),
    Pair("rows by activation", "reductions", rows_by_reduce, rows_by_activation, X),
    Pair("rows by folding", "reductions", rows_by_ones, rows_by_folding, X),
    Pair("columns by ones", "reductions", columns_by_gpsimd, columns_by_ones, X),
    Pair("columns by rows", "reductions", columns_by_gpsimd, columns_by_rows, X),
    Pair("squares by a product", "reductions", squares_by_activation, squares_by_product, X),
    Pair("mean of all", "reductions", total_rows_first, total_columns_first, SQUARE),
    Pair("maximum of windows", "windows", maxpool_by_view, maxpool_by_shifts, PICTURES, identities=MAX),
    Pair("mean of windows", "windows", meanpool_by_shifts, meanpool_by_product, PICTURES),
    Pair("depthwise convolution", "windows", depthwise_by_shifts, depthwise_by_diagonals, tensors((16, 30), (16, 4))),
    Pair(
        "convolution by columns", "windows", convolution_by_taps, convolution_by_columns, tensors((8, 30), (3, 8, 12))
    ),
    Pair(
        "largest magnitude", "reductions", magnitude_by_abs, magnitude_by_negation, X, identities=("|x| = max(x, -x)",)
    ),
    Pair("distances", "reductions", distances_direct, distances_by_product, tensors((12, 16), (8, 16))),
]
