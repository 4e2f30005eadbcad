"""Predicted times as sizes, dtypes and documented alternatives change, for kernels of several families."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nki
import nki.isa as nisa
import nki.language as nl
from nki.profiling.kernel_profile import profile
from nki.profiling.shapes import ShapeDtype

P = 128
ENGINES = nisa.engine
both = pytest.mark.parametrize("target", ["trn1", "trn2"])
every = pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])


def seconds(kernel: Callable[..., Any], target: str, *specs: tuple[tuple[int, ...], str], **options: Any) -> float:
    """The predicted time on the device for inputs of these shapes and dtypes."""
    trips = {"trips": options.pop("trips")} if "trips" in options else {}
    return profile(kernel, target=target, **trips)(*(ShapeDtype(*spec) for spec in specs), **options).device_time


def sbuf(rows, columns, dtype):
    return nl.ndarray((rows, columns), dtype=dtype, buffer=nl.sbuf)


def psum(rows, columns, dtype=nl.float32):
    return nl.ndarray((rows, columns), dtype=dtype, buffer=nl.psum)


def loaded(view, rows, columns):
    tile = sbuf(rows, columns, view.dtype)
    nisa.dma_copy(dst=tile, src=view)
    return tile


@nki.jit
def normalised(x):
    """Rows over the root of their mean square."""
    rows, columns = x.shape
    result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for row in range(0, rows, P):
        here = loaded(x[row : row + P, :], P, columns)
        squares, factor = sbuf(P, columns, x.dtype), sbuf(P, 1, nl.float32)
        nisa.activation_reduce(dst=squares, op=nl.square, data=here, reduce_op=nl.add, reduce_res=factor)
        nisa.activation(dst=factor, op=nl.rsqrt, data=factor, scale=1.0 / columns)
        nisa.tensor_scalar(dst=here, data=here, op0=nl.multiply, operand0=factor)
        nisa.dma_copy(dst=result[row : row + P, :], src=here)
    return result


@nki.jit
def rotated(x, cosine, sine):
    """Rotary embedding of pairs that lie side by side."""
    rows, columns = x.shape
    result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for row in range(0, rows, P):
        here = loaded(x[row : row + P, :], P, columns)
        c, s = (loaded(half[row : row + P, :], P, columns // 2) for half in (cosine, sine))
        out = sbuf(P, columns, x.dtype)
        even, odd = here[:, 0:columns:2], here[:, 1:columns:2]
        for first, second, place, op in ((even, odd, 0, nl.subtract), (odd, even, 1, nl.add)):
            left, right = sbuf(P, columns // 2, x.dtype), sbuf(P, columns // 2, x.dtype)
            nisa.tensor_tensor(dst=left, data1=first, data2=c, op=nl.multiply)
            nisa.tensor_tensor(dst=right, data1=second, data2=s, op=nl.multiply)
            nisa.tensor_tensor(dst=out[:, place:columns:2], data1=left, data2=right, op=op)
        nisa.dma_copy(dst=result[row : row + P, :], src=out)
    return result


@nki.jit
def greatest(x, count=16):
    """The ``count`` greatest numbers of each row."""
    rows, columns = x.shape
    result = nl.ndarray((rows, count), dtype=x.dtype, buffer=nl.shared_hbm)
    for row in range(0, rows, P):
        here, best = loaded(x[row : row + P, :], P, columns), sbuf(P, count, x.dtype)
        for k in range(0, count, 8):
            nisa.max8(dst=best[:, k : k + 8], src=here)
            if k + 8 < count:
                nisa.nc_match_replace8(dst=here, data=here, vals=best[:, k : k + 8], imm=-1e30)
        nisa.dma_copy(dst=result[row : row + P, :], src=best)
    return result


@nki.jit
def convolved(x, w):
    """3 x 3 windows of an image of (channels, lines, width), by shifted views."""
    _, lines, width = x.shape
    out = w.shape[2]
    result = nl.ndarray((out, lines - 2, width - 2), dtype=x.dtype, buffer=nl.shared_hbm)
    image = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    weights = nl.ndarray(w.shape, dtype=w.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=image, src=x)
    nisa.dma_copy(dst=weights, src=w)
    step = 512 // (width - 2)
    for line in range(0, lines - 2, step):
        count = min(step, lines - 2 - line)
        total = nl.ndarray((out, count, width - 2), dtype=nl.float32, buffer=nl.psum)
        for tap in range(9):
            top, left = line + tap // 3, tap % 3
            view = image[:, top : top + count, left : left + width - 2]
            nisa.nc_matmul(dst=total, stationary=weights[:, tap, :], moving=view)
        kept = nl.ndarray((out, count, width - 2), dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=kept, src=total)
        nisa.dma_copy(dst=result[:, line : line + count, :], src=kept)
    return result


@nki.jit
def attended(q, k, v):
    """Softmax attention of (P, length) queries and keys and (length, size) values; a function makes the tiles."""
    (_, length), size = q.shape, v.shape[1]
    result = nl.ndarray((length, size), dtype=q.dtype, buffer=nl.shared_hbm)
    queries, keys = loaded(q, P, length), loaded(k, P, length)
    values = [loaded(v[j : j + P, :], P, size) for j in range(0, length, P)]
    for row in range(0, length, P):
        score, weights = sbuf(P, length, nl.float32), sbuf(P, length, q.dtype)
        bias, total = sbuf(P, 1, nl.float32), sbuf(P, 1, nl.float32)
        for j in range(0, length, 512):
            part = psum(P, 512)
            nisa.nc_matmul(dst=part, stationary=queries[:, row : row + P], moving=keys[:, j : j + 512])
            nisa.activation(dst=score[:, j : j + 512], op=nl.copy, data=part)
        nisa.tensor_reduce(dst=bias, op=nl.maximum, data=score, axis=1, negate=True)
        nisa.activation_reduce(dst=weights, op=nl.exp, data=score, bias=bias, reduce_op=nl.add, reduce_res=total)
        nisa.reciprocal(dst=total, data=total)
        out = psum(P, size)
        for j, value in enumerate(values):
            turned, kept = psum(P, P, q.dtype), sbuf(P, P, q.dtype)
            nisa.nc_transpose(dst=turned, data=weights[:, j * P : j * P + P], engine=ENGINES.tensor)
            nisa.tensor_copy(dst=kept, src=turned)
            nisa.nc_matmul(dst=out, stationary=kept, moving=value)
        done = sbuf(P, size, q.dtype)
        nisa.tensor_scalar(dst=done, data=out, op0=nl.multiply, operand0=total)
        nisa.dma_copy(dst=result[row : row + P, :], src=done)
    return result


@nki.jit
def transposed(x, way="tensor"):
    """``x`` with its axes swapped: by the Tensor engine, by the DMA engines, or element by element."""
    rows, columns = x.shape
    result = nl.ndarray((columns, rows), dtype=x.dtype, buffer=nl.shared_hbm)
    parts = [loaded(x[r : r + P, :], P, columns) for r in range(0, rows, P)] if way == "tensor" else []
    for column in range(0, columns, P):
        out = sbuf(P, rows, x.dtype)
        if way == "dma":
            nisa.dma_transpose(dst=out, src=x[:, column : column + P])
        elif way == "elements":
            nisa.dma_copy(dst=out, src=x.ap([[1, P], [columns, rows]], offset=column))
        for number, part in enumerate(parts):
            turned = psum(P, P, x.dtype)
            nisa.nc_transpose(dst=turned, data=part[:, column : column + P], engine=ENGINES.tensor)
            nisa.tensor_copy(dst=out[:, number * P : number * P + P], src=turned)
        nisa.dma_copy(dst=result[column : column + P, :], src=out)
    return result


@nki.jit
def few_tokens(x, w, tiles=1, vector_moves=False):
    """``x.T @ w`` for few columns of ``x``, left in PSUM: by ``tiles`` parts of the array, or with ``w`` stationary."""
    tokens, columns = x.shape[1], w.shape[1]
    result = nl.ndarray((tokens, P), dtype=nl.float32, buffer=nl.shared_hbm)
    inputs, weights = loaded(x, P, tokens), loaded(w, P, columns)
    kept = sbuf(tokens, P, nl.float32)
    if vector_moves:
        for column in range(0, columns, P):
            total = psum(P, tokens)
            nisa.nc_matmul(dst=total, stationary=weights[:, column : column + P], moving=inputs)
    else:
        for start in range(0, columns, 512 * tiles):
            total = psum(P, 512)
            for part in range(tiles):
                place = {"tile_position": (0, part * P // tiles), "tile_size": (P, P // tiles)} if tiles > 1 else {}
                here = slice(part * P // tiles, part * P // tiles + tokens)
                moving = weights[:, start + part * 512 : start + part * 512 + 512]
                nisa.nc_matmul(dst=total[here, :], stationary=inputs, moving=moving, **place)
    nisa.memset(dst=kept, value=0.0)
    nisa.dma_copy(dst=result, src=kept)
    return result


@nki.jit
def gathered(table, index):
    """The rows of ``table`` that ``index`` names."""
    count, columns = index.shape[0], table.shape[1]
    result = nl.ndarray((count, columns), dtype=table.dtype, buffer=nl.shared_hbm)
    for row in range(0, count, P):
        rows, here = loaded(index[row : row + P, :], P, 1), sbuf(P, columns, table.dtype)
        nisa.dma_copy(dst=here, src=table.ap([[columns, P], [1, columns]], 0, vector_offset=rows, indirect_dim=0))
        nisa.dma_copy(dst=result[row : row + P, :], src=here)
    return result


@nki.jit
def exchanged(x):
    """Each core doubles its half of the rows; then they exchange the last tile."""
    rows, columns = x.shape
    core, cores = nl.program_id(0), nl.num_programs()
    result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    here = sbuf(P, columns, x.dtype)
    for row in range(core * rows // cores, (core + 1) * rows // cores, P):
        here = loaded(x[row : row + P, :], P, columns)
        nisa.activation(dst=here, op=nl.exp, data=here)
        nisa.dma_copy(dst=result[row : row + P, :], src=here)
    if cores > 1:
        other = sbuf(P, columns, x.dtype)
        nisa.sendrecv(src=here, dst=other, send_to_rank=1 - core, recv_from_rank=1 - core, pipe_id=0)
    return result


@nki.jit
def visited(x, count):
    """The sum of the first tiles of ``x``, as many as ``count`` says, in a loop on the device."""
    columns = x.shape[1]
    result = nl.ndarray((P, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    total, here = sbuf(P, columns, x.dtype), sbuf(P, columns, x.dtype)
    nisa.memset(dst=total, value=0.0)

    def visit(i):
        nisa.dma_copy(dst=here, src=x[nl.ds(i * P, P), :])
        nisa.tensor_tensor(dst=total, data1=total, data2=here, op=nl.add)

    nl.fori_loop(0, nisa.scalar_load(loaded(count, 1, 1)), visit)
    nisa.dma_copy(dst=result, src=total)
    return result


FAMILIES: dict[str, tuple[Any, Callable[[int, int, str], list[tuple[tuple[int, ...], str]]]]] = {
    "norm": (normalised, lambda m, n, d: [((m * P, n * 256), d)]),
    "rope": (rotated, lambda m, n, d: [((m * P, n * 256), d), ((m * P, n * P), d), ((m * P, n * P), d)]),
    "top-k": (greatest, lambda m, n, d: [((m * P, n * 256), d)]),
    "convolution": (convolved, lambda m, n, d: [((P, 16 * m + 2, 34), d), ((P, 9, 32 * n), d)]),
    "attention": (attended, lambda m, n, d: [((P, 512 * m), d)] * 2 + [((512 * m, P * n), d)]),
    "transpose": (transposed, lambda m, n, d: [((m * P, n * P), d)]),
}
"""Kernels, and their arguments for two sizes (1, 2 or 4) and a dtype. Products use all rows of the array: idle ones
keep the clock of the Tensor engine throttled (a guess), so fewer may take longer."""


@settings(max_examples=24)
@given(
    family=st.sampled_from(sorted(FAMILIES)),
    target=st.sampled_from(["trn1", "trn2", "trn3"]),
    dtype=st.sampled_from(["float32", "bfloat16"]),
    sizes=st.tuples(st.sampled_from([1, 2]), st.sampled_from([1, 2])),
    axis=st.integers(0, 1),
)
def test_twice_the_size_takes_longer(family: str, target: str, dtype: str, sizes: tuple[int, int], axis: int) -> None:
    """Twice a size takes longer, and not more than four times as long: attention is quadratic."""
    kernel, specs = FAMILIES[family]
    larger = (2 * sizes[0], sizes[1]) if axis == 0 else (sizes[0], 2 * sizes[1])
    small, large = (seconds(kernel, target, *specs(*both, dtype)) for both in (sizes, larger))
    assert small < large < 4.01 * small


@every
@pytest.mark.parametrize("family", sorted(FAMILIES))
@pytest.mark.parametrize("sizes", [(1, 1), (2, 2), (4, 2)])
def test_half_the_bytes_of_an_element_are_not_slower(target: str, family: str, sizes: tuple[int, int]) -> None:
    kernel, specs = FAMILIES[family]
    wide, narrow = (seconds(kernel, target, *specs(*sizes, dtype)) for dtype in ("float32", "bfloat16"))
    assert narrow <= wide * 1.001


@every
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("shape", [(512, 512), (1024, 512)])
def test_no_transpose_is_as_slow_as_one_element_by_element(target: str, dtype: str, shape: tuple[int, int]) -> None:
    """The Tensor engine and DMA transposes read whole rows (architecture guides); elements of a column lie apart."""
    tensor, elements = (seconds(transposed, target, (shape, dtype), way=way) for way in ("tensor", "elements"))
    assert 5 * tensor < elements
    if target != "trn1":
        assert 5 * seconds(transposed, target, (shape, dtype), way="dma") < elements


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_large_transposes_of_trn1_belong_on_the_tensor_engine(dtype: str) -> None:
    """Performance guide, Opt #10: plain loads and nc_transpose in place of DMA transposes."""
    tensor, dma = (seconds(transposed, "trn1", ((2048, 1024), dtype), way=way) for way in ("tensor", "dma"))
    assert tensor < 0.8 * dma


@both
def test_the_vector_of_a_matrix_product_moves(target: str) -> None:
    """Architecture guide, Fast LoadStationary: the matrix is to be stationary, and the vector to move. The performance
    guide (Opt #7) has 64 cycles for 128 columns of the matrix then, and 128 the other way round.
    """
    specs = ((P, 1), "bfloat16"), ((P, 65536), "bfloat16")
    slow, fast = (profile(few_tokens, target=target)(*(ShapeDtype(*s) for s in specs), vector_moves=v) for v in (0, 1))
    busy = [sum(use.busy for use in one.engines if use.engine == "tensor") for one in (slow, fast)]
    assert busy[1] < 0.8 * busy[0]
    assert fast.device_time <= slow.device_time


@pytest.mark.parametrize(("target", "tiles"), [("trn1", 2), ("trn2", 2), ("trn2", 4), ("trn3", 4)])
def test_parts_of_the_array_work_beside_each_other(target: str, tiles: int) -> None:
    """Reference, nisa.nc_matmul: products in parts of the array run in parallel."""
    specs = ((P, 32), "bfloat16"), ((P, 65536), "bfloat16")
    whole, parts = (
        profile(few_tokens, target=target)(*(ShapeDtype(*spec) for spec in specs), tiles=count) for count in (1, tiles)
    )
    busy = [sum(use.busy for use in one.engines if use.engine == "tensor") for one in (whole, parts)]
    assert busy[0] / tiles <= busy[1] < 1.3 * busy[0] / tiles
    assert parts.device_time <= whole.device_time


@pytest.mark.parametrize("target", ["trn2", "trn3"])
def test_gathered_rows_take_longer_if_they_are_more_or_longer(target: str) -> None:
    def time(count: int, columns: int) -> float:
        return seconds(gathered, target, ((4096, columns), "bfloat16"), ((count, 1), "int32"))

    assert time(512, 512) < time(1024, 512) < time(1024, 1024) < time(1024, 4096)
    assert time(2048, 4096) < 2.05 * time(1024, 4096)
    # Four times the bytes in rows as long are fewer packets than in four times the rows.
    assert time(512, 2048) < time(2048, 512)


@pytest.mark.parametrize("target", ["trn2", "trn3"])
@pytest.mark.parametrize("rows", [1024, 4096])
def test_two_cores_share_the_work_and_meet(target: str, rows: int) -> None:
    """Two cores are faster than one, and not twice as fast: they exchange a tile."""
    one, two = (seconds(exchanged[cores], target, ((rows, 2048), "float32")) for cores in (1, 2))
    assert 0.5 * one < two < 0.85 * one


@both
def test_time_grows_with_the_iterations_of_a_loop_on_the_device(target: str) -> None:
    specs = ((16384, 512), "float32"), ((1, 1), "int32")
    times = [seconds(visited, target, *specs, trips=trips) for trips in (0, 1, 2, 16, 64)]
    assert times == sorted(times) and times[0] < times[1]
    each = (times[4] - times[3]) / 48
    assert times[3] - times[2] == pytest.approx(14 * each, rel=0.05)
