"""Variants of a kernel, where one is faster on any device: the model has to agree, whatever the sizes and target."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import neuronxcc.nki.language as b1
import nki
import nki.isa as nisa
import nki.language as nl
from neuronxcc import nki as beta1
from nki.profiling.kernel_profile import profile
from nki.profiling.shapes import ShapeDtype

P = 128


def seconds(
    kernel: Callable[..., Any], target: str, *shapes: tuple[int, ...], dtype: str = "float32", **kw: Any
) -> float:
    """The predicted time on the device."""
    return profile(kernel, target=target)(*(ShapeDtype(shape, dtype) for shape in shapes), **kw).device_time


def tile(rows, columns, dtype):
    return nl.ndarray((rows, columns), dtype=dtype, buffer=nl.sbuf)


@nki.jit
def exponentials(x, width=0, tiles=0):
    """exp(x) by ``width`` columns at a time; ``tiles``: in so many tiles in turn, 0: in new ones."""
    rows, columns = x.shape
    width = width or columns
    result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    pairs = [(tile(P, width, x.dtype), tile(P, width, x.dtype)) for _ in range(tiles)]
    count = 0
    for row in range(0, rows, P):
        for column in range(0, columns, width):
            ends = (slice(row, row + P), slice(column, column + width))
            here, there = pairs[count % tiles] if tiles else (tile(P, width, x.dtype), tile(P, width, x.dtype))
            nisa.dma_copy(dst=here, src=x[ends])
            nisa.activation(dst=there, op=nl.exp, data=here)
            nisa.dma_copy(dst=result[ends], src=there)
            count += 1
    return result


@nki.jit
def normalised(x, fused=False):
    """exp(x) over its sum along the rows; ``fused``: Scalar sums while it computes."""
    result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for row in range(0, x.shape[0], P):
        here, there = tile(P, x.shape[1], x.dtype), tile(P, x.shape[1], x.dtype)
        total, factor = tile(P, 1, nl.float32), tile(P, 1, nl.float32)
        nisa.dma_copy(dst=here, src=x[row : row + P, :])
        if fused:
            nisa.activation_reduce(dst=there, op=nl.exp, data=here, reduce_op=nl.add, reduce_res=total)
        else:
            nisa.activation(dst=there, op=nl.exp, data=here)
            nisa.tensor_reduce(dst=total, op=nl.add, data=there, axis=1)
        nisa.reciprocal(dst=factor, data=total)
        nisa.tensor_scalar(dst=there, data=there, op0=nl.multiply, operand0=factor)
        nisa.dma_copy(dst=result[row : row + P, :], src=there)
    return result


@beta1.jit
def product(a, b, hoisted=False):
    """``a.T @ b``, with loads of ``a`` and ``b`` for each product, or with the loads of ``a`` before the columns."""
    depth, rows = a.shape
    columns = b.shape[1]
    out = b1.ndarray((rows, columns), dtype=a.dtype, buffer=b1.shared_hbm)
    for m in b1.affine_range(rows // P):
        kept = b1.ndarray((depth // P, b1.par_dim(P), P), dtype=a.dtype)
        for k in b1.affine_range(depth // P if hoisted else 0):
            kept[k] = b1.load(a[b1.ds(k * P, P), b1.ds(m * P, P)])
        for n in b1.affine_range(columns // 512):
            total = b1.zeros((P, 512), b1.float32, buffer=b1.psum)
            for k in b1.affine_range(depth // P):
                left = kept[k] if hoisted else b1.load(a[b1.ds(k * P, P), b1.ds(m * P, P)])
                right = b1.load(b[b1.ds(k * P, P), b1.ds(n * 512, 512)])
                total += b1.matmul(left, right, transpose_x=True)
            b1.store(out[b1.ds(m * P, P), b1.ds(n * 512, 512)], b1.copy(total, dtype=a.dtype))
    return out


@beta1.jit
def softmax(x):
    out = b1.ndarray(x.shape, dtype=x.dtype, buffer=b1.shared_hbm)
    for i in b1.affine_range(x.shape[0] // P):
        rows = b1.load(x[b1.ds(i * P, P), :])
        e = b1.exp(rows - b1.max(rows, axis=1, keepdims=True))
        b1.store(out[b1.ds(i * P, P), :], e / b1.sum(e, axis=1, keepdims=True))
    return out


@beta1.jit
def scores(q, k, v):
    """Attention without a maximum: scores, their exponentials, transposes, and the product with the values."""
    size, length = q.shape
    out = b1.ndarray((length, size), dtype=q.dtype, buffer=b1.shared_hbm)
    queries, keys = b1.load(q), b1.load(k)
    values = b1.ndarray((length // P, b1.par_dim(P), size), dtype=v.dtype)
    for j in b1.affine_range(length // P):
        values[j] = b1.load(v[b1.ds(j * P, P), :])
    for i in b1.affine_range(length // P):
        row = b1.ndarray((P, length), dtype=q.dtype)
        for j in b1.affine_range(length // 512):
            part = b1.matmul(queries[:, b1.ds(i * P, P)], keys[:, b1.ds(j * 512, 512)], transpose_x=True)
            row[:, b1.ds(j * 512, 512)] = b1.exp(part)
        total = b1.zeros((P, size), b1.float32, buffer=b1.psum)
        for j in b1.affine_range(length // P):
            turned = b1.copy(b1.transpose(row[:, b1.ds(j * P, P)]), dtype=q.dtype)
            total += b1.matmul(turned, values[j], transpose_x=True)
        b1.store(out[b1.ds(i * P, P), :], b1.copy(total, dtype=q.dtype))
    return out


both = pytest.mark.parametrize("target", ["trn1", "trn2"])


@both
@pytest.mark.parametrize("columns", [256, 1024, 4096])
def test_more_tiles_in_turn_are_faster(target: str, columns: int) -> None:
    one, two, many = (seconds(exponentials, target, (2048, columns), tiles=tiles) for tiles in (1, 2, 0))
    assert many <= two < 0.8 * one


@both
@pytest.mark.parametrize(("narrow", "wide"), [(256, 512), (512, 1024), (1024, 4096)])
def test_longer_rows_move_faster(target: str, narrow: int, wide: int) -> None:
    times = [seconds(exponentials, target, (4096, 4096), width=width) for width in (narrow, wide)]
    assert times[1] <= times[0] * 1.001  # rows of 2 KiB and more are equal
    if narrow < 512:
        assert times[1] < 0.8 * times[0]


@both
@pytest.mark.parametrize("kernel", [exponentials, normalised, softmax])
@pytest.mark.parametrize("columns", [1024, 4096])
def test_half_the_bytes_are_not_slower(target: str, kernel: Any, columns: int) -> None:
    wide, narrow = (seconds(kernel, target, (1024, columns), dtype=dtype) for dtype in ("float32", "bfloat16"))
    assert narrow <= wide
    if target == "trn2" and kernel is softmax:  # Vector is up to four times as fast for 16 bits
        assert narrow < 0.7 * wide


@both
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(("rows", "columns"), [(1024, 512), (1024, 2048), (8192, 512), (8192, 2048)])
def test_a_sum_beside_the_function_is_not_slower(target: str, rows: int, columns: int, dtype: str) -> None:
    """Nor where the small tiles of the sums lie between the large ones in memory, which are reused."""
    separate, fused = (
        seconds(normalised, target, (rows, columns), dtype=dtype, fused=fused) for fused in (False, True)
    )
    assert fused <= separate * (1 + 1e-12)  # sums of the same times in another order
    if dtype == "bfloat16" and columns == 2048:
        assert fused < separate


@both
@pytest.mark.parametrize("size", [1024, 1536])
def test_hoisted_loads_and_narrow_products_are_faster(target: str, size: int) -> None:
    shapes = ((size, size), (size, size))
    tiled, hoisted = (seconds(product, target, *shapes, dtype="bfloat16", hoisted=h) for h in (False, True))
    assert hoisted < tiled
    assert hoisted < seconds(product, target, *shapes, dtype="float32", hoisted=True)


@both
@pytest.mark.parametrize("size", [1024, 1536])
@pytest.mark.parametrize("hoisted", [False, True])
def test_loads_that_may_be_left_out_take_time(target: str, size: int, hoisted: bool) -> None:
    shape = ShapeDtype((size, size), "bfloat16")
    predicted = profile(product, target=target)(shape, shape, hoisted=hoisted)
    assert predicted.spare_loads is not None
    assert predicted.spare_loads.timed.run(predicted.target).ns <= predicted.timeline.ns


@both
def test_iterations_that_do_not_depend_on_each_other_overlap(target: str) -> None:
    """Twelve rows of tiles more take less than the whole chain of each: the next scores begin under the transposes."""
    shapes = ((P, 2048), (P, 2048), (2048, P))
    predicted = profile(scores, target=target)(*(ShapeDtype(shape, "bfloat16") for shape in shapes))
    busiest = max(use.busy for use in predicted.engines)
    assert predicted.device_time < 1.6 * busiest


def test_time_grows_with_the_work() -> None:
    times = [seconds(softmax, "trn2", (rows, 1024)) for rows in (128, 512, 2048, 4096, 8192)]
    assert times == sorted(times)
    assert 1.7 * times[-2] < times[-1] < 2.05 * times[-2]


@nki.jit
def scaled_rows(x, factors, hoisted=False):
    """``x`` times one row of factors, which is broadcast to the partitions once or for each 128 rows."""
    rows, columns = x.shape
    result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for row in range(0, rows, P):
        here = tile(P, columns, x.dtype)
        nisa.dma_copy(dst=here, src=x[row : row + P, :])
        if not row or not hoisted:
            spread = tile(P, columns, x.dtype)
            nisa.dma_copy(dst=spread, src=factors.ap([[0, P], [1, columns]]))
        nisa.tensor_tensor(dst=here, data1=here, data2=spread, op=nl.multiply)
        nisa.dma_copy(dst=result[row : row + P, :], src=here)
    return result


@nki.jit
def resident_product(a, b, double=False):
    """``a.T @ b`` of operands that are in SBUF before the first product; ``double``: two rows of 8 bits at a time."""
    depth, rows = a.shape
    columns, parts = b.shape[1], depth // P
    result = nl.ndarray((rows, columns), dtype=nl.bfloat16, buffer=nl.shared_hbm)
    left = nl.ndarray((P, parts, rows), dtype=a.dtype, buffer=nl.sbuf)
    right = nl.ndarray((P, parts, columns), dtype=b.dtype, buffer=nl.sbuf)
    for k in range(parts):
        nisa.dma_copy(dst=left[:, k, :], src=a[k * P : k * P + P, :])
        nisa.dma_copy(dst=right[:, k, :], src=b[k * P : k * P + P, :])
    for m in range(0, rows, P):
        for n in range(0, columns, 512):
            total = nl.ndarray((P, 512), dtype=nl.float32, buffer=nl.psum)
            for k in range(0, parts, 2 if double else 1):
                pair = slice(k, k + 2) if double else k
                mode = {"perf_mode": nisa.matmul_perf_mode.double_row} if double else {}
                here, there = left[:, pair, m : m + P], right[:, pair, n : n + 512]
                nisa.nc_matmul(dst=total, stationary=here, moving=there, **mode)
            out = tile(P, 512, nl.bfloat16)
            nisa.tensor_copy(dst=out, src=total)
            nisa.dma_copy(dst=result[m : m + P, n : n + 512], src=out)
    return result


@nki.jit
def repeated(x, count=0, on_device=False):
    """``count`` dependent products with a number, in a loop on the device or unrolled."""
    result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    here = tile(*x.shape, x.dtype)
    nisa.dma_copy(dst=here, src=x)

    def body(_):
        nisa.tensor_scalar(dst=here, data=here, op0=nl.multiply, operand0=1.5)

    if on_device:
        nl.fori_loop(0, count, body)
    else:
        for i in range(count):
            body(i)
    nisa.dma_copy(dst=result, src=here)
    return result


@both
@pytest.mark.parametrize("columns", [512, 2048])
def test_a_row_that_is_broadcast_once_is_faster(target: str, columns: int) -> None:
    each, once = (seconds(scaled_rows, target, (4096, columns), (1, columns), hoisted=once) for once in (False, True))
    assert once < 0.85 * each


@pytest.mark.parametrize("size", [1024, 2048])
def test_double_rows_are_faster_where_products_are_the_limit(size: int) -> None:
    kernel, shapes = resident_product, ((1024, size), (1024, size))
    wide = seconds(kernel, "trn2", *shapes, dtype="bfloat16")
    single, double = (seconds(kernel, "trn2", *shapes, dtype="float8_e4m3", double=mode) for mode in (False, True))
    assert double < 0.75 * single < 0.75 * wide * 1.001


@both
def test_a_long_loop_on_the_device_costs_more_than_the_same_unrolled_and_grows_with_its_count(target: str) -> None:
    short, long = (seconds(repeated, target, (P, 512), count=count, on_device=True) for count in (1000, 20000))
    unrolled = seconds(repeated, target, (P, 512), count=1000)
    assert unrolled < short < 2 * unrolled
    assert 18 < long / short < 20.001
