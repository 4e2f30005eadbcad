"""Sums of expressions that nothing else reads: no tile in scratch memory, and the bits of the simulator."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.backend.cpu.fusion.group import FusionGroup
from nki.backend.cpu.kernel_ir.lower import lower
from nki.backend.cpu.kernel_ir.nodes import SCRATCH, Assign, LoopStatement, Reduce, flat
from nki.backend.cpu.runtime import routines
from nki.backend.cpu.runtime.routines import routine_key
from nki.compilation import executable
from tests.support.both_executors import both, numbers

SHAPES = [(128, 512), (17, 488), (1, 100), (16, 9), (33, 7), (128, 1), (100, 255), (2, 64), (61, 81)]


def statistics(x):
    """[p, 6], by row."""
    out = nl.ndarray((x.shape[0], 6), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray((x.shape[0], 6), dtype=nl.float32, buffer=nl.sbuf)
    nisa.bn_stats(tile, nl.load(x))
    nisa.dma_copy(out, tile)
    return out


def squares(x):
    """[p, 1]: the sum of squares, whose squares are a result, too."""
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    total = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    column = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation_reduce(tile, nl.square, nl.load(x), reduce_op=nl.add, reduce_res=column)
    nisa.dma_copy(out, tile)
    nisa.dma_copy(total, column)
    return out, total


def statements(kernel: Any, x: Any, mnemonic: str) -> list[LoopStatement]:
    insts = nki.jit(kernel).compile(x).kernel.core.instructions()
    (inst,) = (inst for inst in insts if inst.mnemonic == mnemonic)
    return lower(inst, ()).statements


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_statistics(shape: tuple[int, int], dtype: Any) -> None:
    x = numbers(*shape)
    x[0, -1], x[-1, 0] = np.inf, -0.0
    both(statistics, x.astype(dtype))
    both(squares, x)


def test_deviations_are_not_stored() -> None:
    lowered = statements(statistics, numbers(128, 512), "bn_stats")
    sums = [statement for statement in flat(lowered) if isinstance(statement, Reduce)]
    assert [statement.value.kind for statement in sums] == ["load", "load", "alu", "alu"]
    assert not [s for s in flat(lowered) if isinstance(s, Assign) and s.target.base == SCRATCH]


def test_results_are_stored_and_read() -> None:
    lowered = statements(squares, numbers(128, 512), "activation_reduce")
    (total,) = (statement for statement in flat(lowered) if isinstance(statement, Reduce))
    assert total.value.kind == "load"


@pytest.mark.parametrize("columns", [16, 17, 31, 33, 77, 130])
@pytest.mark.parametrize("op", [nl.maximum, nl.minimum])
def test_extremes_of_rows_that_end_within_a_vector(columns: int, op: Any) -> None:
    def extremes(x):
        out = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.shared_hbm)
        tile = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(tile, op, nl.load(x), axis=1)
        nisa.dma_copy(out, tile)
        return out

    x = numbers(64, columns)
    for row in range(columns if columns < 60 else 60):
        x[row, row] = (np.nan, 9.0, -9.0, np.inf, -np.inf)[row % 5]
    x[60:] = 0.0
    x[61, ::2] = x[62, -1] = x[63, 0] = -0.0
    both(extremes, x)


def tile_like(tile, columns, dtype=nl.float32):
    return nl.ndarray((tile.shape[0], columns), dtype=dtype, buffer=nl.sbuf)


def root_of_mean_square(x):
    """x / sqrt(sum of squares), [p, f]: nobody but the sum reads the squares."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    squares, total = tile_like(tile, x.shape[1]), tile_like(tile, 1)
    nisa.tensor_tensor(squares, tile, tile, nl.multiply)
    nisa.tensor_reduce(total, nl.add, squares, axis=1)
    nisa.activation(total, nl.rsqrt, total)
    nisa.tensor_scalar(tile, tile, nl.multiply, total)
    nl.store(out, tile)
    return out


def softmax(x):
    """[p, f], without a division: the sum and others read the exponentials, which are rounded to the dtype of x."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    top, total = tile_like(tile, 1), tile_like(tile, 1)
    difference, powers = tile_like(tile, x.shape[1]), tile_like(tile, x.shape[1], x.dtype)
    nisa.tensor_reduce(top, nl.maximum, tile, axis=1)
    nisa.tensor_scalar(difference, tile, nl.subtract, top)
    nisa.activation(powers, nl.exp, difference)
    nisa.tensor_reduce(total, nl.add, powers, axis=1, negate=True)
    nisa.reciprocal(total, total)
    nisa.tensor_scalar(powers, powers, nl.multiply, total)
    nl.store(out, powers)
    return out


def riding(kernel: Any, *arguments: Any) -> list[FusionGroup]:
    """The chains of a kernel that end in a sum."""
    fused = executable.lower(nki.jit(kernel).compile(*arguments).kernel)
    chains = [inst for inst in fused.instructions() if isinstance(inst, FusionGroup)]
    return [chain for chain in chains if chain.parts[-1].mnemonic == "tensor_reduce"]


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
@pytest.mark.parametrize("shape", [(128, 512), (128, 300), (16, 32), (64, 129), (48, 47), (33, 64), (128, 31)], ids=str)
def test_sums_ride_along(shape: tuple[int, int], dtype: Any) -> None:
    x = numbers(*shape).astype(dtype)
    x[0, -1], x[1, 0], x[2, 3], x[3] = np.inf, np.nan, -np.inf, -0.0
    rides = shape[0] % 16 == 0 and shape[1] >= 32
    for kernel, written in ((root_of_mean_square, [(shape[0], 1)]), (softmax, [shape, (shape[0], 1)])):
        assert [[access.shape for access in chain.written] for chain in riding(kernel, x)] == [written] * rides
    with np.errstate(all="ignore"):
        both(root_of_mean_square, x)
        both(softmax, x)


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.float16])
@pytest.mark.parametrize("columns", [32, 64, 95, 200])
def test_exponentials_of_any_size_ride_along(columns: int, dtype: Any) -> None:
    """Of some pairs of vectors all results are normal numbers, of others one is zero, subnormal, infinite or NaN."""

    def kernel(x):
        out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
        tile, top, total = nl.load(x), tile_like(nl.load(x), 1), tile_like(nl.load(x), 1)
        difference, powers = tile_like(tile, x.shape[1]), tile_like(tile, x.shape[1], x.dtype)
        result = tile_like(tile, x.shape[1])
        nisa.tensor_reduce(top, nl.minimum, tile, axis=1)
        nisa.tensor_scalar(difference, tile, nl.add, 0.5)
        nisa.activation(powers, nl.exp, difference)
        nisa.tensor_tensor(result, powers, difference, nl.add)
        nisa.tensor_reduce(total, nl.add, powers, axis=1)
        nisa.scalar_tensor_tensor(result, result, nl.multiply, total, nl.add, powers)
        nl.store(out, result)
        return out

    x = numbers(64, columns)
    for row, number in enumerate((-150.0, -87.4, -88.5, -103.0, 88.0, 89.0, np.inf, -np.inf, np.nan, -np.nan)):
        x[row, row::33] = number
        x[16 + row, -1 - row] = number
    x = x.astype(dtype)
    assert riding(kernel, x)
    with np.errstate(all="ignore"):
        both(kernel, x)


def scratch_of(chain: FusionGroup) -> int:
    """The bytes of scratch memory of a chain's routine."""
    (routine,) = routines.compile_routines({routine_key(chain): chain}, None)
    return routine.scratch


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
@pytest.mark.parametrize("columns", [32, 33, 39, 40, 63, 71, 200, 333])
def test_a_sum_that_alone_wants_what_a_chain_computes_needs_no_chunks(columns: int, dtype: Any) -> None:
    x = numbers(64, columns).astype(dtype)
    x[0, -1], x[1, 0], x[2, 3], x[3] = np.inf, np.nan, -np.inf, -0.0
    (chain,) = riding(root_of_mean_square, x)
    assert scratch_of(chain) == 4 * 64  # the sums
    (other,) = riding(softmax, x)  # its exponentials are read again
    assert scratch_of(other) > 4 * 16 * min(columns, 128)
    with np.errstate(all="ignore"):
        both(root_of_mean_square, x)
        both(softmax, x)


def sum_of_exponentials(x):
    """[p, 1]: the logarithm of the sum of exponentials, which are rounded to the dtype of x and nobody else reads."""
    out = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.load(x)
    difference, powers, total = tile_like(tile, x.shape[1]), tile_like(tile, x.shape[1], x.dtype), tile_like(tile, 1)
    nisa.tensor_scalar(difference, tile, nl.subtract, 0.25)
    nisa.activation(powers, nl.exp, difference)
    nisa.tensor_reduce(total, nl.add, powers, axis=1)
    nisa.activation(total, nl.log, total)
    nl.store(out, total)
    return out


def sum_of_choice(x):
    """[p, 1]: the sum of the positive elements, as they are."""
    out = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.load(x)
    chosen, positive = tile_like(tile, x.shape[1], x.dtype), tile_like(tile, x.shape[1], nl.uint8)
    total = tile_like(tile, 1)
    nisa.tensor_scalar(positive, tile, nl.greater, 0.0)
    nisa.memset(chosen, 0.0)
    nisa.tensor_copy_predicated(chosen, tile, positive)
    nisa.tensor_reduce(total, nl.add, chosen, axis=1)
    nl.store(out, total)
    return out


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
@pytest.mark.parametrize("columns", [32, 33, 39, 40, 63, 71, 136, 200, 263, 333])
def test_sums_of_exponentials_and_of_choices_have_chunks(columns: int, dtype: Any) -> None:
    """Chunks of bfloat16 are pairs of columns; what is left over may be half of one."""
    x = numbers(64, columns).astype(dtype)
    x[0, -1], x[1, 0], x[2, 3], x[3], x[4, 1], x[5, -1] = np.inf, np.nan, -np.inf, -0.0, -87.6, 88.9
    for kernel in (sum_of_exponentials, sum_of_choice):
        (chain,) = riding(kernel, x)
        # Two chunks of 16 rows and 128 columns, and the sums.
        assert scratch_of(chain) == 4 * 64 + 2 * 16 * 128 * (2 if dtype is ml_dtypes.bfloat16 else 4)
        with np.errstate(all="ignore"):
            both(kernel, x)


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_sums_of_what_is_read_as_it_is_and_rounded(dtype: Any) -> None:
    """The tile is read twice, once through a cast; products with two tiles keep their chunks."""

    def kernel(x, y):
        out = nl.ndarray((x.shape[0], 3), dtype=nl.float32, buffer=nl.shared_hbm)
        tile, other, result = nl.load(x), nl.load(y), tile_like(nl.load(x), 3)
        for number, source in enumerate((tile, other, tile)):
            rounded, product = tile_like(tile, x.shape[1], nl.bfloat16), tile_like(tile, x.shape[1])
            nisa.tensor_scalar(rounded, source, nl.multiply, 1.01)
            nisa.tensor_tensor(product, tile, rounded, nl.multiply if number < 2 else nl.maximum)
            nisa.tensor_reduce(result[:, number : number + 1], nl.add, product, axis=1)
        nl.store(out, result)
        return out

    x, y = numbers(48, 75).astype(dtype), numbers(2, 48, 75)[1].astype(dtype)
    x[5, 7] = np.nan
    assert [scratch_of(chain) == 4 * 48 for chain in riding(kernel, x, y)] == [True, False, True]
    both(kernel, x, y)


def test_a_sum_adds_what_was_written_last() -> None:
    def kernel(x):
        out = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.shared_hbm)
        tile, total = nl.load(x), tile_like(nl.load(x), 1)
        result = tile_like(tile, x.shape[1])
        nisa.tensor_scalar(result, tile, nl.multiply, 3.0)
        nisa.tensor_scalar(result, result, nl.add, 0.25)
        nisa.tensor_scalar(result, result, nl.multiply, 7.0)
        nisa.tensor_reduce(total, nl.add, result, axis=1)
        nl.store(out, total)
        return out

    x = numbers(32, 40)
    (chain,) = riding(kernel, x)
    assert scratch_of(chain) == 4 * 32
    both(kernel, x)


def test_a_long_expression_is_not_computed_in_the_sum() -> None:
    """Each instruction doubles the number of operands: without a limit the expression would have 1024."""

    def kernel(x):
        out = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.shared_hbm)
        tile, total = nl.load(x), tile_like(nl.load(x), 1)
        for _ in range(10):
            twice = tile_like(tile, x.shape[1])
            nisa.tensor_tensor(twice, tile, tile, nl.add)
            tile = twice
        nisa.tensor_reduce(total, nl.add, tile, axis=1)
        nl.store(out, total)
        return out

    x = numbers(32, 40)
    (chain,) = riding(kernel, x)
    assert scratch_of(chain) > 4 * 32
    both(kernel, x)


def test_other_reductions_do_not_ride() -> None:
    def kernel(x):
        out = nl.ndarray((x.shape[0], 4), dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)
        twice, result = tile_like(tile, x.shape[1]), tile_like(tile, 4)
        columns = x.shape[1]
        nisa.tensor_scalar(twice, tile, nl.multiply, 2.0)
        nisa.tensor_reduce(result[:, 0:1], nl.maximum, twice, axis=1)
        nisa.tensor_scalar(twice, tile, nl.multiply, 3.0)
        nisa.tensor_reduce(result[:, 1:2], nl.add, twice[:, : columns // 2], axis=1)
        nisa.tensor_scalar(twice, tile, nl.multiply, 4.0)
        nisa.tensor_reduce(result[:, 2:3], nl.add, tile, axis=1)
        nisa.tensor_scalar(twice, tile, nl.multiply, 5.0)
        nisa.tensor_reduce(twice[:, 3:4], nl.add, twice, axis=1)
        nisa.tensor_copy(result[:, 3:4], twice[:, 3:4])
        nl.store(out, result)
        return out

    x = numbers(128, 64)
    assert not riding(kernel, x)
    both(kernel, x)


def test_a_sum_may_take_the_place_of_a_column_that_its_chain_reads() -> None:
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)
        column, difference = tile_like(tile, 1), tile_like(tile, x.shape[1])
        nisa.tensor_reduce(column, nl.maximum, tile, axis=1)
        nisa.tensor_scalar(difference, tile, nl.subtract, column)
        nisa.tensor_reduce(column, nl.add, difference, axis=1)
        nisa.tensor_scalar(tile, tile, nl.multiply, column)
        nl.store(out, tile)
        return out

    x = numbers(128, 300)
    (chain,) = riding(kernel, x)
    assert [access.shape for access in chain.changed] == [(128, 1)] and not chain.written
    both(kernel, x)


def test_a_sum_that_nobody_reads_has_its_memory() -> None:
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)
        powers, total = tile_like(tile, x.shape[1]), tile_like(tile, 1)
        nisa.activation(powers, nl.exp, tile)
        nisa.tensor_reduce(total, nl.add, powers, axis=1)
        nl.store(out, powers)
        return out

    x = numbers(128, 64)
    assert [[access.shape for access in chain.written] for chain in riding(kernel, x)] == [[x.shape, (128, 1)]]
    both(kernel, x)
