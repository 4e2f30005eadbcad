"""Masks: boxes, unions, triangles; on loads, computations, reductions, assignments and stores; what they leave open."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
from neuronxcc import nki
from nki.base.errors import NkiError
from nki.base.warning import NkiWarning
from nki.ir.text import parser, printer

ROW, COLUMN = np.arange(40)[:, None], np.arange(24)[None, :]
MASKS = {
    "box": (lambda p, f: (p < 33) & (f >= 5), (ROW < 33) & (COLUMN >= 5)),
    "columns": (lambda p, f: f < 7, COLUMN < 7),
    "triangle": (lambda p, f: p >= f, ROW >= COLUMN),
    "inner rows": (lambda p, f: (p >= 3) & (p < 9) & (f < 20), (ROW >= 3) & (ROW < 9) & (COLUMN < 20)),
    "union": (lambda p, f: (p < 4) | (f == 3), (ROW < 4) | (COLUMN == 3)),
    "nothing": (lambda p, f: (p < 0) & (f < 3), (ROW < 0) & (COLUMN < 3)),
    "everything": (lambda p, f: True, ROW >= 0),
    "none": (lambda p, f: None, ROW >= 0),
}


@pytest.mark.parametrize("case", MASKS)
def test_an_assignment_keeps_what_is_outside(both: Any, data: Any, case: str) -> None:
    made, chosen = MASKS[case]

    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        p, f = nl.mgrid[0:40, 0:24]
        tile = nl.load(x)
        result = nl.full(x.shape, 3.0, dtype=x.dtype)
        result[p, f] = nl.multiply(tile, 2.0, mask=made(p, f))
        nl.store(out, result)
        return out

    x = data(40, 24)
    assert (both(kernel, x) == np.where(chosen, 2 * x, 3)).all()


@pytest.mark.parametrize("case", MASKS)
def test_a_store_keeps_what_is_outside(both: Any, data: Any, case: str) -> None:
    made, chosen = MASKS[case]

    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        p, f = nl.mgrid[0:40, 0:24]
        nl.store(out, nl.zeros(x.shape, dtype=x.dtype))
        nl.store(out[p, f], nl.load(x[p, f], mask=made(p, f)), mask=made(p, f))
        return out

    x = data(40, 24)
    assert (both(kernel, x) == np.where(chosen, x, 0)).all()


@pytest.mark.parametrize("case", ["box", "columns", "triangle"])
def test_a_reduction_ignores_what_is_outside(both: Any, data: Any, case: str) -> None:
    made, chosen = MASKS[case]

    @nki.jit
    def kernel(x):
        out = nl.ndarray((2, 40, 1), dtype=x.dtype, buffer=nl.shared_hbm)
        p, f = nl.mgrid[0:40, 0:24]
        tile = nl.load(x)
        total, most = nl.zeros((40, 1), x.dtype), nl.zeros((40, 1), x.dtype)
        total[...] = nl.sum(tile, axis=1, mask=made(p, f))
        most[...] = nisa.tensor_reduce(np.max, tile, axis=1, mask=made(p, f))
        nl.store(out[0], total)
        nl.store(out[1], most)
        return out

    x = data(40, 24)
    total, most = both(kernel, x)
    rows = chosen.any(1, keepdims=True)
    np.testing.assert_allclose(total, np.where(chosen, x, 0).sum(1, keepdims=True), rtol=1e-4, atol=1e-6)
    want = np.where(chosen, x, -np.inf).max(1, keepdims=True)
    assert (most == np.where(rows, want, 0)).all()


def test_complementary_masks_fill_a_tile(both: Any, data: Any) -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        p, f = nl.mgrid[0:40, 0:24]
        tile, result = nl.load(x), nl.ndarray(x.shape, dtype=x.dtype)
        result[p, f] = nl.copy(tile[p, f], mask=p > f)
        result[p, f] = nl.negative(tile[p, f], mask=p <= f)
        nl.store(out, result)
        return out

    x = data(40, 24)
    assert (both(kernel, x) == np.where(ROW > COLUMN, x, -x)).all()


def test_a_mask_keeps_an_index_inside(both: Any, data: Any) -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        p, f = nl.arange(32)[:, None], nl.arange(16)[None, :]
        for i in nl.affine_range(2):
            for j in nl.affine_range(2):
                inside = (i * 32 + p < 40) & (j * 16 + f < 24)
                nl.store(out[i * 32 + p, j * 16 + f], nl.load(x[i * 32 + p, j * 16 + f], mask=inside), mask=inside)
        return out

    x = data(40, 24)
    assert (both(kernel, x) == x).all()


@nki.jit
def whole_tile_of_a_tail(x, rows):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    p, f = nl.mgrid[0:64, 0:24]
    tile = nl.load(x[p, f], mask=p < 40)
    total = nl.sum(tile * 2, axis=1)  # of undefined rows, too
    nl.store(out[p, f], tile - total.broadcast_to((64, 24)), mask=p < rows)
    return out


def test_undefined_rows_may_be_computed_with(both: Any, data: Any) -> None:
    x = data(40, 24)
    want = x - (2 * x).sum(1, keepdims=True, dtype=np.float32)
    np.testing.assert_allclose(both(whole_tile_of_a_tail, x, 40), want, rtol=1e-4, atol=1e-5)


def test_undefined_rows_must_not_be_stored(data: Any) -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray((64, 24), dtype=x.dtype, buffer=nl.shared_hbm)
        p, f = nl.mgrid[0:64, 0:24]
        tile = nl.load(x[p, f], mask=p < 40)
        nl.store(out[p, f], nl.exp(tile))
        return out

    with pytest.raises(NkiError, match="is in output 'out'"):
        nki.simulate_kernel(kernel, data(40, 24))


def test_a_tile_that_nothing_has_written_must_not_be_stored(data: Any) -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.ndarray(x.shape, dtype=x.dtype))
        return out

    for run in (kernel, lambda x: nki.simulate_kernel(kernel, x)):
        with pytest.raises(NkiError, match=r"nothing was written|never written|is read"):
            run(data(4, 4))


def test_the_text_form_says_that_undefined_elements_are_carried(data: Any) -> None:
    program = whole_tile_of_a_tail.compile(data(40, 24), 40).kernel
    text = printer.show(program)
    assert text.splitlines()[0].endswith("undefined=carried {")
    assert parser.parse(text) == program


def test_and_leaves_the_second_mask(both: Any, data: Any) -> None:
    @nki.jit
    def kernel(x, deep):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        p, f = nl.mgrid[0:40, 0:24]
        result = nl.full(x.shape, 3.0, dtype=x.dtype)
        result[p, f] = nl.multiply(nl.load(x), 2.0, mask=(p < 3 and f < 5))
        if deep and x.shape[0] == 40:
            nl.store(out, result)
        return out

    x = data(40, 24)
    with pytest.warns(NkiWarning, match="`and` of two masks is the second one alone"):
        assert (both(kernel, x, deep=True) == np.where(COLUMN < 5, 2 * x, 3)).all()


def test_a_mask_is_a_tile_of_ones_and_zeros(both: Any, data: Any) -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        p, f = nl.arange(40)[:, None], nl.arange(24)[None, :]
        nl.store(out, nl.where(p >= f, nl.load(x), -1.0))
        return out

    x = data(40, 24)
    assert (both(kernel, x) == np.where(ROW >= COLUMN, x, -1)).all()


def test_rows_of_a_mask_meet_the_partitions(both: Any, data: Any) -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray((40, 3, 8), dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.full((40, 3, 8), 5.0, dtype=x.dtype)
        tile[...] = nl.multiply(nl.load(x).reshape((40, 3, 8)), 2.0, mask=nl.arange(40)[:, None] < 7)
        nl.store(out, tile)
        return out

    x = data(40, 24)
    assert (both(kernel, x) == np.where(ROW[..., None] < 7, 2 * x.reshape(40, 3, 8), 5)).all()


@pytest.mark.parametrize(
    ("mask", "text"),
    [
        (lambda p, f: 0 <= p < 3, "control_flow_condition_depending_on_arange"),
        (lambda p, f: p < 2 or f < 3, "control_flow_condition_depending_on_arange"),
        (lambda p, f: (p < 2) & f, "unsupported_expression_in_mask"),
        (lambda p, f: p + f, "unsupported_expression_in_mask"),
        (lambda p, f: nl.arange(7)[:, None] < f, "the mask has|unsupported"),
    ],
)
def test_a_mask_that_is_none(data: Any, mask: Any, text: str) -> None:
    @nki.jit
    def kernel(x):
        p, f = nl.mgrid[0:8, 0:8]
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x[p, f], mask=mask(p, f)))
        return out

    with pytest.raises(NkiError, match=text):
        kernel(data(8, 8))


@pytest.mark.parametrize("rows", [40, 20])
def test_a_mask_of_an_operand_leaves_out_rows_and_columns_of_the_product(both: Any, data: Any, rows: int) -> None:
    """The index of an operand may leave its tile where the mask leaves it out; the sum keeps its whole shape."""

    @nki.jit
    def kernel(a, b):
        out = nl.ndarray((24, 64), dtype=np.float32, buffer=nl.shared_hbm)
        total = nl.zeros((24, 64), np.float32, buffer=nl.psum)
        left, right = nl.load(a), nl.load(b)
        p, f = nl.mgrid[0:40, 0:64]
        for _ in nl.affine_range(2):
            total += nisa.nc_matmul(left[nl.arange(40)[:, None] < rows], right[p, f][(p < rows) & (f < 50)])
        nl.store(out, total)
        return out

    a, b = data(40, 24), data(40, 50)
    want = np.zeros((24, 64), np.float32)
    want[:, :50] = 2 * a[:rows].T @ b[:rows]
    np.testing.assert_allclose(both(kernel, a, b), want, rtol=1e-4, atol=1e-5)


def test_operands_that_are_masked_away_add_nothing(both: Any, data: Any) -> None:
    @nki.jit
    def kernel(a, b):
        out = nl.ndarray((24, 50), dtype=np.float32, buffer=nl.shared_hbm)
        total = nl.zeros((24, 50), np.float32, buffer=nl.psum)
        left, right = nl.load(a), nl.load(b)
        for k in nl.affine_range(3):
            total += nisa.nc_matmul(left[nl.arange(40)[:, None] + 40 * k < 80], right)
        nl.store(out, total)
        return out

    a, b = data(40, 24), data(40, 50)
    np.testing.assert_allclose(both(kernel, a, b), 2 * a.T @ b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (lambda p, f: p >= f, "the mask of operand 'right' is no box"),
        (lambda p, f: f < 60, "reaches from 0 to 59; the dimension has 50 elements"),
    ],
)
def test_masks_that_an_operand_may_not_have(data: Any, mask: Any, message: str) -> None:
    @nki.jit
    def kernel(a, b):
        out = nl.ndarray((24, 64), dtype=np.float32, buffer=nl.shared_hbm)
        right = nl.load(b)
        p, f = nl.mgrid[0:40, 0:64]
        nl.store(out, nisa.nc_matmul(nl.load(a), right[p, f][mask(p, f)]))
        return out

    with pytest.raises(NkiError, match=message):
        kernel(data(40, 24), data(40, 50))


def test_a_product_that_is_masked_to_no_box(data: Any) -> None:
    @nki.jit
    def kernel(a, b):
        out = nl.ndarray((24, 50), dtype=np.float32, buffer=nl.shared_hbm)
        total = nl.zeros((24, 50), np.float32, buffer=nl.psum)
        p, f = nl.mgrid[0:24, 0:50]
        total += nisa.nc_matmul(nl.load(a), nl.load(b), mask=p >= f)
        nl.store(out, total)
        return out

    with pytest.raises(NkiError, match="the mask of a product is no box"):
        kernel(data(40, 24), data(40, 50))


def _bounded(a: Any, mask: Any) -> Any:
    """The elements of ``a`` where ``mask`` holds, by an index of 128 rows and 512 columns."""
    return a[nl.arange(128)[:, None], nl.arange(512)[None, :]][mask]


@pytest.mark.parametrize("rows", [64, 30])
def test_a_mask_of_a_left_operand_that_is_transposed(both: Any, data: Any, rows: int) -> None:
    """``x`` of ``nl.matmul(x, y)`` has the rows of the result and the contraction; its index may leave the tile."""

    @nki.jit
    def kernel(x, y):
        out = nl.ndarray((rows, 420), dtype=nl.float32, buffer=nl.shared_hbm)
        left, right = nl.load(x), nl.load(y)
        p, k, f = nl.arange(128)[:, None], nl.arange(128)[None, :], nl.arange(420)[None, :]
        made = nl.matmul(left[p, k][(p < rows) & (k < 100)], _bounded(right, (p < 100) & (_columns() < 420)))
        nl.store(out, made[nl.arange(rows)[:, None], f])
        return out

    x, y = data(64, 100), data(100, 420)
    assert np.allclose(both(kernel, x, y), x[:rows] @ y, rtol=1e-5, atol=1e-5)


def _columns() -> Any:
    return nl.arange(512)[None, :]


@pytest.mark.parametrize("inside", [420, 7])
def test_a_mask_in_a_second_bracket_bounds_copies(both: Any, data: Any, inside: int) -> None:
    """Loads, stores and copies move the elements of the mask alone, and read nothing outside the tensor."""

    @nki.jit
    def kernel(x, y):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        other = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(y))
        nisa.dma_copy(dst=other, src=y)
        mask = _columns() < inside
        tile = nl.load(_bounded(x, mask))
        nl.store(_bounded(out, mask), _bounded(tile, mask))
        nisa.dma_copy(dst=_bounded(other, mask), src=_bounded(x, mask))
        return out, other

    x, y = data(128, 420), data(128, 420)
    wanted = np.where(np.arange(420) < inside, x, y)
    out, other = both(kernel, x, y)
    assert (out == wanted).all()
    assert (other == wanted).all()


def test_a_mask_in_a_second_bracket_bounds_assignments(both: Any, data: Any) -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)
        result = nl.copy(tile)
        index = nl.arange(40)[:, None], nl.arange(24)[None, :]
        result[index][index[1] < 7] = 3.0
        result[index][index[1] > 20] = nl.multiply(tile, 2.0)
        result[index][index[0] == index[1]] = nl.negative(tile)
        result[index][(index[1] >= 10) & (index[1] < 12)] += tile
        nl.store(out, result)
        return out

    x = data(40, 24)
    wanted = np.where(np.broadcast_to(COLUMN < 7, x.shape), 3, x)
    wanted = np.where(COLUMN > 20, 2 * x, wanted)
    wanted = np.where(ROW == COLUMN, -x, wanted)
    wanted = np.where((COLUMN >= 10) & (COLUMN < 12), wanted + x, wanted)
    assert (both(kernel, x) == wanted.astype(np.float32)).all()


def test_a_mask_of_a_destination_bounds_a_sum_of_products(both: Any, data: Any) -> None:
    @nki.jit
    def kernel(x, y):
        out = nl.ndarray((64, 420), dtype=nl.float32, buffer=nl.shared_hbm)
        left, right = nl.load(x), nl.load(y)
        total = nl.zeros((64, 420), dtype=nl.float32, buffer=nl.psum)
        p, f = nl.arange(64)[:, None], nl.arange(512)[None, :]
        for _ in nl.affine_range(2):
            total[p, f][f < 420] += nisa.nc_matmul(left, _bounded(right, f < 420))
        nl.store(out, total)
        return out

    x, y = data(128, 64), data(128, 420)
    assert np.allclose(both(kernel, x, y), 2 * (x.T @ y), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("engine", ["nl", "nisa"])
def test_a_mask_of_what_is_transposed(both: Any, data: Any, engine: str) -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray((100, 60), dtype=x.dtype, buffer=nl.shared_hbm)
        p, f = nl.arange(128)[:, None], nl.arange(128)[None, :]
        source = nl.load(x)[p, f][(p < 60) & (f < 100)]
        turned = nl.transpose(source) if engine == "nl" else nisa.nc_transpose(source)
        nl.store(out, turned[nl.arange(100)[:, None], nl.arange(60)[None, :]])
        return out

    x = data(60, 100)
    assert (both(kernel, x) == x.T).all()


@pytest.mark.parametrize("used", [
    lambda x, out, mask: nl.store(out, nl.load(_bounded(x, mask)), mask=mask),
    lambda x, out, mask: nl.store(_bounded(out, mask), nl.load(_bounded(x, _columns() < 420))),
    lambda x, out, mask: nl.store(out, nl.matmul(nl.load(x), _bounded(nl.load(x), mask), transpose_x=True)),
])  # fmt: skip
def test_a_mask_in_a_second_bracket_that_leaves_the_tensor(data: Any, used: Any) -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        used(x, out, _columns() < 421)
        return out

    with pytest.raises(NkiError, match=r"tensor_access_out_of_bound.* reaches from 0 to 420"):
        kernel(data(128, 420)[:, :420])


def test_a_function_of_a_tile_with_a_mask_asks_for_the_argument(data: Any) -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.exp(_bounded(nl.load(x), _columns() < 420)))
        return out

    with pytest.raises(NkiError, match="'load' is indexed with a mask"):
        kernel(data(128, 420))


_NEIGHBOURS: Any = {
    "max": (lambda t, m: nl.max(t, axis=[2], mask=m), np.max, -np.inf),
    "min": (lambda t, m: nl.min(t, axis=2, mask=m), np.min, np.inf),
    "sum": (lambda t, m: nl.sum(t, axis=[2], mask=m), np.sum, 0),
    "prod": (lambda t, m: nl.prod(t, axis=[2], mask=m), np.prod, 1),
    "tensor_reduce": (lambda t, m: nisa.tensor_reduce(np.add, t, axis=[2], mask=m), np.sum, 0),
    "negated": (lambda t, m: nisa.tensor_reduce(np.maximum, t, axis=[2], mask=m, negate=True),
                lambda x, axis: -np.max(x, axis), -np.inf),
    "of a product": (lambda t, m: nl.max(nl.multiply(t, 2.0, mask=m), axis=[2], mask=m),
                     lambda x, axis: np.max(2 * x, axis), -np.inf),
    "of two": (lambda t, m: nl.sum(nl.add(t, t, mask=m), axis=[2], mask=m), lambda x, axis: np.sum(2 * x, axis), 0),
    "of activation": (lambda t, m: nl.sum(nisa.activation(np.square, t, mask=m), axis=[2], mask=m),
                      lambda x, axis: np.sum(np.square(x), axis), 0),
    "of tensor_scalar": (lambda t, m: nl.sum(nisa.tensor_scalar(t, np.add, 1.0, mask=m), axis=[2], mask=m),
                         lambda x, axis: np.sum(np.where(x == 0, 0, x + 1), axis), 0),
    "of tensor_copy": (lambda t, m: nl.sum(nisa.tensor_copy(t, mask=m), axis=[2], mask=m), np.sum, 0),
}  # fmt: skip


@pytest.mark.parametrize("shift", [-1, 1])
@pytest.mark.parametrize("case", _NEIGHBOURS)
def test_a_mask_switches_off_what_overhangs(both: Any, data: Any, case: str, shift: int) -> None:
    function, expected, outside = _NEIGHBOURS[case]

    @nki.jit
    def kernel(x):
        out = nl.ndarray((64, 16), dtype=x.dtype, buffer=nl.shared_hbm)
        t = nl.load(x)
        p, f, w = nl.arange(64)[:, None, None], nl.arange(16)[None, :, None], nl.arange(2)[None, None, :]
        at = f + w + (-1 if shift < 0 else 0)
        nl.store(out, value=function(t[p, at], at >= 0 if shift < 0 else at < 16))
        return out

    x = data(64, 16)
    padded = np.pad(x, ((0, 0), (1, 0) if shift < 0 else (0, 1)), constant_values=outside)
    pairs = np.stack([padded[:, :16], padded[:, 1:]], axis=2)
    np.testing.assert_allclose(both(kernel, x), expected(pairs, axis=2), rtol=1e-6, atol=1e-6)


def test_a_mask_that_depends_on_partitions_switches_off_what_overhangs(both: Any, data: Any) -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray((32, 1), dtype=x.dtype, buffer=nl.shared_hbm)
        t = nl.load(x)
        p, w = nl.mgrid[0:32, 0:24]
        nl.store(out, value=nl.sum(t[p, w], axis=[1], mask=(p + w < 16) | (w < 3)))
        return out

    x = data(32, 16)
    p, w = np.mgrid[0:32, 0:16]
    np.testing.assert_allclose(both(kernel, x)[:, 0], np.where((p + w < 16) | (w < 3), x, 0).sum(axis=1), rtol=1e-5)


def test_a_mask_switches_off_an_overhang_of_the_destination(both: Any, data: Any) -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray((64, 16), dtype=x.dtype, buffer=nl.shared_hbm)
        t = nl.load(x)
        to = nl.zeros((64, 16), dtype=x.dtype, buffer=nl.sbuf)
        p, f, w = nl.arange(64)[:, None, None], nl.arange(8)[None, :, None], nl.arange(2)[None, None, :]
        to[p, 2 * f + 3 * w] = nl.copy(t[p, 2 * f + w], mask=2 * f + 3 * w < 16)
        nl.store(out, value=to)
        return out

    x = data(64, 16)
    expected = np.zeros_like(x)
    expected[:, ::2] = x[:, ::2]
    expected[:, 3::2] = x[:, 1:14:2]
    assert (both(kernel, x) == expected).all()


def test_an_overhang_that_no_mask_switches_off_is_refused(data: Any) -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray((64, 16), dtype=x.dtype, buffer=nl.shared_hbm)
        t = nl.load(x)
        p, f, w = nl.arange(64)[:, None, None], nl.arange(16)[None, :, None], nl.arange(2)[None, None, :]
        nl.store(out, value=nl.max(t[p, f - 1 + w], axis=[2], mask=f + w < 16))
        return out

    with pytest.raises(NkiError, match="reaches from -1 to 14"):
        kernel(data(64, 16))
