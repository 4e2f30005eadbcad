"""Masks: made by iota, by a selection, as a constant; applied by copies, by products, by ranges; and gathers."""

from __future__ import annotations

import numpy as np

import nki
import nki.isa as nisa
import nki.language as nl
from tests.proofs.pair import Input, Pair, tensors
from tests.support.kernel_parts import column, copied, product, returned

ROWS, COLUMNS = 24, 32
LOWER = np.tril(np.ones((ROWS, COLUMNS), np.float32))


@nki.jit
def triangle_selected(x):
    """x on and below the diagonal, 0 above."""
    tile = nl.load(x)
    nisa.affine_select(tile, [[-1, x.shape[1]]], 1, tile, 0.0, cmp_op=nl.greater_equal)
    return returned(tile)


@nki.jit
def triangle_by_iota(x):
    """x times (row - column >= 0)."""
    tile, place = nl.load(x), nl.ndarray(x.shape, nl.float32)
    nisa.iota(place, [[-1, x.shape[1]]], channel_multiplier=1)
    nisa.scalar_tensor_tensor(tile, place, nl.greater_equal, 0.0, nl.multiply, tile)
    return returned(tile)


@nki.jit
def triangle_by_constant(x):
    tile = nl.load(x)
    nisa.tensor_tensor(tile, tile, nl.load(nl.shared_constant(LOWER)), nl.multiply)
    return returned(tile)


@nki.jit
def triangle_by_rows(x):
    """For each row the part that stays, by DMA."""
    tile = nl.zeros(x.shape, nl.float32)
    for row in range(x.shape[0]):
        seen = min(row + 1, x.shape[1])
        nisa.dma_copy(tile[row : row + 1, 0:seen], x[row : row + 1, 0:seen])
    return returned(tile)


@nki.jit
def band_selected(x):
    """Columns from row - 3 to row + 5."""
    tile = nl.load(x)
    nisa.affine_select(tile, [[1, x.shape[1]]], -1, tile, 0.0, cmp_op=nl.greater_equal, offset=3)
    nisa.affine_select(tile, [[-1, x.shape[1]]], 1, tile, 0.0, cmp_op=nl.greater_equal, offset=5)
    return returned(tile)


@nki.jit
def band_by_iota(x):
    """|column - row - 1| <= 4."""
    tile, place = nl.load(x), nl.ndarray(x.shape, nl.float32)
    nisa.iota(place, [[1, x.shape[1]]], offset=-1, channel_multiplier=-1)
    nisa.tensor_tensor(place, place, place, nl.multiply)
    nisa.scalar_tensor_tensor(tile, place, nl.less_equal, 16.0, nl.multiply, tile)
    return returned(tile)


@nki.jit
def gradient_by_product(x, g):
    """The gradient of relu: g times (x > 0)."""
    tile, slope = nl.load(x), nl.load(g)
    nisa.scalar_tensor_tensor(tile, tile, nl.greater, 0.0, nl.multiply, slope)
    return returned(tile)


@nki.jit
def gradient_by_copy(x, g):
    """g is copied over zeros where x > 0."""
    tile, slope = nl.load(x), nl.load(g)
    positive, out = nl.ndarray(x.shape, nl.uint8), nl.zeros(x.shape, nl.float32)
    nisa.tensor_scalar(positive, tile, nl.greater, 0.0)
    nisa.tensor_copy_predicated(out, slope, positive)
    return returned(out)


@nki.jit
def gradient_by_erasing(x, g):
    """g is erased where x <= 0, which is the other comparison."""
    tile, slope = nl.load(x), nl.load(g)
    below = nl.ndarray(x.shape, nl.uint8)
    nisa.tensor_scalar(below, tile, nl.less_equal, 0.0)
    nisa.tensor_copy_predicated(slope, 0.0, below)
    return returned(slope)


@nki.jit
def choice_by_language(x, a, b):
    """a where x > 0.25, b elsewhere."""
    tile, condition = nl.load(x), nl.ndarray(x.shape, nl.uint8)
    nisa.tensor_scalar(condition, tile, nl.greater, 0.25)
    return returned(nl.where(condition, nl.load(a), nl.load(b)))


@nki.jit
def choice_by_weights(x, a, b):
    """b + (x > 0.25) (a - b)."""
    tile, one, other = nl.load(x), nl.load(a), nl.load(b)
    nisa.tensor_tensor(one, one, other, nl.subtract)
    nisa.scalar_tensor_tensor(one, tile, nl.greater, 0.25, nl.multiply, one)
    nisa.tensor_tensor(one, one, other, nl.add)
    return returned(one)


@nki.jit
def choice_of_two_products(x, a, b):
    """(x > 0.25) a + (x <= 0.25) b."""
    tile, one, other = nl.load(x), nl.load(a), nl.load(b)
    nisa.scalar_tensor_tensor(one, tile, nl.greater, 0.25, nl.multiply, one)
    nisa.scalar_tensor_tensor(other, tile, nl.less_equal, 0.25, nl.multiply, other)
    nisa.tensor_tensor(one, one, other, nl.add)
    return returned(one)


@nki.jit
def largest_of_chosen(x, mask):
    """The largest of those with mask > 0, at least -1000: selection and maximum in one instruction."""
    tile, chosen = nl.load(x), nl.ndarray(x.shape, nl.uint8)
    top = column(tile)
    nisa.tensor_scalar(chosen, nl.load(mask), nl.greater, 0.0)
    nisa.select_reduce(tile, chosen, tile, -1000.0, reduce_res=top, reduce_cmd=nisa.reduce_cmd.reset_reduce)
    return returned(top)


@nki.jit
def largest_after_copy(x, mask):
    tile, chosen, kept = nl.load(x), nl.ndarray(x.shape, nl.uint8), nl.full(x.shape, -1000.0, nl.float32)
    half, tops, top = x.shape[1] // 2, nl.ndarray((x.shape[0], 2), nl.float32), column(tile)
    nisa.tensor_scalar(chosen, nl.load(mask), nl.greater, 0.0)
    nisa.tensor_copy_predicated(kept, tile, chosen)
    for i in range(2):
        nisa.tensor_reduce(tops[:, i : i + 1], nl.maximum, kept[:, i * half : (i + 1) * half], axis=1)
    nisa.tensor_tensor(top, tops[:, 0:1], tops[:, 1:2], nl.maximum)
    return returned(top)


@nki.jit
def lengths_by_range(x, lengths):
    """Sums of exp of the first lengths[row] columns: the others are the lowest float32."""
    tile, ends, zeros, total = (
        nl.load(x),
        nl.load(lengths),
        nl.zeros((x.shape[0], 1), nl.float32),
        nl.ndarray((x.shape[0], 1), nl.float32),
    )
    nisa.range_select(tile, tile, nl.greater_equal, nl.less, zeros, ends, on_false_value=-3.4028235e38)
    nisa.activation_reduce(tile, nl.exp, tile, nl.add, total)
    return returned(total)


@nki.jit
def lengths_by_iota(x, lengths):
    """exp times (column < length)."""
    tile, ends, total, place = (
        nl.load(x),
        nl.load(lengths),
        nl.ndarray((x.shape[0], 1), nl.float32),
        nl.ndarray(x.shape, nl.float32),
    )
    nisa.iota(place, [[1, x.shape[1]]])
    nisa.activation(tile, nl.exp, tile)
    nisa.scalar_tensor_tensor(tile, place, nl.less, ends, nl.multiply, tile)
    nisa.tensor_reduce(total, nl.add, tile, axis=1)
    return returned(total)


@nki.jit
def embedding_at_once(table, index, shift):
    """Rows of the table by their numbers, plus a shift."""
    rows = nl.ndarray((index.shape[0], table.shape[1]), nl.float32)
    nisa.dma_copy(rows, table.vector_select(0, nl.load(index)))
    nisa.tensor_tensor(rows, rows, nl.load(shift), nl.add)
    return returned(rows)


@nki.jit
def embedding_in_parts(table, index, shift):
    """The last eight rows first."""
    out = nl.ndarray(shift.shape, nl.float32, buffer=nl.shared_hbm)
    for start in (16, 8, 0):
        rows = nl.ndarray((8, table.shape[1]), nl.float32)
        nisa.dma_copy(rows, table.vector_select(0, nl.load(index[start : start + 8])))
        nisa.tensor_tensor(rows, nl.load(shift[start : start + 8]), rows, nl.add)
        nl.store(out[start : start + 8], rows)
    return out


@nki.jit
def embedding_by_product(table, index, shift):
    """One-hot columns times the table."""
    entries, tokens = table.shape[0], index.shape[0]
    wide, place, hot = (nl.ndarray((entries, tokens), nl.float32) for _ in range(3))
    line = nl.ndarray((1, tokens), nl.int32)
    nisa.dma_copy(line, index)
    numbers = copied(line, nl.float32)
    for row in range(entries):
        nisa.dma_copy(wide[row : row + 1], numbers)
    nisa.iota(place, [[0, tokens]], channel_multiplier=1)
    nisa.tensor_tensor(hot, wide, place, nl.equal)
    rows = nl.load(shift)
    nisa.tensor_tensor(rows, product(hot, nl.load(table)), rows, nl.add)
    return returned(rows)


X = tensors((ROWS, COLUMNS))
TWO, THREE = X * 2, X * 3
LENGTHS = (Input((ROWS, COLUMNS)), Input((ROWS, 1), "float32", 1.0, 30.0))
TABLE = (Input((40, 16)), Input((24, 1), "int32", 0, 40), Input((24, 16)))
SELECTED = ("a select is a sum of products with a comparison and its opposite",)
TINY = ("exp of a large negative number is 0 in float32",)
PAIRS = [
    Pair("triangle by iota", "masks", triangle_selected, triangle_by_iota, X),
    Pair("triangle by constant", "masks", triangle_selected, triangle_by_constant, X),
    Pair("triangle by rows", "masks", triangle_by_constant, triangle_by_rows, X),
    Pair("band by iota", "masks", band_selected, band_by_iota, X),
    Pair("mask by a copy", "masks", gradient_by_product, gradient_by_copy, TWO, identities=SELECTED),
    Pair("mask by erasing", "masks", gradient_by_product, gradient_by_erasing, TWO, identities=SELECTED),
    Pair("choice by weights", "masks", choice_by_language, choice_by_weights, THREE, identities=SELECTED),
    Pair("choice of two products", "masks", choice_by_weights, choice_of_two_products, THREE, identities=SELECTED),
    Pair("largest of chosen", "masks", largest_of_chosen, largest_after_copy, TWO, identities=("max in any order",)),
    Pair("lengths by iota", "masks", lengths_by_range, lengths_by_iota, LENGTHS, sense="underflow", identities=TINY),
    Pair("embedding in parts", "gathers", embedding_at_once, embedding_in_parts, TABLE),
    Pair("embedding by a product", "gathers", embedding_in_parts, embedding_by_product, TABLE, identities=SELECTED),
]
