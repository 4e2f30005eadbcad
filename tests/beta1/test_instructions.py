"""The functions of ``nisa`` against NumPy: results, masks, dtypes, in-place arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
from neuronxcc import nki
from nki.base.errors import NkiError
from nki.profiling.kernel_profile import profile as predict
from nki.profiling.shapes import ShapeDtype

ROWS, COLUMNS = 32, 48


def _scan(x: Any, y: Any) -> Any:
    result, state = np.zeros_like(x), np.zeros(len(x), np.float32)
    for i in range(x.shape[1]):
        state = x[:, i] * state + y[:, i]
        result[:, i] = state
    return result


def _stats(x: Any) -> Any:
    halves = [x[:, 0::2], x[:, 1::2]]
    parts = [(np.full(len(x), h.shape[1]), h.mean(1), h.var(1) * h.shape[1]) for h in halves]
    return np.stack([part for half in parts for part in half], 1)


P, F = np.arange(ROWS)[:, None], np.arange(COLUMNS)[None, :]
CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "activation": (
        lambda x, y: nisa.activation(np.exp, x, bias=y[:, 0:1], scale=0.5),
        lambda x, y: np.exp(x * 0.5 + y[:, :1]),
    ),
    "tensor_scalar": (
        lambda x, y: nisa.tensor_scalar(x, np.subtract, y[:, 0:1], reverse0=True, op1=np.multiply, operand1=3),
        lambda x, y: (y[:, :1] - x) * 3,
    ),
    "tensor_tensor": (lambda x, y: nisa.tensor_tensor(x, y, op=np.maximum), np.maximum),
    "tensor_tensor of a column": (lambda x, y: nisa.tensor_tensor(x, y[:, 1:2], nl.add), lambda x, y: x + y[:, 1:2]),
    "scalar_tensor_tensor": (
        lambda x, y: nisa.scalar_tensor_tensor(data=x, op0=nl.multiply, operand0=2.0, op1=nl.add, operand1=y),
        lambda x, y: x * 2 + y,
    ),
    "tensor_tensor_scan": (lambda x, y: nisa.tensor_tensor_scan(x, y, 0.0, np.multiply, np.add), _scan),
    "tensor_reduce": (
        lambda x, y: nisa.tensor_reduce(np.add, x, axis=[1], negate=True),
        lambda x, y: -x.sum(1, keepdims=True),
    ),
    "tensor_partition_reduce": (
        lambda x, y: nisa.tensor_partition_reduce(np.add, x),
        lambda x, y: x.sum(0, keepdims=True),
    ),
    "reciprocal": (lambda x, y: nisa.reciprocal(x), lambda x, y: 1 / x),
    "tensor_copy": (lambda x, y: nisa.tensor_copy(x, dtype=nl.bfloat16), lambda x, y: x.astype(nl.bfloat16)),
    "iota": (
        lambda x, y: nisa.iota(3 * nl.arange(ROWS)[:, None] + nl.arange(4)[None, :], dtype=np.int32),
        lambda x, y: 3 * P + F[:, :4],
    ),
    "affine_select": (
        lambda x, y: nisa.affine_select(nl.arange(ROWS)[:, None] >= nl.arange(COLUMNS)[None, :], x, -9.0),
        lambda x, y: np.where(P >= F, x, -9),
    ),
    "memset": (lambda x, y: nisa.memset((nl.par_dim(4), 5), 2.5, np.float32), lambda x, y: np.full((4, 5), 2.5)),
    "bn_stats": (lambda x, y: nisa.bn_stats(x), lambda x, y: _stats(x)),
    "bn_aggr": (lambda x, y: nisa.bn_aggr(nisa.bn_stats(x)), lambda x, y: np.stack([x.mean(1), x.var(1)], 1)),
    "max8": (lambda x, y: nisa.max8(src=x), lambda x, y: -np.sort(-x, 1)[:, :8]),
    "nc_find_index8": (
        lambda x, y: nisa.nc_find_index8(data=x, vals=nisa.max8(src=x)),
        lambda x, y: np.argsort(-x, 1)[:, :8],
    ),
    "nc_match_replace8": (
        lambda x, y: nisa.nc_match_replace8(data=x, vals=nisa.max8(src=x), imm=-5.0),
        lambda x, y: np.where(x >= -np.sort(-x, 1)[:, 7:8], -5, x),
    ),
    "nc_matmul": (lambda x, y: nisa.nc_matmul(x, y), lambda x, y: x.T @ y),
    "nc_matmul from PSUM": (
        lambda x, y: nisa.nc_matmul(nisa.nc_transpose(x[0:32, 0:32]), y),
        lambda x, y: x[:, :32] @ y,
    ),
    "nc_transpose": (lambda x, y: nisa.nc_transpose(x), lambda x, y: x.T),
    "nc_transpose on Vector": (
        lambda x, y: nisa.nc_transpose(x[:, 0:32], engine=nisa.vector_engine),
        lambda x, y: x[:, :32].T,
    ),
    "nc_transpose beyond Vector": (
        lambda x, y: nisa.nc_transpose(x, engine=nisa.vector_engine),
        lambda x, y: x.T,
    ),
    "nc_matmul that is no transposition": (
        lambda x, y: nisa.nc_matmul(x[:, 0:32], y, is_transpose=True),
        lambda x, y: x[:, :32].T @ y,
    ),
    "dma_transpose": (lambda x, y: nisa.dma_transpose(x), lambda x, y: x.T),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::nki.NkiPortabilityWarning")
@pytest.mark.parametrize("case", CASES)
def test_the_result_of(both: Any, data: Any, case: str) -> None:
    made, expected = CASES[case]
    x, y = data(ROWS, COLUMNS) + np.float32(2), data(ROWS, COLUMNS)
    want = np.asarray(expected(x.astype(np.float64), y.astype(np.float64)))
    shape = want.shape

    @nki.jit
    def kernel(x, y):
        out = nl.ndarray(shape, dtype=np.float32, buffer=nl.shared_hbm)
        nl.store(out, made(nl.load(x), nl.load(y)))
        return out

    np.testing.assert_allclose(
        both(kernel, x, y), want.astype(np.float32), rtol=2e-3 if case == "tensor_copy" else 2e-4, atol=1e-4
    )


def test_a_result_is_written_into_its_destination(data: Any) -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray(x.shape, dtype=x.dtype)
        tile[...] = nl.load(x)
        tile[:, 0:4] = nl.exp(tile[:, 4:8])
        nl.store(out, tile)
        return out

    program = kernel.compile(data(4, 8)).kernel
    assert [inst.mnemonic for inst in program.instructions()] == ["dma_copy", "activation", "dma_copy"]


def test_in_place_arguments(both: Any, data: Any) -> None:
    @nki.jit
    def kernel(x, y):
        out = nl.ndarray((3, ROWS, 1), dtype=np.float32, buffer=nl.shared_hbm)
        picked = nl.ndarray((2, ROWS, COLUMNS), dtype=np.float32, buffer=nl.shared_hbm)
        a, b = nl.load(x), nl.load(y)
        sums, most, chosen = (nl.ndarray((ROWS, 1), dtype=np.float32) for _ in range(3))
        nisa.activation_reduce(np.square, a, reduce_op=np.add, reduce_res=sums)
        nisa.tensor_scalar_reduce(data=a, op0=np.multiply, operand0=2.0, reduce_op=np.max, reduce_res=most[...])
        both_of = nl.copy(b)
        nisa.tensor_copy_predicated(src=a, dst=both_of, predicate=a > b)
        selected = nl.ndarray(x.shape, dtype=np.float32)
        nisa.select_reduce(dst=selected, predicate=nl.greater(a, b, dtype=np.uint8), on_true=a, on_false=-7.0,
                           reduce_res=chosen, reduce_cmd=nisa.reduce_cmd.reset_reduce)  # fmt: skip
        for i, tile in enumerate((sums, most, chosen)):
            nl.store(out[i], tile)
        nl.store(picked[0], both_of)
        nl.store(picked[1], selected)
        return out, picked

    x, y = data(ROWS, COLUMNS), data(ROWS, COLUMNS)
    (sums, most, chosen), (either, selected) = both(kernel, x, y)
    np.testing.assert_allclose(sums, (x * x).sum(1, keepdims=True), rtol=1e-5)
    assert (most == 2 * x.max(1, keepdims=True)).all()
    assert (either == np.maximum(x, y)).all()
    want = np.where(x > y, x, -7)
    assert (selected == want).all()
    assert (chosen == want.max(1, keepdims=True)).all()


def test_shuffles_and_gathers(both: Any, data: Any) -> None:
    @nki.jit
    def kernel(x, index):
        out = nl.ndarray((32, COLUMNS), dtype=np.float32, buffer=nl.shared_hbm)
        picked = nl.ndarray((32, 32), dtype=np.float32, buffer=nl.shared_hbm)
        tile, turned = nl.load(x), nl.ndarray(x.shape, dtype=np.float32)
        nisa.nc_stream_shuffle(tile, turned, [31 - i for i in range(32)])
        nl.store(out, turned)
        nl.store(picked, nisa.local_gather(tile, nl.load(index)))
        return out, picked

    x = data(32, COLUMNS)
    index = np.random.default_rng(3).integers(0, COLUMNS, (32, 2)).astype(np.uint16)
    out, picked = both(kernel, x, index)
    assert (out == x[::-1]).all()
    lists = [index[group * 16 : group * 16 + 16].T.reshape(-1) for group in range(2)]
    assert (picked == np.stack([x[p, lists[p // 16]] for p in range(32)])).all()


def test_dma_between_any_two_places(both: Any, data: Any) -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=nl.bfloat16, buffer=nl.shared_hbm)
        tile = nl.ndarray(x.shape, dtype=np.float32)
        nisa.dma_copy(dst=tile, src=x)
        nisa.dma_copy(dst=out, src=tile, dge_mode=nisa.dge_mode.swdge)
        return out

    x = data(8, 8)
    assert (both(kernel, x) == x.astype(nl.bfloat16)).all()


def test_operands_with_as_many_elements_in_other_shapes(both: Any, data: Any) -> None:
    """Instructions count the elements of a partition; dimensions of size 1 are not repeated."""

    @nki.jit
    def kernel(a, b):
        out = nl.ndarray((3, 8, 6), dtype=np.float32, buffer=nl.shared_hbm)
        row = nl.ndarray((8, 6, 1), dtype=np.float32)
        row[:, :, 0] = nl.load(a)
        other = nl.load(b)
        nl.store(out[0], nisa.tensor_tensor(row, other, np.maximum))
        nl.store(out[1], nisa.scalar_tensor_tensor(data=other, op0=np.multiply, operand0=2.0, op1=np.add, operand1=row))
        nl.store(out[2], nisa.tensor_tensor_scan(row, other[:, ::1], 0.0, np.multiply, np.add))
        return out

    a, b = data(8, 6), data(8, 6)
    scan = np.zeros((8, 6), np.float32)
    for f in range(6):
        scan[:, f] = a[:, f] * (scan[:, f - 1] if f else 0) + b[:, f]
    np.testing.assert_allclose(both(kernel, a, b), np.stack([np.maximum(a, b), 2 * b + a, scan]), rtol=1e-5, atol=1e-6)


def test_an_assignment_of_a_tile_with_other_dimensions(data: Any) -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray((4, 6), dtype=np.float32, buffer=nl.shared_hbm)
        tile = nl.ndarray((4, 6), dtype=np.float32)
        tile[...] = nl.copy(nl.load(x))
        nl.store(out, tile)
        return out

    with pytest.raises(NkiError, match=r"assignment: 'copy' \(1, 4, 6\) cannot be repeated to 'tile' \(4, 6\)"):
        kernel(data(1, 4, 6))


def test_rows_at_which_no_engine_starts(both: Any, data: Any) -> None:
    """Results and operands in any row: tiles in between are moved by DMA."""

    @nki.jit
    def kernel(x, y):
        out = nl.ndarray((6, 8), dtype=np.float32, buffer=nl.shared_hbm)
        tile, column, rows = nl.load(x), nl.load(y), nl.zeros((6, 8), np.float32)
        rows[1:2, :] = nl.transpose(column)
        rows[2:3, 0:1] = nl.max(tile[3:4, :], axis=1, keepdims=True)
        rows[3:4, :] = nisa.tensor_partition_reduce(np.add, tile)
        rows[4:5, :] = nisa.max8(src=tile[0:1, :])
        rows[5:6, 0:8] = nisa.iota(nl.arange(8)[None, :], dtype=np.float32)
        rows[0:1, :] = nl.transpose(nl.copy(nl.transpose(tile[1:2, :])))
        nl.store(out, nl.add(rows, nl.zeros((6, 8), np.float32) + tile[3:4, :].broadcast_to((6, 8))))
        return out

    x, y = data(4, 8), data(8, 1)
    want = np.zeros((6, 8), np.float32)
    want[0], want[1], want[2, 0], want[3] = x[1], y[:, 0], x[3].max(), x.sum(0, dtype=np.float32)
    want[4], want[5] = np.sort(x[0])[::-1], np.arange(8)
    want += x[3]
    np.testing.assert_allclose(both(kernel, x, y), want, rtol=1e-5, atol=1e-6)


@nki.jit
def turned_in_quarters(x, way="nc_transpose"):
    """Four blocks of 128 columns, transposed into one bank of float32, which one copy takes out."""
    result = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    turned = nl.ndarray((nl.par_dim(128), 512), dtype=nl.float32, buffer=nl.psum)
    identity = nl.shared_constant(np.identity(128, np.int8), dtype=nl.bfloat16)
    unit = nl.load(identity)
    for i in nl.affine_range(4):
        block, to = tile[:, nl.ds(128 * i, 128)], nl.ds(128 * i, 128)
        if way == "nc_transpose":
            turned[:, to] = nisa.nc_transpose(block)
        else:
            turned[:, to] = nisa.nc_matmul(block, unit, is_transpose=True)
    nl.store(result, nl.copy(turned, dtype=x.dtype))
    return result


@pytest.mark.parametrize("way", ["nc_transpose", "nc_matmul"])
def test_products_with_an_identity_write_float32_to_psum_without_a_copy(monkeypatch: Any, both: Any, way: str) -> None:
    """Results of nc_matmul are float32. So is what nc_transpose leaves on trn1, where the array multiplies by an
    identity; the array of trn2 moves bfloat16 as it is.
    """
    copies: dict[str, int] = {}
    for target in ("trn1", "trn2"):
        program = predict(turned_in_quarters, target=target)(ShapeDtype((128, 512), "bfloat16"), way=way).program
        copies[target] = sum(inst.mnemonic == "tensor_copy" for inst in program.core.numbered)
    assert copies == {"trn1": 1, "trn2": 5 if way == "nc_transpose" else 1}
    x = np.random.default_rng(2).standard_normal((128, 512)).astype(nl.bfloat16)
    for target in ("trn1", "trn2"):
        monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", target)
        turned = both(turned_in_quarters, x, way=way)
        assert all((turned[:, c : c + 128] == x[:, c : c + 128].T).all() for c in range(0, 512, 128))


@nki.jit
def turned_by_dma(x, way="load_transpose2d", dtype=None):
    """The rows of ``x`` as the columns of a tile, which is stored."""
    result = nl.ndarray(x.shape[::-1], dtype=dtype or x.dtype, buffer=nl.shared_hbm)
    if way == "from SBUF":
        nl.store(result, nisa.dma_transpose(nl.load(x), dtype=dtype))
    else:
        nl.store(result, getattr(nl if way == "load_transpose2d" else nisa, way)(x, dtype=dtype))
    return result


@pytest.mark.parametrize("way", ["load_transpose2d", "dma_transpose", "from SBUF"])
@pytest.mark.parametrize(
    ("dtype", "into", "middle"),
    [
        ("bfloat16", None, ["dma_transpose"]),
        ("float32", None, ["dma_transpose"]),
        ("float32", "bfloat16", ["dma_transpose", "tensor_copy"]),
        ("bfloat16", "float32", ["dma_transpose", "tensor_copy"]),
        ("int8", None, ["dma_copy"]),
        ("int8", "float32", ["dma_copy"]),
    ],
)
def test_transposes_are_those_of_the_dma_engines(
    monkeypatch: Any, both: Any, way: str, dtype: str, into: str | None, middle: list[str]
) -> None:
    """Of elements of 2 or 4 bytes, which an engine converts afterwards; others move one by one, from HBM."""
    x = np.random.default_rng(3).integers(-9, 9, (48, 32)).astype(getattr(nl, dtype))
    if way == "from SBUF":
        middle = ["dma_copy", *(["dma_copy"] if dtype == "int8" else []), *middle]
    for target in ("trn1", "trn2", "trn3"):
        program = predict(turned_by_dma, target=target)(ShapeDtype(x.shape, dtype), way=way, dtype=into).program
        assert [inst.mnemonic for inst in program.core.numbered] == [*middle, "dma_copy"]
        monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", target)
        assert (both(turned_by_dma, x, way=way, dtype=into).astype(np.float32) == x.T.astype(np.float32)).all()


@nki.jit
def turned_in_part(x):
    """The first 40 rows of ``x`` as columns of a tile of ones, and all of a tile in SBUF behind a mask."""
    result = nl.ndarray((2, *x.shape[::-1]), dtype=nl.bfloat16, buffer=nl.shared_hbm)
    tile = nl.ones((nl.par_dim(32), 48), dtype=nl.bfloat16)
    row, column = nl.mgrid[0:48, 0:32]
    back, across = nl.mgrid[0:32, 0:48]
    tile[back, across] = nl.load_transpose2d(x[row, column], mask=row < 40, dtype=nl.bfloat16)
    nl.store(result[0], tile)
    other = nl.ones((nl.par_dim(32), 48), dtype=nl.bfloat16)
    other[...] = nisa.dma_transpose(nl.load(x), dtype=nl.bfloat16)
    nl.store(result[1], other)
    return result


def test_transposes_that_convert_keep_what_a_mask_leaves_out(both: Any) -> None:
    x = np.random.default_rng(3).integers(-9, 9, (48, 32)).astype(np.float32)
    part, whole = both(turned_in_part, x).astype(np.float32)
    assert (part[:, :40] == x.T[:, :40]).all()
    assert (whole == x.T).all()


@pytest.mark.parametrize("swapped", [False, True])
def test_a_comparison_with_a_column_of_integers_streams_one_tile(both: Any, swapped: bool) -> None:
    """As with a column of floats: the reference sends operands that repeat to nisa.tensor_scalar. Both sides are
    float32 there, as in nisa.tensor_tensor: 2**24 equals 2**24 + 1.
    """

    @nki.jit
    def kernel(x, labels):
        out = nl.ndarray(x.shape, dtype=nl.uint8, buffer=nl.shared_hbm)
        sides = nl.load(x), nl.load(labels)
        nl.store(out, nl.copy(nl.less_equal(*(sides[::-1] if swapped else sides)), dtype=nl.uint8))
        return out

    x = np.arange(16 * 128, dtype=np.int32).reshape(16, 128) % 131 + 2**24 - 64
    labels = np.arange(16, dtype=np.int32)[:, None] + 2**24 - 4
    tile, column = x.astype(np.float32), labels.astype(np.float32)
    np.testing.assert_array_equal(both(kernel, x, labels), column <= tile if swapped else tile <= column)
    counts = predict(kernel, target="trn1")(x, labels).by_instruction
    assert "tensor_tensor" not in counts and counts["tensor_scalar"].executions == 1


@pytest.mark.parametrize("column", [False, True])
@pytest.mark.parametrize("op", ["add", "maximum"])
def test_a_cumulative_operation_goes_on_from_the_last_one(both: Any, data: Any, op: str, column: bool) -> None:
    @nki.jit
    def kernel(x, start):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile, dst = nl.load(x), nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        first = nl.load(start) if column else np.float32(0.5)
        for command in (nisa.reduce_cmd.load_reduce, nisa.reduce_cmd.reduce):
            nisa.tensor_scalar_cumulative(
                src=tile, dst=dst, op0=np.add, op1=getattr(nl, op), imm0=np.float32(1.0),
                imm1=first if command is nisa.reduce_cmd.load_reduce else None, reduce_cmd=command,
            )  # fmt: skip
        nl.store(out, value=dst)
        return out

    x, start = data(ROWS, COLUMNS), np.full((ROWS, 1), 0.5, np.float32)
    twice = np.concatenate([start, x + 1, x + 1], axis=1)
    expected = getattr(np, op).accumulate(twice, axis=1)[:, 1 + COLUMNS :]
    np.testing.assert_allclose(both(kernel, x, start), expected, rtol=1e-5)
