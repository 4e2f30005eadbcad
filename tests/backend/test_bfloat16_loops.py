"""Loops in bfloat16: words of two elements, rounding in few steps, NaN of any payload; the bits of the simulator."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.backend.cpu.fusion.group import FusionGroup
from nki.backend.cpu.fusion.parts import lower_group
from nki.backend.cpu.kernel_ir.nodes import Reduce, subexpressions
from nki.compilation.executable import lower
from tests.support.both_executors import both, numbers

PAYLOADS = (0x7FC00000, 0xFFC00000, 0x7FFFFFFF, 0xFFFF8000, 0x7F818001, 0x7FFF7FFF)
COLUMNS = (32, 64, 95, 300)


def special(rows: int, columns: int) -> Any:
    """bfloat16 numbers, one row of each special kind, with usual numbers around each."""
    x = numbers(rows, columns).astype(ml_dtypes.bfloat16)
    words = x.view(np.uint16)
    patterns = (0x7FC0, 0xFFC1, 0x7F81, 0x7FFF, 0x7F80, 0xFF80, 0x8000, 0x0000, 0x0001, 0x8013, 0x7F7F)
    for row, pattern in enumerate(patterns):
        words[row, (5 * row) % columns] = pattern
        words[row + 16, ::3] = pattern
    return x


def payloads(rows: int) -> Any:
    """A column of float32 in which every third number is NaN."""
    column = numbers(rows, 1)
    column.view(np.uint32)[::3, 0] = np.resize(np.array(PAYLOADS, np.uint32), len(column[::3]))
    return column


def tile_like(tile):
    return nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.sbuf)


def scaled_and_added(x, column):
    """x * column + x, [p, f]: only the sum reads the products."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    product, total = tile_like(tile), tile_like(tile)
    nisa.tensor_scalar(product, tile, nl.multiply, nl.load(column))
    nisa.tensor_tensor(total, product, tile, nl.add)
    nl.store(out, total)
    return out


def scaled_and_moved(x, column):
    """x * column, [p, f], which a copy moves to the result."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    product, copy = tile_like(tile), tile_like(tile)
    nisa.tensor_scalar(product, tile, nl.multiply, nl.load(column))
    nisa.tensor_copy(copy, product)
    nl.store(out, copy)
    return out


def deviations(x, column):
    """x - column and the sums of its squares by row, [p, f] and [p, 1]."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    sums = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.load(x)
    difference, squares = tile_like(tile), tile_like(tile)
    total = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(difference, tile, nl.subtract, nl.load(column))
    nisa.tensor_tensor(squares, difference, difference, nl.multiply)
    nisa.tensor_reduce(total, nl.add, squares, axis=1)
    nl.store(out, difference)
    nl.store(sums, total)
    return out, sums


def only_scaled(x, column):
    """x * column, [p, f]: an instruction of its own."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nisa.tensor_scalar(tile, tile, nl.multiply, nl.load(column))
    nl.store(out, tile)
    return out


def scaled_and_chosen(x, column):
    """x * column where x is not greater than 0.5, else x, [p, f]: a choice moves the products, NaN too."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    where, product = nl.ndarray(x.shape, dtype=nl.uint8, buffer=nl.sbuf), tile_like(tile)
    nisa.tensor_scalar(product, tile, nl.multiply, nl.load(column))
    nisa.tensor_scalar(where, tile, nl.greater, 0.5)
    nisa.tensor_copy_predicated(tile, product, where, reverse_pred=True)
    nl.store(out, tile)
    return out


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("name", ["abs", "relu", "sign", "sqrt", "reciprocal", "rsqrt", "tanh"])
def test_functions_of_few_operations_and_of_many(name: str, columns: int) -> None:
    def function(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)
        nisa.activation(tile, getattr(nl, name), tile)
        nl.store(out, tile)
        return out

    with np.errstate(all="ignore"):
        both(function, special(64, columns))
        both(function, np.abs(special(64, columns)))


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("kernel", [scaled_and_added, scaled_and_moved, scaled_and_chosen, deviations, only_scaled])
def test_special_numbers(kernel: Any, columns: int) -> None:
    with np.errstate(all="ignore"):
        both(kernel, special(64, columns), payloads(64))
        both(kernel, special(64, columns), numbers(64, 1))


@pytest.mark.parametrize("columns", COLUMNS)
def test_float32_beside_bfloat16(columns: int) -> None:
    """Elements of float32 lie in order, so those of bfloat16 must do so too."""

    def mixed(x, wide):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile, other = nl.load(x), nl.load(wide)
        product, total = tile_like(tile), tile_like(tile)
        nisa.tensor_tensor(product, other, tile, nl.multiply)
        nisa.tensor_tensor(total, product, other, nl.add)
        nl.store(out, total)
        return out

    with np.errstate(all="ignore"):
        both(mixed, special(64, columns), numbers(64, columns))


def test_a_square_has_one_operand() -> None:
    """The loads and casts of a product with itself are one, so that lanes follow the rows of pairs."""

    def squares(x):
        out = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.shared_hbm)
        tile = nl.load(x)
        square, total = tile_like(tile), nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_tensor(square, tile, tile, nl.multiply)
        nisa.tensor_reduce(total, nl.add, square, axis=1)
        nl.store(out, total)
        return out

    x = special(64, 300)
    with np.errstate(all="ignore"):
        both(squares, x)
    (chain,) = lower(nki.jit(squares).compile(x).kernel).instructions()
    (total, _) = lower_group(chain).statements
    assert isinstance(total, Reduce)
    summed = total.value
    assert len({id(part) for part in subexpressions(summed) if part.kind == "load"}) == 1
    assert (
        len({id(part) for part in subexpressions(summed) if part.kind == "cast" and part.args[0].kind == "load"}) == 1
    )


@pytest.mark.filterwarnings("ignore:nl.divide")
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
@pytest.mark.parametrize("columns", COLUMNS)
def test_quotients_by_a_column(columns: int, dtype: Any) -> None:
    """Usual divisors, special ones, and numerators of both kinds, in a chain and alone."""

    def quotients(x, column):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        shifted = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile, by = nl.load(x), nl.load(column)
        alone, one, two = tile_like(tile), tile_like(tile), tile_like(tile)
        nisa.tensor_scalar(alone, tile, nl.divide, by)
        nl.store(out, alone)
        nisa.tensor_scalar(one, tile, nl.divide, by)
        nisa.tensor_scalar(two, one, nl.subtract, 0.5)
        nl.store(shifted, two)
        return out, shifted

    x, column = special(64, columns).astype(dtype), payloads(64)
    column[1:16, 0] = (0.0, -0.0, np.inf, -np.inf, 1e-40, 1e-38, 3e38, 2.0**-32, 2.0**32, -1.5, 3, 7, 1e9, 1e10, 0.1)
    with np.errstate(all="ignore"):
        both(quotients, x, column)
        both(quotients, x, np.abs(numbers(64, 1)))


def chosen(x, column):
    """x where it is greater than the column, else -1, and the sums of that by row, [p, f] and [p, 1]."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    sums = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.load(x)
    where, result = nl.ndarray(x.shape, dtype=nl.uint8, buffer=nl.sbuf), tile_like(tile)
    total = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(result, -1.0)
    nisa.tensor_scalar(where, tile, nl.greater, nl.load(column))
    nisa.tensor_copy_predicated(result, tile, where)
    nisa.tensor_reduce(total, nl.add, result, axis=1)
    nl.store(out, result)
    nl.store(sums, total)
    return out, sums


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
@pytest.mark.parametrize("columns", COLUMNS)
def test_a_choice_is_part_of_a_chain(columns: int, dtype: Any) -> None:
    x, column = special(64, columns).astype(dtype), payloads(64)
    with np.errstate(all="ignore"):
        both(chosen, x, column)
    (chain,) = (
        inst
        for inst in lower(nki.jit(chosen).compile(x, column).kernel).instructions()
        if isinstance(inst, FusionGroup)
    )
    parts = ["memset", "tensor_scalar", "tensor_copy_predicated", "tensor_reduce"]
    assert [part.mnemonic for part in chain.parts] == parts
    assert [access.shape for access in chain.written] == [x.shape, (64, 1)] and not chain.changed


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_a_choice_keeps_what_was_there(dtype: Any, reverse: bool) -> None:
    """The old contents come from before the chain: their bits stay, NaN of any payload too."""

    def kept(x, y):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile, old = nl.load(x), nl.load(y)
        where = nl.ndarray(x.shape, dtype=nl.uint16, buffer=nl.sbuf)
        nisa.tensor_scalar(where, tile, nl.less, 0.25)
        nisa.tensor_copy_predicated(old, tile, where, reverse_pred=reverse)
        nl.store(out, old)
        return out

    x, y = special(64, 96).astype(dtype), special(64, 96)[::-1].astype(dtype)
    with np.errstate(all="ignore"):
        both(kept, x, y)
