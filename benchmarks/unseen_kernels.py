"""Forty kernels of 40 to 250 instructions, as users write them: what a first call meets that no cache has seen.

Twenty functions, each with two sets of arguments that change shapes and dtypes, so that no two kernels of the forty
have all their routines in common.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import ml_dtypes
import numpy as np

import nki
import nki.isa as nisa
import nki.language as nl

P: Final = 128
Make = Callable[[np.random.Generator], list[Any]]
UNSEEN: Final[list[tuple[Any, Make]]] = []
"""Each kernel, and what makes its arguments."""


def unseen(*sets: Make) -> Callable[[Any], Any]:
    """Enter a kernel with each of ``sets`` of arguments."""

    def enter(kernel: Any) -> Any:
        UNSEEN.extend((kernel, make) for make in sets)
        return kernel

    return enter


def normal(*shapes: Sequence[int], dtype: Any = np.float32) -> Make:
    """Arrays of standard normal numbers."""
    return lambda random: [random.standard_normal(shape, dtype=np.float32).astype(dtype) for shape in shapes]


def sbuf(*shape: int, dtype: Any = nl.float32) -> Any:
    """A tile in SBUF."""
    return nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf)


def psum(*shape: int, dtype: Any = nl.float32) -> Any:
    """A tile in PSUM."""
    return nl.ndarray(shape, dtype=dtype, buffer=nl.psum)


def turned(tile: Any) -> Any:
    """``tile`` transposed, in SBUF."""
    spread = psum(tile.shape[1], tile.shape[0], dtype=tile.dtype)
    nisa.nc_transpose(spread, tile)
    result = sbuf(*spread.shape, dtype=tile.dtype)
    nisa.tensor_copy(result, spread)
    return result


def result_of(x: Any, dtype: Any = None) -> Any:
    """A result with the shape of ``x``."""
    return nl.ndarray(x.shape, dtype=dtype or x.dtype, buffer=nl.shared_hbm)


@unseen(normal((1024, 333)), normal((700, 96), dtype=ml_dtypes.bfloat16))
@nki.jit
def softmax(x: Any) -> Any:
    out = result_of(x)
    for start in range(0, x.shape[0], P):
        tile = nl.load(x[start : min(start + P, x.shape[0])])
        rows = tile.shape[0]
        top, total, weights = sbuf(rows, 1), sbuf(rows, 1), sbuf(*tile.shape)
        nisa.tensor_reduce(top, nl.maximum, tile, axis=-1, negate=True)
        nisa.activation_reduce(weights, nl.exp, tile, bias=top, reduce_op=nl.add, reduce_res=total)
        nisa.reciprocal(total, total)
        nisa.tensor_scalar(tile, weights, nl.multiply, total)
        nl.store(out[start : start + rows], tile)
    return out


@unseen(normal((2048, 512), (512,)), normal((1500, 300), (300,), dtype=np.float16))
@nki.jit
def rms_norm(x: Any, gain: Any) -> Any:
    out = result_of(x)
    width = x.shape[1]
    wide = sbuf(P, width, dtype=x.dtype)
    for row in range(P):
        nisa.dma_copy(wide[row : row + 1], gain.reshape((1, width)))
    for start in range(0, x.shape[0], P):
        tile = nl.load(x[start : min(start + P, x.shape[0])])
        rows = tile.shape[0]
        squares, total = sbuf(rows, width), sbuf(rows, 1)
        nisa.activation_reduce(squares, nl.square, tile, reduce_op=nl.add, reduce_res=total)
        nisa.tensor_scalar(total, total, nl.multiply, 1.0 / width, op1=nl.add, operand1=1e-6)
        nisa.activation(total, nl.rsqrt, total)
        nisa.tensor_scalar(tile, tile, nl.multiply, total)
        nisa.tensor_tensor(tile, tile, wide[:rows], nl.multiply)
        nl.store(out[start : start + rows], tile)
    return out


@unseen(normal((1024, 768)), normal((640, 1100)))
@nki.jit
def layer_norm(x: Any) -> Any:
    out = result_of(x)
    width, limit = x.shape[1], 512
    for start in range(0, x.shape[0], P):
        tile = nl.load(x[start : start + P])
        pieces = -(-width // limit)
        stats, moments, scale = sbuf(P, pieces, 6), sbuf(P, 2), sbuf(P, 1)
        for i in range(pieces):
            nisa.bn_stats(stats[:, i], tile[:, limit * i : min(width, limit * (i + 1))])
        nisa.bn_aggr(moments, stats)
        nisa.tensor_scalar(scale, moments[:, 1:2], nl.add, 1e-5)
        nisa.activation(scale, nl.rsqrt, scale)
        nisa.tensor_scalar(tile, tile, nl.subtract, moments[:, 0:1], op1=nl.multiply, operand1=scale)
        nisa.activation(tile, nl.gelu, tile)
        nl.store(out[start : start + P], tile)
    return out


@unseen(normal((512, 512), (512, 1024)), normal((384, 256), (384, 640), dtype=ml_dtypes.bfloat16))
@nki.jit
def matmul(a: Any, b: Any) -> Any:
    """``a.T @ b``."""
    out = nl.ndarray((a.shape[1], b.shape[1]), dtype=a.dtype, buffer=nl.shared_hbm)
    lefts = [nl.load(a[k : k + P]) for k in range(0, a.shape[0], P)]
    rights = [nl.load(b[k : k + P]) for k in range(0, b.shape[0], P)]
    for i in range(0, a.shape[1], P):
        for j in range(0, b.shape[1], P):
            total, tile = psum(P, P), sbuf(P, P, dtype=a.dtype)
            for left, right in zip(lefts, rights, strict=True):
                nisa.nc_matmul(total, left[:, i : i + P], right[:, j : j + P])
            nisa.tensor_copy(tile, total)
            nl.store(out[i : i + P, j : j + P], tile)
    return out


@unseen(normal((640, 128), (640, 128), (640, 128)), normal((512, 64), (512, 64), (512, 64), dtype=ml_dtypes.bfloat16))
@nki.jit
def attention(q: Any, k: Any, v: Any) -> Any:
    out = result_of(q)
    length, width = q.shape
    keys = sbuf(width, length, dtype=q.dtype)
    for start in range(0, length, P):
        nisa.tensor_copy(keys[:, start : start + P], turned(nl.load(k[start : start + P])))
    values = [nl.load(v[start : start + P]) for start in range(0, length, P)]
    for start in range(0, length, P):
        queries, end = turned(nl.load(q[start : start + P])), start + P
        scores, weights = sbuf(P, end), sbuf(P, end, dtype=q.dtype)
        for first in range(0, end, P):
            product = psum(P, P)
            nisa.nc_matmul(product, queries, keys[:, first : first + P])
            nisa.tensor_scalar(scores[:, first : first + P], product, nl.multiply, width**-0.5)
        corner = scores[:, start:end]
        nisa.affine_select(corner, [[-1, P]], 1, corner, -3e38, cmp_op=nl.greater_equal)
        peak, total = sbuf(P, 1), sbuf(P, 1)
        nisa.tensor_reduce(peak, nl.maximum, scores, axis=-1, negate=True)
        nisa.activation_reduce(weights, nl.exp, scores, bias=peak, reduce_op=nl.add, reduce_res=total)
        mixed, tile = psum(P, width), sbuf(P, width, dtype=q.dtype)
        for number, first in enumerate(range(0, end, P)):
            nisa.nc_matmul(mixed, turned(weights[:, first : first + P]), values[number])
        nisa.reciprocal(total, total)
        nisa.tensor_scalar(tile, mixed, nl.multiply, total)
        nl.store(out[start : start + P], tile)
    return out


@unseen(
    normal((512, 256), (256, 512), (256, 512), (512, 256)),
    normal((256, 128), (128, 384), (128, 384), (384, 128), dtype=ml_dtypes.bfloat16),
)
@nki.jit
def swiglu(x: Any, gate: Any, up: Any, down: Any) -> Any:
    out = result_of(x)
    inner, outer = gate.shape
    weights = [[nl.load(w[k : k + P]) for k in range(0, w.shape[0], P)] for w in (gate, up, down)]
    for start in range(0, x.shape[0], P):
        tile = nl.load(x[start : start + P])
        columns = [turned(tile[:, k : k + P]) for k in range(0, inner, P)]
        gated = sbuf(P, outer, dtype=x.dtype)
        for j in range(0, outer, P):
            products = psum(P, P), psum(P, P)
            for product, weight in zip(products, weights, strict=False):
                for column, part in zip(columns, weight, strict=True):
                    nisa.nc_matmul(product, column, part[:, j : j + P])
            act = sbuf(P, P)
            nisa.activation(act, nl.silu, products[0])
            nisa.tensor_tensor(gated[:, j : j + P], act, products[1], nl.multiply)
        total, done = psum(P, inner), sbuf(P, inner, dtype=x.dtype)
        for number, j in enumerate(range(0, outer, P)):
            nisa.nc_matmul(total, turned(gated[:, j : j + P]), weights[2][number])
        nisa.tensor_copy(done, total)
        nl.store(out[start : start + P], done)
    return out


@unseen(normal((1024, 128), (1024, 64), (1024, 64)), normal((900, 96), (900, 48), (900, 48), dtype=ml_dtypes.bfloat16))
@nki.jit
def rotary(x: Any, cos: Any, sin: Any) -> Any:
    out = result_of(x)
    half = x.shape[1] // 2
    for start in range(0, x.shape[0], P):
        end = min(start + P, x.shape[0])
        tile, c, s = nl.load(x[start:end]), nl.load(cos[start:end]), nl.load(sin[start:end])
        rows = end - start
        done, one, two = sbuf(rows, 2 * half, dtype=x.dtype), sbuf(rows, half), sbuf(rows, half)
        nisa.tensor_tensor(one, tile[:, :half], c, nl.multiply)
        nisa.tensor_tensor(two, tile[:, half:], s, nl.multiply)
        nisa.tensor_tensor(done[:, :half], one, two, nl.subtract)
        nisa.tensor_tensor(one, tile[:, half:], c, nl.multiply)
        nisa.tensor_tensor(two, tile[:, :half], s, nl.multiply)
        nisa.tensor_tensor(done[:, half:], one, two, nl.add)
        nl.store(out[start:end], done)
    return out


@unseen(normal((256, 1030), (256, 7)), normal((128, 2050), (128, 31)))
@nki.jit
def depthwise_convolution(x: Any, taps: Any) -> Any:
    channels, length = x.shape
    count = taps.shape[1]
    width = length - count + 1
    out = nl.ndarray((channels, width), dtype=x.dtype, buffer=nl.shared_hbm)
    for start in range(0, channels, P):
        tile, weights = nl.load(x[start : start + P]), nl.load(taps[start : start + P])
        total = sbuf(P, width)
        nisa.memset(total, 0.0)
        for first in range(0, width, 256):
            last = min(first + 256, width)
            for tap in range(count):
                part = total[:, first:last]
                nisa.scalar_tensor_tensor(
                    part, tile[:, first + tap : last + tap], nl.multiply, weights[:, tap : tap + 1], nl.add, part
                )
        nisa.activation(total, nl.silu, total)
        nl.store(out[start : start + P], total)
    return out


@unseen(normal((256, 600)), normal((640, 128)))
@nki.jit
def top_k(x: Any) -> Any:
    rows, count = x.shape[0], 64
    values = nl.ndarray((rows, count), dtype=x.dtype, buffer=nl.shared_hbm)
    places = nl.ndarray((rows, count), dtype=nl.uint32, buffer=nl.shared_hbm)
    for start in range(0, rows, P):
        tile = nl.load(x[start : start + P])
        best, where = sbuf(P, count), sbuf(P, count, dtype=nl.uint32)
        for first in range(0, count, 8):
            eight = slice(first, first + 8)
            nisa.max8(best[:, eight], tile)
            nisa.nc_match_replace8(tile, tile, best[:, eight], float("-inf"), dst_idx=where[:, eight])
        nl.store(values[start : start + P], best)
        nl.store(places[start : start + P], where)
    return values, places


@unseen(normal((1024, 256), (1024, 256), (1024, 1)), normal((512, 1000), (512, 1000), (512, 1)))
@nki.jit
def state_space_scan(decay: Any, data: Any, start: Any) -> Any:
    out = result_of(data)
    for first in range(0, data.shape[0], P):
        rows = slice(first, first + P)
        factors, terms, state = nl.load(decay[rows]), nl.load(data[rows]), nl.load(start[rows])
        nisa.activation(factors, nl.sigmoid, factors)
        states = sbuf(P, data.shape[1])
        step = data.shape[1] // 4
        for at in range(0, data.shape[1], step):
            part = slice(at, at + step)
            nisa.tensor_tensor_scan(states[:, part], factors[:, part], terms[:, part], state, nl.multiply, nl.add)
            state = states[:, at + step - 1 : at + step]
        nisa.tensor_tensor(states, states, terms, nl.multiply)
        nl.store(out[rows], states)
    return out


@unseen(
    lambda random: [
        random.standard_normal((1024, 200)).astype(np.float32),
        random.integers(0, 200, (1024, 1), np.int32),
    ],
    lambda random: [random.standard_normal((640, 77)).astype(np.float32), random.integers(0, 77, (640, 1), np.int32)],
)
@nki.jit
def cross_entropy(logits: Any, labels: Any) -> Any:
    rows, classes = logits.shape
    out = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.shared_hbm)
    numbers = sbuf(P, classes)
    nisa.iota(numbers, [[1, classes]])
    for start in range(0, rows, P):
        tile, wanted = nl.load(logits[start : start + P]), nl.load(labels[start : start + P], dtype=nl.float32)
        column, hot, chosen = sbuf(P, 1), sbuf(P, classes), sbuf(P, 1)
        nisa.tensor_reduce(column, nl.maximum, tile, 1)
        nisa.tensor_scalar(tile, tile, nl.subtract, column)
        nisa.scalar_tensor_tensor(hot, numbers, nl.equal, wanted, nl.multiply, tile)
        nisa.tensor_reduce(chosen, nl.add, hot, 1)
        nisa.activation_reduce(hot, nl.exp, tile, nl.add, column)
        nisa.activation(column, nl.log, column)
        nisa.tensor_tensor(column, column, chosen, nl.subtract)
        nl.store(out[start : start + P], column)
    return out


@unseen(normal((1024, 300), (1024, 300), (1024, 300)), normal((500, 512), (500, 512), (500, 512)))
@nki.jit
def adam(weights: Any, gradients: Any, squares: Any) -> Any:
    moved, kept = result_of(weights), result_of(weights)
    for start in range(0, weights.shape[0], P):
        end = min(start + P, weights.shape[0])
        w, g, v = (nl.load(x[start:end]) for x in (weights, gradients, squares))
        square, scaled, root = sbuf(*w.shape), sbuf(*w.shape), sbuf(*w.shape)
        nisa.activation(v, nl.abs, v)
        nisa.tensor_tensor(square, g, g, nl.multiply)
        nisa.tensor_scalar(scaled, square, nl.multiply, 0.001)
        nisa.scalar_tensor_tensor(v, v, nl.multiply, 0.999, nl.add, scaled)
        nisa.activation(root, nl.sqrt, v)
        nisa.tensor_scalar(root, root, nl.add, 1e-8)
        nisa.reciprocal(root, root)
        nisa.tensor_tensor(root, root, g, nl.multiply)
        nisa.scalar_tensor_tensor(w, root, nl.multiply, -0.01, nl.add, w)
        nl.store(moved[start:end], w)
        nl.store(kept[start:end], v)
    return moved, kept


@unseen(normal((1024, 256)), normal((768, 90), dtype=ml_dtypes.bfloat16))
@nki.jit
def activations(x: Any) -> Any:
    out = result_of(x)
    chain = (nl.tanh, nl.exp, nl.sigmoid, nl.softplus, nl.gelu, nl.silu, nl.sin, nl.square, nl.erf, nl.mish, nl.relu)
    for start in range(0, x.shape[0], P):
        tile = nl.load(x[start : start + P])
        wide = sbuf(*tile.shape)
        nisa.tensor_scalar(wide, tile, nl.minimum, 2.0, op1=nl.maximum, operand1=-2.0)
        for op in chain:
            nisa.activation(wide, op, wide)
            nisa.tensor_scalar(wide, wide, nl.multiply, 0.5)
        nisa.tensor_copy(tile, wide)
        nl.store(out[start : start + P], tile)
    return out


@unseen(normal((1024, 256)), normal((896, 130), dtype=np.float16))
@nki.jit
def quantise(x: Any) -> Any:
    codes = result_of(x, nl.int8)
    eights, scales = result_of(x, nl.float8_e4m3), nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.shared_hbm)
    for start in range(0, x.shape[0], P):
        rows = slice(start, start + P)
        tile = nl.load(x[rows])
        size, inverse, magnitude = sbuf(P, 1), sbuf(P, 1), sbuf(*tile.shape)
        nisa.activation(magnitude, nl.abs, tile)
        nisa.tensor_reduce(size, nl.maximum, magnitude, 1)
        nisa.tensor_scalar(size, size, nl.multiply, 1 / 127.0)
        nisa.reciprocal(inverse, size)
        code, eight = sbuf(*tile.shape, dtype=nl.int8), sbuf(*tile.shape, dtype=nl.float8_e4m3)
        nisa.tensor_scalar(code, tile, nl.multiply, inverse)
        nisa.tensor_scalar(eight, code, nl.multiply, size)
        for out, made in ((codes, code), (eights, eight), (scales, size)):
            nl.store(out[rows], made)
    return codes, eights, scales


@unseen(normal((384, 384), (384, 384)), normal((256, 512), (256, 512), dtype=np.float16))
@nki.jit
def transposes(x: Any, y: Any) -> Any:
    out = nl.ndarray((x.shape[1], x.shape[0]), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(0, x.shape[0], P):
        one, two = nl.load(x[i : i + P]), nl.load(y[i : i + P])
        for j in range(0, x.shape[1], 64):
            tile = sbuf(64, P, dtype=x.dtype)
            left, right = turned(one[:, j : j + 64]), turned(two[:, j : j + 64])
            nisa.tensor_tensor(tile, left, right, nl.maximum)
            nl.store(out[j : j + 64, i : i + P], tile)
    return out


@unseen(
    lambda random: [random.integers(1, 2**31, (512, 64)).astype(np.uint32)],
    lambda random: [random.integers(1, 2**31, (384, 200)).astype(np.uint32)],
)
@nki.jit
def random_bits(x: Any) -> Any:
    out = result_of(x)
    for start in range(0, x.shape[0], P):
        state, moved = nl.load(x[start : start + P]), sbuf(P, x.shape[1], dtype=nl.uint32)
        for _ in range(6):
            for op, amount in ((nl.left_shift, 13), (nl.right_shift, 17), (nl.left_shift, 5)):
                nisa.tensor_scalar(moved, state, op, amount)
                nisa.tensor_tensor(state, state, moved, nl.bitwise_xor)
            nisa.tensor_tensor(state, state, moved, nl.add, engine=nisa.gpsimd_engine)
        nl.store(out[start : start + P], state)
    return out


@unseen(
    lambda random: [
        random.standard_normal((1000, 96)).astype(np.float32),
        random.integers(0, 1000, (1024, 1)).astype(np.int32),
    ],
    lambda random: [
        random.standard_normal((500, 130)).astype(ml_dtypes.bfloat16),
        random.integers(0, 500, (2048, 1)).astype(np.int32),
    ],
)
@nki.jit
def embedding(table: Any, numbers: Any) -> Any:
    count, width = numbers.shape[0], table.shape[1]
    out = nl.ndarray((count, width), dtype=table.dtype, buffer=nl.shared_hbm)
    for start in range(0, count, P):
        index = nl.load(numbers[start : start + P])
        rows, norm = sbuf(P, width, dtype=table.dtype), sbuf(P, 1)
        nisa.dma_copy(rows, table.ap([[width, P], [1, width]], vector_offset=index, indirect_dim=0))
        squares = sbuf(P, width)
        nisa.activation_reduce(squares, nl.square, rows, reduce_op=nl.add, reduce_res=norm)
        nisa.activation(norm, nl.rsqrt, norm)
        nisa.tensor_scalar(rows, rows, nl.multiply, norm)
        nl.store(out[start : start + P], rows)
    return out


@unseen(normal((256, 512)), normal((128, 700)))
@nki.jit
def prefix_sums(x: Any) -> Any:
    sums, peaks = result_of(x), result_of(x)
    width = x.shape[1]
    for start in range(0, x.shape[0], P):
        tile = nl.load(x[start : start + P])
        for out, op in ((sums, nl.add), (peaks, nl.maximum)):
            now = sbuf(P, width)
            nisa.tensor_copy(now, tile)
            step = 1
            while step < width:
                new = sbuf(P, width)
                nisa.tensor_copy(new[:, :step], now[:, :step])
                nisa.tensor_tensor(new[:, step:], now[:, step:], now[:, : width - step], op)
                now = new
                step *= 2
            nl.store(out[start : start + P], now)
    return sums, peaks


@unseen(normal((512, 24, 24)), normal((256, 17, 40), dtype=ml_dtypes.bfloat16))
@nki.jit
def pooling(x: Any) -> Any:
    channels, height, width = x.shape
    out = nl.ndarray((channels, height - 2, width - 2), dtype=x.dtype, buffer=nl.shared_hbm)
    for start in range(0, channels, P):
        tile = nl.load(x[start : start + P])
        best, mean = sbuf(P, height - 2, width - 2), sbuf(P, height - 2, width - 2)
        nisa.memset(best, -3e38)
        nisa.memset(mean, 0.0)
        for dy in range(3):
            for dx in range(3):
                window = tile[:, dy : dy + height - 2, dx : dx + width - 2]
                nisa.tensor_tensor(best, best, window, nl.maximum)
                nisa.scalar_tensor_tensor(mean, window, nl.multiply, 1 / 9, nl.add, mean)
        done = sbuf(P, height - 2, width - 2, dtype=x.dtype)
        nisa.tensor_tensor(done, best, mean, nl.subtract)
        nl.store(out[start : start + P], done)
    return out


@unseen(normal((1024, 64), (64, 64)), normal((640, 128), (128, 32)))
@nki.jit
def router(x: Any, weights: Any) -> Any:
    """Each token's softmax over its eight best experts, 0 for the others."""
    experts = weights.shape[1]
    out = nl.ndarray((x.shape[0], experts), dtype=x.dtype, buffer=nl.shared_hbm)
    held = nl.load(weights)
    for start in range(0, x.shape[0], P):
        logits, product = sbuf(P, experts), psum(P, experts)
        nisa.nc_matmul(product, turned(nl.load(x[start : start + P])), held)
        nisa.tensor_copy(logits, product)
        best, total, peak = sbuf(P, 8), sbuf(P, 1), sbuf(P, 1)
        nisa.max8(best, logits)
        nisa.tensor_scalar(peak, best[:, 0:1], nl.multiply, -1.0)
        chosen = sbuf(P, experts)
        nisa.tensor_scalar(chosen, logits, nl.greater_equal, best[:, 7:8])
        nisa.activation(logits, nl.exp, logits, bias=peak)
        nisa.tensor_tensor(logits, logits, chosen, nl.multiply)
        nisa.tensor_reduce(total, nl.add, logits, 1)
        nisa.reciprocal(total, total)
        nisa.tensor_scalar(logits, logits, nl.multiply, total)
        nl.store(out[start : start + P], logits)
    return out


__all__ = ["UNSEEN", "Make"]
