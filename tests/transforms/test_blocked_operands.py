"""Stationary operands of float32 lie in blocks where products alone read them, and the bits stay the simulator's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nki
import nki.isa as nisa
import nki.language as nl
from nki.backend.cpu.native import library
from nki.backend.cpu.runtime.link import link, listing
from nki.compiler.executable import lower
from nki.ir.instruction import Inst
from nki.numerics import matmul_entry
from nki.numerics.matmul import BLOCK
from nki.numerics.matmul_entry import columns_of_block
from nki.transforms import blocked_operands
from tests.support.both_executors import both, numbers
from tests.support.kernel_parts import stored
from tests.support.shared_launches import launched, shared

__all__ = ["shared"]

pytestmark = pytest.mark.skipif(columns_of_block() != BLOCK, reason="register tiles have no whole blocks of rows")


def _product(stationary, moving):
    total = nl.ndarray((stationary.shape[1], moving.shape[1]), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(total, stationary, moving)
    return stored(total)


def _left(array):
    """A load of the left half of an input, which is no tile of its own."""
    return nl.load(array[:, : array.shape[1] // 2])


def _turned(tile):
    """The transposed tile, by way of PSUM."""
    spread = nl.ndarray((tile.shape[1], tile.shape[0]), dtype=tile.dtype, buffer=nl.psum)
    nisa.nc_transpose(spread, tile)
    result = nl.ndarray(spread.shape, dtype=tile.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(result, spread)
    return result


def loaded(left, right):
    """A load fills the stationary tile; products read all of it, and some blocks."""
    a, b = _left(left), nl.load(right)
    return _product(a, b), _product(a[:, 4:40], b)


def transposed(left, right):
    """A transposition of what is computed fills the stationary tile."""
    turned = _turned(_left(left))
    tile = nl.ndarray(turned.shape, dtype=left.dtype, buffer=nl.sbuf)
    nisa.tensor_scalar(tile, turned, nl.multiply, 0.5)
    a, b = _turned(tile), nl.load(right)
    return _product(a, b), _product(a[:, 8:28], b)


def part_by_part(left, right):
    """Copies and a transposition fill parts of one stationary tile."""
    depth, columns = left.shape[0], left.shape[1] // 2
    a, b = nl.ndarray((depth, 2 * columns), dtype=left.dtype, buffer=nl.sbuf), nl.load(right)
    back = _turned(_left(left))
    nisa.tensor_copy(a[:, :columns], _left(left))
    spread = nl.ndarray((depth, columns), dtype=left.dtype, buffer=nl.psum)
    nisa.nc_transpose(spread, back)
    nisa.tensor_copy(a[:, columns:], spread)
    return _product(a[:, :columns], b), _product(a[:, columns:], b)


def also_moving(left, right):
    """One product reads the tile as its moving operand, too."""
    a, b = _left(left), nl.load(right)
    return _product(a, b), _product(b, a)


def also_added(left, right):
    """The Vector engine reads the tile, too."""
    a, b = _left(left), nl.load(right)
    nisa.tensor_scalar(b[:, :1], a[:, :1], nl.add, 1.0)
    return _product(a, b), _product(a, b)


def computed(left, right):
    """An activation writes the tile."""
    part = _left(left)
    a = nl.ndarray(part.shape, dtype=left.dtype, buffer=nl.sbuf)
    nisa.activation(a, nl.exp, part)
    return _product(a, nl.load(right)), _product(a, nl.load(right))


def odd_window(left, right):
    """A product reads columns that are no whole blocks."""
    a, b = _left(left), nl.load(right)
    return _product(a, b), _product(a[:, 2:38], b)


def in_blocks(kernel: Any, *arguments: Any) -> tuple[int, int]:
    """The instructions that fill tiles in blocks, and the products that read them."""
    insts: list[Inst] = list(lower(nki.jit(kernel).compile(*arguments).kernel, "gather_scatter").instructions())

    def count(accesses: Any) -> int:
        return sum(a.shape[-1] == BLOCK and a.strides[0] == BLOCK for inst in insts for a in accesses(inst))

    return count(lambda inst: inst.writes()), count(lambda inst: inst.reads())


@pytest.mark.parametrize(("kernel", "expected"), [(loaded, (1, 2)), (transposed, (1, 2)), (part_by_part, (2, 2))])
@pytest.mark.parametrize(("depth", "rows"), [(96, 64), (128, 128), (33, 44), (2, 48)])
def test_tiles_lie_in_blocks(
    kernel: Any, expected: tuple[int, int], depth: int, rows: int, shared: pytest.MonkeyPatch
) -> None:
    left, right = numbers(depth, 2 * rows), numbers(depth, 96)
    assert in_blocks(kernel, left, right) == expected
    results = [result.tobytes() for result in both(kernel, left, right)]
    for outputs in launched(nki.jit(kernel).compile(left, right).kernel, [left, right], shared):
        assert outputs == results


def one_by_one(left, right):
    """Loads of stationary tiles, each before its product, which adds to the one before and reads an input."""
    b = nl.load(right)
    total = nl.ndarray((44, right.shape[1]), dtype=nl.float32, buffer=nl.psum)
    for start in range(0, left.shape[1], 44):
        nisa.nc_matmul(total, nl.load(left[:, start : start + 44]), b)
    return stored(total)


def test_threads_do_not_meet_between_loads_and_products(shared: pytest.MonkeyPatch) -> None:
    """A thread loads the columns that its partitions of the product read: all run in one region."""
    left, right = numbers(100, 4 * 44), numbers(100, 96)
    assert in_blocks(one_by_one, left, right) == (4, 4)
    program = nki.jit(one_by_one).compile(left, right).kernel
    routines = link(lower(program)).cores[0].table[:, 0]
    assert np.count_nonzero(routines == library.address("region")) == 1
    results = [both(one_by_one, left, right).tobytes()]
    for outputs in launched(program, [left, right], shared):
        assert outputs == results


@pytest.mark.parametrize("kernel", [also_moving, also_added, computed, odd_window])
def test_tiles_with_other_readers_or_writers_stay(kernel: Any) -> None:
    left, right = numbers(96, 128), numbers(96, 96)
    assert in_blocks(kernel, left, right) == (0, 0)
    both(kernel, left, right)


@pytest.mark.parametrize(
    ("depth", "rows", "columns"),
    [(96, 62, 96), (96, 16, 96), (96, 64, 31), (1, 64, 96)],
    ids=["half a block", "few rows", "few columns", "one partition"],
)
def test_small_and_odd_products_stay(depth: int, rows: int, columns: int) -> None:
    def kernel(left, right):
        return _product(_left(left), nl.load(right))

    left, right = numbers(depth, 2 * rows), numbers(depth, columns)
    assert in_blocks(kernel, left, right) == (0, 0)
    both(kernel, left, right)


def test_narrow_operands_stay() -> None:
    left, right = numbers(96, 128).astype(np.float16), numbers(96, 96).astype(np.float16)
    assert in_blocks(loaded, left, right) == (0, 0)


def test_a_special_number_keeps_its_place() -> None:
    left, right = numbers(128, 128), numbers(128, 64)
    left[5, 7], left[9, 11], right[30, 3] = np.nan, np.inf, -np.inf
    assert in_blocks(loaded, left, right) == (1, 2)
    both(loaded, left, right)


def spread(x):
    """A copy whose target looks like blocks, in an output that nobody multiplies."""
    out = nl.ndarray((16 * 144,), dtype=nl.float32, buffer=nl.shared_hbm)
    zeros = nl.ndarray((16, 144), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(zeros, 0.0)
    nisa.dma_copy(out.ap([[144, 16], [1, 144]]), zeros)
    nisa.dma_copy(out.ap([[BLOCK, 32], [144, 16], [1, BLOCK]]), _left(x).reshape((32, 16, BLOCK)))
    return out


@pytest.mark.parametrize("columns", [BLOCK, 6])
def test_copies_use_blocks_of_the_product_only(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The routine that copies rows to blocks has the product's blocks, which are wider on other processors."""
    x = numbers(32, 128)
    monkeypatch.setattr(matmul_entry, "columns_of_block", lambda: columns)
    text = listing(lower(nki.jit(spread).compile(x).kernel), assembly=False)
    assert ("nki_blocks_of_rows" in text) == (columns == BLOCK)
    expected = np.zeros((16, 144), np.float32)
    for partition in range(32):
        expected[:, BLOCK * partition : BLOCK * (partition + 1)] = x[partition, :64].reshape(16, BLOCK)
    assert nki.jit(spread)(x).tobytes() == expected.tobytes()


@settings(max_examples=25, deadline=None)
@given(depth=st.integers(2, 128), blocks=st.integers(10, 32), columns=st.integers(32, 200), turned=st.booleans())
def test_bits_of_any_size(depth: int, blocks: int, columns: int, turned: bool) -> None:
    left, right = numbers(depth, 2 * blocks * BLOCK), numbers(depth, columns)
    both(transposed if turned else loaded, left, right)


def test_nothing_lies_in_blocks_without_such_tiles() -> None:
    program = nki.jit(loaded).compile(numbers(96, 128), numbers(96, 96)).kernel
    assert blocked_operands.block_operands(program.core.body, lambda: False) is None
