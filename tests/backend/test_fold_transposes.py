"""Transpositions write stationary operands directly where that changes nothing that anyone can see."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.backend.cpu.native import library
from nki.compilation.executable import lower
from nki.ir.instruction import Inst
from nki.ir.program import Program
from nki.numerics.layouts import PAIR_COLUMNS
from nki.numerics.matmul.host import bf16_unit
from tests.support.both_executors import both, numbers
from tests.support.kernel_parts import stored
from tests.support.shared_launches import launched, shared

__all__ = ["shared"]


def _turned(tile, dtype=None):
    spread = nl.ndarray((tile.shape[1], tile.shape[0]), dtype=tile.dtype, buffer=nl.psum)
    nisa.nc_transpose(spread, tile)
    result = nl.ndarray(spread.shape, dtype=dtype or tile.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(result, spread)
    return result


def product(left, right):
    """exp(left) @ right: [M, K] and [K, N]."""
    weights = nl.ndarray(left.shape, dtype=left.dtype, buffer=nl.sbuf)
    nisa.activation(weights, nl.exp, nl.load(left))
    total = nl.ndarray((left.shape[0], right.shape[1]), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(total, _turned(weights), nl.load(right))
    return stored(total)


def read_by_another(left, right):
    """The tile that the product reads is a result, too."""
    tile = _turned(nl.load(left))
    total = nl.ndarray((left.shape[0], right.shape[1]), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(total, tile, nl.load(right))
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, tile)
    return stored(total), out


def moving(left, right):
    """The turned tile is the moving operand."""
    total = nl.ndarray((right.shape[1], left.shape[0]), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(total, nl.load(right), _turned(nl.load(left)))
    return stored(total)


def converted(left, right):
    """The copy rounds to bfloat16."""
    total = nl.ndarray((left.shape[0], right.shape[1]), dtype=nl.float32, buffer=nl.psum)
    narrow = nl.ndarray(right.shape, dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.tensor_copy(narrow, nl.load(right))
    nisa.nc_matmul(total, _turned(nl.load(left), nl.bfloat16), narrow)
    return stored(total)


def written_twice(left, right):
    """The tile holds another operand first."""
    rows, depth = left.shape
    total = nl.ndarray((rows, right.shape[1]), dtype=nl.float32, buffer=nl.psum)
    tile = nl.ndarray((depth, rows), dtype=left.dtype, buffer=nl.sbuf)
    nisa.memset(tile, 0.5)
    spread = nl.ndarray((depth, rows), dtype=left.dtype, buffer=nl.psum)
    nisa.nc_transpose(spread, nl.load(left))
    nisa.nc_matmul(total, tile, nl.load(right))
    nisa.tensor_copy(tile, spread)
    nisa.nc_matmul(total, tile, nl.load(right))
    return stored(total)


def in_a_loop(left, right):
    """The copy runs on the device again and again."""
    rows, depth = left.shape
    total = nl.ndarray((rows, right.shape[1]), dtype=nl.float32, buffer=nl.psum)
    tile = nl.ndarray((depth, rows), dtype=left.dtype, buffer=nl.sbuf)
    source = nl.load(left)
    spread = nl.ndarray((depth, rows), dtype=left.dtype, buffer=nl.psum)
    nisa.nc_transpose(spread, source)

    def body(_):
        nisa.tensor_copy(tile, spread)

    nl.fori_loop(0, 2, body)
    nisa.nc_matmul(total, tile, nl.load(right))
    return stored(total)


def ordered(left, right):
    """The user has asked for an order of the copy."""
    total = nl.ndarray((left.shape[0], right.shape[1]), dtype=nl.float32, buffer=nl.psum)
    spread = nl.ndarray((left.shape[1], left.shape[0]), dtype=left.dtype, buffer=nl.psum)
    turn = nisa.nc_transpose(spread, nl.load(left))
    tile = nl.ndarray(spread.shape, dtype=left.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(tile, spread).depends_on(turn)
    nisa.nc_matmul(total, tile, nl.load(right))
    return stored(total)


def _side_by_side(weights, count):
    """Blocks of columns, each transposed, beside each other in one tile: [width, count, rows]."""
    rows, width = weights.shape[0], weights.shape[1] // count
    spread = nl.ndarray((width, count, rows), dtype=weights.dtype, buffer=nl.psum)
    for n in range(count):
        nisa.nc_transpose(spread[:, n, :], weights[:, n * width : (n + 1) * width])
    tile = nl.ndarray(spread.shape, dtype=weights.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(tile, spread)
    return tile


def heads(left, right, count=3):
    """exp(left) @ right, block by block of columns; the last product takes half of the partitions only."""
    weights = nl.ndarray(left.shape, dtype=left.dtype, buffer=nl.sbuf)
    nisa.activation(weights, nl.exp, nl.load(left))
    tile = _side_by_side(weights, count)
    width, rows = tile.shape[0], tile.shape[2]
    total = nl.ndarray((rows, right.shape[1]), dtype=nl.float32, buffer=nl.psum)
    for n in range(count):
        part = nl.load(right[n * width : (n + 1) * width])
        depth = width if n < count - 1 else width // 2
        nisa.nc_matmul(total, tile[0:depth, n, :], part[0:depth], accumulate=n > 0)
    return stored(total)


def across_heads(left, right):
    """The product reads columns of both transpositions."""
    tile = _side_by_side(nl.load(left), 2)
    width, rows = tile.shape[0], tile.shape[2]
    total = nl.ndarray((rows, right.shape[1]), dtype=nl.float32, buffer=nl.psum)
    both_heads = tile.reshape((width, 2 * rows))
    nisa.nc_matmul(total, both_heads[:, rows // 2 : rows // 2 + rows], nl.load(right[0:width]))
    return stored(total)


def turned_over_another(left, right):
    """The second transposition writes half of the columns again."""
    weights = nl.load(left)
    rows, width = left.shape[0], left.shape[1] // 2
    spread = nl.ndarray((width, 2 * rows), dtype=left.dtype, buffer=nl.psum)
    for n, column in enumerate((0, rows // 2, rows)):
        nisa.nc_transpose(spread[:, column : column + rows], weights[:, n * width // 2 : n * width // 2 + width])
    tile = nl.ndarray(spread.shape, dtype=left.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(tile, spread)
    total = nl.ndarray((rows, right.shape[1]), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(total, tile[:, 0:rows], nl.load(right[0:width]))
    return stored(total)


def lowered(kernel: Any, *arguments: Any) -> Program:
    return lower(nki.jit(kernel).compile(*arguments).kernel, "gather_scatter")


def copies(program: Program) -> int:
    """The copies from PSUM of transposed elements."""
    insts: list[Inst] = list(program.core.instructions())
    turned = {turn.dst.tensor for inst in insts if (turn := inst.as_transposition())}
    return sum((copy := inst.as_copy()) is not None and copy.src.tensor in turned for inst in insts)


@pytest.mark.parametrize("shape", [(128, 128, 512), (100, 77, 33), (17, 128, 40), (3, 5, 7), (128, 128, 3)])
def test_the_copy_goes(shape: tuple[int, int, int]) -> None:
    rows, depth, columns = shape
    left, right = numbers(rows, depth), numbers(depth, columns)
    assert copies(lowered(product, left, right)) == 0
    both(product, left, right)


@pytest.mark.parametrize("kernel", [read_by_another, moving, converted, written_twice, in_a_loop, ordered])
def test_the_copy_stays(kernel: Any) -> None:
    left, right = numbers(64, 96), numbers(96, 128)
    assert copies(lowered(kernel, left, right)) == 1
    both(kernel, left, right)


@pytest.mark.parametrize("shape", [(128, 384, 512), (100, 231, 33), (64, 192, 32), (5, 12, 7)])
def test_the_copy_of_several_transpositions_goes(shape: tuple[int, int, int], shared: pytest.MonkeyPatch) -> None:
    rows, depth, columns = shape
    left, right = numbers(rows, depth), numbers(depth, columns)
    assert copies(lowered(heads, left, right)) == 0
    expected = both(heads, left, right)
    for outputs in launched(nki.jit(heads).compile(left, right).kernel, [left, right], shared):
        assert outputs == [expected.tobytes()]


def test_several_transpositions_and_their_products_are_one_region() -> None:
    executable = nki.jit(heads).compile(numbers(128, 384), numbers(384, 128))
    (core,) = executable.linked.cores
    assert core.table[: core.entries, 0].tolist() == [library.address("region")]


@pytest.mark.parametrize("kernel", [across_heads, turned_over_another])
def test_the_copy_of_several_transpositions_stays(kernel: Any) -> None:
    left, right = numbers(64, 192), numbers(192, 128)
    assert copies(lowered(kernel, left, right)) == 1
    both(kernel, left, right)


def test_threads_meet_nowhere_between_softmax_and_product(shared: pytest.MonkeyPatch) -> None:
    """One region holds everything, and its bits are those of the simulator on any number of threads."""
    left, right = numbers(128, 128), numbers(128, 64)
    executable = nki.jit(product).compile(left, right)
    (core,) = executable.linked.cores
    assert core.table[: core.entries, 0].tolist() == [library.address("region")]
    expected = both(product, left, right)
    for outputs in launched(executable.kernel, [left, right], shared):
        assert outputs == [expected.tobytes()]


def overwritten(left, right):
    """What is transposed gets other contents before the product."""
    weights = nl.ndarray(left.shape, dtype=left.dtype, buffer=nl.sbuf)
    nisa.activation(weights, nl.exp, nl.load(left))
    tile = _turned(weights)
    nisa.memset(weights, 1.0)
    total = nl.ndarray((left.shape[0], right.shape[1]), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(total, tile, nl.load(right))
    return stored(total), _product_of(weights, right)


def _product_of(weights, right):
    total = nl.ndarray((weights.shape[0], right.shape[1]), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(total, _turned(weights), nl.load(right))
    return stored(total)


def transpositions(program: Program) -> int:
    return sum(inst.as_transposition() is not None for inst in program.core.instructions())


def bfloat16(*shape: int) -> Any:
    return numbers(*shape).astype(ml_dtypes.bfloat16)


@pytest.mark.skipif(bf16_unit() is None, reason="the processor does not multiply words")
@pytest.mark.parametrize("shape", [(128, 128, 512), (64, 96, 33), (32, 128, 40), (128, 32, 7)])
def test_tile_registers_read_what_was_not_transposed(shape: tuple[int, int, int], shared: pytest.MonkeyPatch) -> None:
    rows, depth, columns = shape
    left, right = bfloat16(rows, depth), bfloat16(depth, columns)
    left[3] = (numbers(depth) * np.float32(2.0**-80)).astype(ml_dtypes.bfloat16)
    right[5] = (numbers(columns) * np.float32(2.0**-70)).astype(ml_dtypes.bfloat16)
    assert transpositions(lowered(product, left, right)) == 0
    expected = both(product, left, right)
    for outputs in launched(nki.jit(product).compile(left, right).kernel, [left, right], shared):
        assert outputs == [expected.tobytes()]


@pytest.mark.skipif(bf16_unit() is None, reason="the processor does not multiply words")
def test_tile_registers_read_several_blocks_that_were_not_transposed(shared: pytest.MonkeyPatch) -> None:
    left, right = bfloat16(128, 384), bfloat16(384, 96)
    assert transpositions(lowered(heads, left, right)) == 0
    expected = both(heads, left, right)
    for outputs in launched(nki.jit(heads).compile(left, right).kernel, [left, right], shared):
        assert outputs == [expected.tobytes()]


@pytest.mark.parametrize("shape", [(128, 100, 512), (48, 96, 64), (128, 128, 1)])
def test_what_does_not_fit_tile_registers_is_transposed(shape: tuple[int, int, int]) -> None:
    rows, depth, columns = shape
    left, right = bfloat16(rows, depth), bfloat16(depth, columns)
    assert transpositions(lowered(product, left, right)) == 1
    both(product, left, right)


def test_what_is_overwritten_is_transposed() -> None:
    """For tile registers it is packed instead, before others write it; what stays is read as it is."""
    left, right = bfloat16(64, 96), bfloat16(96, 128)
    program = lowered(overwritten, left, right)
    writes = [write for inst in program.core.instructions() for write in inst.writes()]
    packed = [write for write in writes if write.tensor.layout is PAIR_COLUMNS]
    assert (transpositions(program), len(packed)) == ((2, 0) if bf16_unit() is None else (0, 1))
    both(overwritten, left, right)
