"""Kernels by row, written with functions of ``nl``: tiles of up to 128 rows, each with all columns."""

from __future__ import annotations

from typing import Any

import nki
import nki.isa as nisa
import nki.language as nl

P = 128
"""Rows of a tile."""
EPS = 1e-5


def tiles(rows: int) -> list[slice]:
    """The rows of each tile; the last one may have fewer."""
    return [slice(start, min(start + P, rows)) for start in range(0, rows, P)]


def _output(like: Any, shape: Any = None, dtype: Any = None) -> Any:
    return nl.ndarray(shape or like.shape, dtype=dtype or like.dtype, buffer=nl.shared_hbm)


def _row(vector: Any, tile: Any) -> Any:
    """[1, n] in HBM for each partition of ``tile``."""
    return nl.broadcast_to(nl.load(vector), tile.shape)


def _normal(tile: Any, gain: Any, shift: Any) -> Any:
    distance = nl.subtract(tile, nl.mean(tile, axis=1, keepdims=True))
    variance = nl.mean(nl.square(distance), axis=1, keepdims=True)
    normal = nl.multiply(distance, nl.rsqrt(nl.add(variance, EPS)))
    return nl.add(nl.multiply(normal, _row(gain, tile)), _row(shift, tile))


@nki.jit
def layer_norm(x, gain, shift):
    """(x - mean) / sqrt(variance + eps) * gain + shift; gain and shift are [1, n]."""
    out = _output(x)
    for rows in tiles(x.shape[0]):
        nl.store(out[rows], _normal(nl.load(x[rows]), gain, shift))
    return out


@nki.jit
def residual_layer_norm(x, y, gain, shift):
    """LayerNorm of x + y."""
    out = _output(x)
    for rows in tiles(x.shape[0]):
        nl.store(out[rows], _normal(nl.add(nl.load(x[rows]), nl.load(y[rows])), gain, shift))
    return out


@nki.jit
def rms_norm(x, gain):
    """x / sqrt(mean of squares + eps) * gain; gain is [1, n]."""
    out = _output(x)
    for rows in tiles(x.shape[0]):
        tile = nl.load(x[rows])
        mean = nl.mean(nl.square(tile), axis=1, keepdims=True)
        normal = nl.multiply(tile, nl.rsqrt(nl.add(mean, EPS)))
        nl.store(out[rows], nl.multiply(normal, _row(gain, tile)))
    return out


@nki.jit
def group_norm(x, groups):
    """Each of ``groups`` equal parts of a row less its mean, over its deviation."""
    out = _output(x)
    width = x.shape[1] // groups
    for rows in tiles(x.shape[0]):
        tile = nl.load(x[rows]).reshape((rows.stop - rows.start, groups, width))
        distance = nl.subtract(tile, nl.mean(tile, axis=2, keepdims=True))
        variance = nl.mean(nl.square(distance), axis=2, keepdims=True)
        normal = nl.multiply(distance, nl.rsqrt(nl.add(variance, EPS)))
        nl.store(out[rows], normal.reshape((rows.stop - rows.start, x.shape[1])))
    return out


def _powers(tile: Any) -> tuple[Any, Any]:
    """exp(x - max) and its sum by row."""
    powers = nl.exp(nl.subtract(tile, nl.max(tile, axis=1, keepdims=True)))
    return powers, nl.sum(powers, axis=1, keepdims=True)


@nki.jit
def softmax(x):
    """exp(x - max) over its sum."""
    out = _output(x)
    for rows in tiles(x.shape[0]):
        powers, total = _powers(nl.load(x[rows]))
        nl.store(out[rows], nl.divide(powers, total))
    return out


@nki.jit
def log_softmax(x):
    """x - max - log(sum of exp(x - max))."""
    out = _output(x)
    for rows in tiles(x.shape[0]):
        distance = nl.load(x[rows])
        distance = nl.subtract(distance, nl.max(distance, axis=1, keepdims=True))
        total = nl.sum(nl.exp(distance), axis=1, keepdims=True)
        nl.store(out[rows], nl.subtract(distance, nl.log(total)))
    return out


@nki.jit
def masked_softmax(x, mask):
    """Softmax of x + mask."""
    out = _output(x)
    for rows in tiles(x.shape[0]):
        powers, total = _powers(nl.add(nl.load(x[rows]), nl.load(mask[rows])))
        nl.store(out[rows], nl.divide(powers, total))
    return out


@nki.jit
def softmax_gradient(slope, y):
    """y * (slope - sum of slope * y) for the result y of a softmax."""
    out = _output(y)
    for rows in tiles(y.shape[0]):
        result, by_result = nl.load(y[rows]), nl.load(slope[rows])
        total = nl.sum(nl.multiply(by_result, result), axis=1, keepdims=True)
        nl.store(out[rows], nl.multiply(nl.subtract(by_result, total), result))
    return out


@nki.jit
def layer_norm_gradient(slope, x, gain, mean, scale):
    """The gradient of LayerNorm by x; ``mean`` and ``scale`` are [rows, 1] of float32."""
    out = _output(x)
    for rows in tiles(x.shape[0]):
        tile, middle, factor = nl.load(x[rows]), nl.load(mean[rows]), nl.load(scale[rows])
        normal = nl.multiply(nl.subtract(tile, middle), factor)
        product = nl.multiply(nl.load(slope[rows]), _row(gain, tile))
        one = nl.mean(product, axis=1, keepdims=True)
        two = nl.mean(nl.multiply(product, normal), axis=1, keepdims=True)
        rest = nl.subtract(nl.subtract(product, one), nl.multiply(normal, two))
        nl.store(out[rows], nl.multiply(rest, factor, dtype=x.dtype))
    return out


@nki.jit
def gelu_gradient(slope, x):
    """slope * gelu'(x)."""
    out = _output(x)
    for rows in tiles(x.shape[0]):
        nl.store(out[rows], nl.multiply(nl.load(slope[rows]), nl.gelu_dx(nl.load(x[rows]))))
    return out


@nki.jit
def cross_entropy(x, labels, columns):
    """logsumexp - x[label] by row; ``labels`` are [rows, 1] and ``columns`` 0, 1, 2, ... [1, n], both of float32."""
    out = _output(x, (x.shape[0], 1), nl.float32)
    for rows in tiles(x.shape[0]):
        tile = nl.load(x[rows])
        top = nl.max(tile, axis=1, keepdims=True)
        total = nl.sum(nl.exp(nl.subtract(tile, top)), axis=1, dtype=nl.float32, keepdims=True)
        here = nl.equal(_row(columns, tile), nl.load(labels[rows]))
        label = nl.sum(nl.where(here, tile, 0.0), axis=1, dtype=nl.float32, keepdims=True)
        nl.store(out[rows], nl.subtract(nl.add(nl.log(total), top), label))
    return out


def _quantised(x: Any, dtype: Any, largest: float) -> tuple[Any, Any]:
    out, scales = _output(x, None, dtype), _output(x, (x.shape[0], 1), nl.float32)
    for rows in tiles(x.shape[0]):
        tile = nl.load(x[rows])
        scale = nl.multiply(nl.max(nl.abs(tile), axis=1, dtype=nl.float32, keepdims=True), 1 / largest)
        nl.store(out[rows], nl.multiply(tile, nl.reciprocal(scale), dtype=dtype))
        nl.store(scales[rows], scale)
    return out, scales


@nki.jit
def int8_by_row(x):
    """x over its largest magnitude by row as int8, and the scales [rows, 1]."""
    return _quantised(x, nl.int8, 127.0)


@nki.jit
def fp8_by_row(x):
    """The same as float8_e4m3fn."""
    return _quantised(x, nl.float8_e4m3fn, 448.0)


@nki.jit
def rotary(x, cosine, sine):
    """Both halves of each row turned by an angle for each column; cosine and sine are [rows, n / 2]."""
    out = _output(x)
    half = x.shape[1] // 2
    for rows in tiles(x.shape[0]):
        tile, cos, sin = nl.load(x[rows]), nl.load(cosine[rows]), nl.load(sine[rows])
        one, two = tile[:, :half], tile[:, half:]
        nl.store(out[rows, :half], nl.subtract(nl.multiply(one, cos), nl.multiply(two, sin)))
        nl.store(out[rows, half:], nl.add(nl.multiply(two, cos), nl.multiply(one, sin)))
    return out


@nki.jit
def row_sum(x):
    """Sums by row [rows, 1], in the dtype of x."""
    out = _output(x, (x.shape[0], 1))
    for rows in tiles(x.shape[0]):
        nl.store(out[rows], nl.sum(nl.load(x[rows]), axis=1, keepdims=True))
    return out


@nki.jit
def row_maximum(x):
    """Maxima by row [rows, 1]."""
    out = _output(x, (x.shape[0], 1))
    for rows in tiles(x.shape[0]):
        nl.store(out[rows], nl.max(nl.load(x[rows]), axis=1, keepdims=True))
    return out


@nki.jit
def function(x, name):
    """The function of ``nl`` of this name, element by element."""
    out = _output(x)
    for rows in tiles(x.shape[0]):
        nl.store(out[rows], getattr(nl, name)(nl.load(x[rows])))
    return out


@nki.jit
def power(x, y):
    """x to the power of y."""
    out = _output(x)
    for rows in tiles(x.shape[0]):
        nl.store(out[rows], nl.power(nl.load(x[rows]), nl.load(y[rows])))
    return out


@nki.jit
def moments(x):
    """Mean and variance by row [rows, 2] by ``bn_stats``."""
    rows_, width = x.shape
    limit = nl.tile_size.bn_stats_fmax
    out = _output(x, (rows_, 2), nl.float32)
    for rows in tiles(rows_):
        count, pieces = rows.stop - rows.start, (width + limit - 1) // limit
        tile = nl.load(x[rows])
        stats = nl.ndarray((count, pieces, 6), dtype=nl.float32, buffer=nl.sbuf)
        for i in range(pieces):
            nisa.bn_stats(stats[:, i], tile[:, limit * i : min(width, limit * (i + 1))])
        result = nl.ndarray((count, 2), dtype=nl.float32, buffer=nl.sbuf)
        nisa.bn_aggr(result, stats)
        nl.store(out[rows], result)
    return out


@nki.jit
def cumulative_sum(x):
    """Sums of the elements of a row up to each one."""
    out = _output(x)
    for rows in tiles(x.shape[0]):
        tile = nl.load(x[rows])
        ones = nl.full(tile.shape, 1.0, dtype=x.dtype)
        sums = nl.ndarray(tile.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_tensor_scan(sums, ones, tile, 0.0, nl.multiply, nl.add)
        nl.store(out[rows], sums)
    return out


@nki.jit
def largest(x, count):
    """The ``count`` largest of each row, in descending order; a multiple of eight."""
    out = _output(x, (x.shape[0], count))
    for rows in tiles(x.shape[0]):
        tile = nl.load(x[rows])
        values = nl.ndarray((tile.shape[0], count), dtype=x.dtype, buffer=nl.sbuf)
        for first in range(0, count, 8):
            eight = values[:, first : first + 8]
            nisa.max8(eight, tile)
            if first + 8 < count:
                nisa.nc_match_replace8(tile, tile, eight, -3e38)
        nl.store(out[rows], values)
    return out


@nki.jit
def argmax(x):
    """The column of the largest element of each row, [rows, 1] of uint32."""
    out = _output(x, (x.shape[0], 1), nl.uint32)
    for rows in tiles(x.shape[0]):
        tile = nl.load(x[rows])
        values = nl.ndarray((tile.shape[0], 8), dtype=x.dtype, buffer=nl.sbuf)
        places = nl.ndarray((tile.shape[0], 8), dtype=nl.uint32, buffer=nl.sbuf)
        nisa.max8(values, tile)
        nisa.nc_find_index8(places, tile, values)
        nl.store(out[rows], places[:, 0:1])
    return out


@nki.jit
def dropout(x, rate):
    """x with elements set to 0 at random, without a scale."""
    out = _output(x)
    for rows in tiles(x.shape[0]):
        nl.store(out[rows], nl.dropout(nl.load(x[rows]), rate))
    return out
