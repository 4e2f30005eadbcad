"""What becomes one loop: each kernel with the instructions that are left of it and the tiles that they write.

That bits stay, whatever is fused, is tested with random programs (test_small_programs.py) and with rows of every length
(test_row_loops.py). Here are kernels that users write, and the border of each rule.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.backend.cpu.fusion.group import MOST_PARTS
from nki.backend.cpu.runtime import routines
from nki.backend.cpu.runtime.routines import listing, routine_key, stored_routines
from nki.compilation.executable import lower
from nki.isa.tables.activations import ACTIVATIONS
from tests.support.both_executors import both, numbers
from tests.support.compiled_anew import anew
from tests.support.kernel_parts import applied, column, joined, like, reduced, returned, transposed
from tests.support.native_programs import compiled, lowered, same_bits, tiles_written
from tests.support.shared_launches import shared

__all__ = ["shared"]
pytestmark = pytest.mark.filterwarnings("ignore::nki.base.warning.NkiPortabilityWarning")  # nl repeats columns
BF16 = ml_dtypes.bfloat16
P, W = 64, 96


def inputs(dtype: Any = np.float32) -> list[Any]:
    """Two tiles, a row and a column, with special numbers."""
    draw = np.random.default_rng(3)
    x, y = numbers(P, W), draw.normal(size=(P, W)).astype(np.float32)
    x[0, -1], y[1, 0], x[2, 3], x[3] = np.inf, np.nan, -np.inf, -0.0
    return [x.astype(dtype), y.astype(dtype), numbers(1, W).astype(dtype), draw.normal(size=(P, 1)).astype(np.float32)]


# Element-wise instructions


def affine(x, y, row, v):
    """x * 2 * y + a column that a view repeats."""
    product = joined(applied(nl.load(x), nl.multiply, 2.0), nl.multiply, nl.load(y))
    return returned(joined(product, nl.add, nl.load(v).ap([[1, P], [0, W]])))


def read_later(x, y, row, v):
    """A transposition reads a result, which is stored once."""
    a = nl.load(x)
    kept, c = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.sbuf), like(a)
    nisa.tensor_scalar(kept, a, nl.multiply, 3.0)
    nisa.activation(c, nl.tanh, kept)
    nisa.tensor_tensor(c, c, kept, nl.subtract)
    return returned(c), returned(transposed(kept))


def other_columns(x, y, row, v):
    """Of one tile."""
    a = nl.load(x)
    tile = like(a)
    nisa.tensor_scalar(tile[:, : W // 2], a[:, W // 2 :], nl.multiply, 2.0)
    nisa.tensor_tensor(tile[:, W // 2 :], tile[:, : W // 2], a[:, W // 2 :], nl.add)
    return returned(tile)


def reused(x, y, row, v):
    """A tile that begins anew needs no memory."""
    work, results = nl.ndarray((P, W), dtype=nl.float32, buffer=nl.sbuf), []
    for source in (x, y):
        nisa.activation(work, nl.exp, nl.load(source))
        nisa.tensor_scalar(work, work, nl.add, 1.0)
        result = like(work)
        nisa.reciprocal(result, work)
        results.append(returned(result))
    return tuple(results)


def in_place_later(x, y, row, v):
    """What writes all of a tile again reads it first, behind a maximum of what comes from it."""
    a = nl.load(x)
    b, c = nl.ndarray((P, W), dtype=nl.float32, buffer=nl.sbuf), like(a)
    nisa.activation(b, nl.tanh, a)
    nisa.activation(c, nl.exp, b)
    nisa.tensor_scalar(b, b, nl.multiply, reduced(c, nl.maximum))
    return returned(transposed(b))


def long(x, y, row, v):
    """Is cut."""
    tile = nl.load(x)
    for number in range(2 * MOST_PARTS + 3):
        tile = applied(tile, nl.multiply, 0.5 + number / 20)
    return returned(tile)


def neighbours(x, y, row, v):
    """Elements that others have written at other places are in memory."""
    a = nl.load(x)
    tile = like(a)
    nisa.tensor_scalar(tile, a, nl.multiply, 2.0)
    nisa.tensor_tensor(tile[:, 1:], tile[:, :-1], tile[:, 1:], nl.add)
    return returned(tile)


def chosen(x, y, row, v):
    """A choice is part of a loop, and its sum."""
    tile = nl.load(x)
    result = like(tile)
    nisa.memset(result, -1.0)
    nisa.tensor_copy_predicated(result, tile, applied(tile, nl.greater, nl.load(v), nl.uint8))
    total = reduced(result, nl.add)
    return returned(result), returned(total)


# Sums that ride along


def softmax(x, y, row, v):
    """Both readers of the differences compute these anew."""
    tile = nl.load(x)
    power = like(tile)
    nisa.activation(power, nl.exp, applied(tile, nl.subtract, reduced(tile, nl.maximum)))
    total = reduced(power, nl.add)
    nisa.reciprocal(total, total)
    return returned(applied(power, nl.multiply, total))


def other_reductions(x, y, row, v):
    """Of another operator, of a part, of another tile, or into the tile itself."""
    tile, result = nl.load(x), nl.ndarray((P, 4), dtype=nl.float32, buffer=nl.sbuf)
    twice = nl.ndarray((P, W), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(twice, tile, nl.multiply, 2.0)
    nisa.tensor_reduce(result[:, 0:1], nl.maximum, twice, axis=1)
    nisa.tensor_scalar(twice, tile, nl.multiply, 3.0)
    nisa.tensor_reduce(result[:, 1:2], nl.add, twice[:, : W // 2], axis=1)
    nisa.tensor_scalar(twice, tile, nl.multiply, 4.0)
    nisa.tensor_reduce(result[:, 2:3], nl.add, tile, axis=1)
    nisa.tensor_scalar(twice, tile, nl.multiply, 5.0)
    nisa.tensor_reduce(twice[:, 3:4], nl.add, twice, axis=1)
    nisa.tensor_copy(result[:, 3:4], twice[:, 3:4])
    return returned(result)


def gradient_of_layer_norm(x, y, row, v):
    """A mean of the first sum stands before the second sum, and moves."""
    gains = nl.broadcast_to(nl.load(row), (P, W))
    normal = nl.multiply(nl.subtract(nl.load(x), nl.load(v)), nl.load(v))
    scaled = nl.multiply(nl.load(y), gains)
    first = nl.mean(scaled, axis=1, keepdims=True)
    second = nl.mean(nl.multiply(scaled, normal), axis=1, keepdims=True)
    return returned(nl.subtract(nl.subtract(scaled, first), nl.multiply(normal, second)))


def cosine(x, y, row, v):
    """Three sums share a loop."""
    a, b = nl.load(x), nl.load(y)
    product = nl.sum(nl.multiply(a, b), axis=1, keepdims=True, dtype=nl.float32)
    left = nl.sum(nl.square(a), axis=1, keepdims=True, dtype=nl.float32)
    right = nl.sum(nl.square(b), axis=1, keepdims=True, dtype=nl.float32)
    return returned(nl.multiply(product, nl.rsqrt(nl.multiply(left, right))))


def two_sums(between: Callable[..., Any]) -> Any:
    """A kernel with a sum of x y, and one of what ``between`` gives after it."""

    def kernel(x, y, row, v):
        a, b = nl.load(x), nl.load(y)
        product, first, second = nl.ndarray((P, W), dtype=nl.float32, buffer=nl.sbuf), column(a), column(a)
        nisa.tensor_tensor(product, a, b, nl.multiply)
        nisa.tensor_reduce(first, nl.add, product, axis=-1)
        nisa.tensor_reduce(second, nl.add, between(product, first, a), axis=-1)
        return returned(first), returned(second)

    return kernel


def independent(product, first, a):
    nisa.tensor_scalar(first, first, nl.multiply, 0.5)
    result = like(a)
    nisa.tensor_tensor(result, product, a, nl.subtract)
    return result


def of_its_mean(product, first, a):
    mean, result = column(a), like(a)
    nisa.tensor_scalar(mean, first, nl.multiply, 0.5)
    nisa.tensor_scalar(result, product, nl.subtract, mean)
    return result


def in_place(product, first, a):
    """What a column has read before changes."""
    nisa.tensor_tensor(first, first, product[:, 3:4], nl.add)
    nisa.tensor_tensor(product, product, a, nl.add)
    return product


def over_a_column(product, first, a):
    """What is added has a column that is written after the first sum, and in no loop."""
    result = like(a)
    nisa.tensor_tensor(result, product, a, nl.add)
    nisa.tensor_copy(result[:, 2:3], first)
    return result


# Groups of columns


def group_norm(x, y, row, v):
    """Each group by its mean and deviation, then scaled as rows: deviations are computed twice."""
    gains = nl.broadcast_to(nl.load(row), (P, W))
    tile = nl.load(x).reshape((P, 3, W // 3))
    d = nl.subtract(tile, nl.mean(tile, axis=2, keepdims=True))
    variance = nl.mean(nl.square(d), axis=2, keepdims=True)
    result = nl.multiply(d, nl.rsqrt(nl.add(variance, 1e-5)))
    return returned(nl.multiply(result.reshape((P, W)), gains))


def softmax_by_heads(x, y, row, v):
    """Sums by group ride along; numbers that all groups share repeat."""
    width = W // 3
    shared_row = nl.broadcast_to(nl.load(row[:, 0:width]), (P, width)).reshape((P, 1, width))
    tile = nl.multiply(nl.load(x).reshape((P, 3, width)), shared_row)
    power = nl.exp(nl.subtract(tile, nl.max(tile, axis=2, keepdims=True)))
    return returned(nl.divide(power, nl.sum(power, axis=2, keepdims=True)).reshape((P, W)))


def across_groups(x, y, row, v):
    """Sums of each column over the groups, and of a part of each group: what one sum adds lies apart."""
    twice, total = nl.multiply(nl.load(x).reshape((P, 3, 32)), 2.0), nl.ndarray((P, 32), dtype=nl.float32)
    nisa.tensor_reduce(total, nl.add, twice.ap([[W, P], [1, 32], [32, 3]]), axis=2)
    thrice, of_parts = nl.multiply(nl.load(y).reshape((P, 3, 32)), 3.0), nl.ndarray((P, 3), dtype=nl.float32)
    nisa.tensor_reduce(of_parts, nl.add, thrice[:, :, 0:20], axis=2)
    return returned(total), returned(of_parts)


# Instructions that run again


def apart(first: Callable[..., None], between: Callable[..., None]) -> Any:
    """A kernel that computes a tile ``b`` by ``first``, reads it, and reads it again after ``between``."""

    def kernel(x, y, row, v):
        tile = nl.load(x)
        a, top, shift = nl.ndarray((P, W), dtype=nl.float32, buffer=nl.sbuf), column(tile), column(tile)
        nisa.activation(a, nl.tanh, tile)
        nisa.tensor_reduce(top, nl.minimum, a, axis=1)
        nisa.tensor_tensor(shift, nl.load(v), top, nl.add)
        b, c = nl.ndarray((P, W), dtype=nl.float32, buffer=nl.sbuf), like(tile)
        first(b, a, shift)
        nisa.activation(c, nl.tanh, b)
        nisa.tensor_reduce(top, nl.maximum, c, axis=1)
        between(a, b, c, shift)
        nisa.tensor_scalar(c, b, nl.subtract, top)
        nisa.activation(c, nl.exp, c)
        return returned(c)

    return kernel


def shifted(b, a, shift):
    nisa.tensor_scalar(b, a, nl.subtract, shift)


def filled(b, a, shift):
    nisa.memset(b, 0.5)


def function(b, a, shift):
    nisa.activation(b, nl.exp, a, bias=shift)


def three_operators(b, a, shift):
    nisa.activation(b, nl.square, a, bias=shift, scale=shift)


def a_part(b, a, shift):
    nisa.memset(b, 1.0)
    nisa.tensor_scalar(b[:, :20], a[:, :20], nl.subtract, shift)


def nothing(a, b, c, shift):
    pass


def changed_column(a, b, c, shift):
    def body(_):
        nisa.tensor_scalar(shift, shift, nl.multiply, 2.0)

    nl.fori_loop(0, 2, body)


def changed_result(a, b, c, shift):
    nisa.tensor_scalar(b[:, :20], c[:, :20], nl.multiply, 2.0)


def changed_source(a, b, c, shift):
    nisa.tensor_scalar(a, c, nl.multiply, 2.0)


def read_by_others(a, b, c, shift):
    nisa.tensor_tensor(c, c, transposed(transposed(b)), nl.add)


def layer_norm(x, y, row, v):
    """In the words of a tutorial."""
    gains = nl.broadcast_to(nl.load(row), (P, W))
    d = nl.subtract(nl.load(x), nl.mean(nl.load(x), axis=1, keepdims=True))
    variance = nl.mean(nl.square(d), axis=1, keepdims=True)
    return returned(nl.add(nl.multiply(nl.multiply(d, nl.rsqrt(nl.add(variance, 1e-5))), gains), gains))


def layer_norm_of_40_tiles(x, y, row, v):
    """One repetition for each reader, however many there are."""
    gains, results = nl.broadcast_to(nl.load(row), (P, W)), []
    for _ in range(40):
        d = nl.subtract(nl.load(x), nl.mean(nl.load(x), axis=1, keepdims=True))
        results.append(returned(nl.multiply(nl.multiply(d, nl.mean(nl.square(d), axis=1, keepdims=True)), gains)))
    return tuple(results)


def rounds(x, y, row, v):
    """Each round of a loop computes a difference again."""
    a, shift = nl.load(x), nl.load(v)
    top, total = column(a), like(a)
    b, c = nl.ndarray((P, W), dtype=nl.float32, buffer=nl.sbuf), like(a)
    nisa.memset(total, 0.0)

    def body(_):
        shifted(b, a, shift)
        nisa.activation(c, nl.tanh, b)
        nisa.tensor_reduce(top, nl.maximum, c, axis=1)
        nisa.scalar_tensor_tensor(total, b, nl.subtract, top, nl.add, total)
        nisa.tensor_scalar(shift, shift, nl.multiply, 0.5)

    nl.fori_loop(0, 3, body)
    return returned(total)


CASES = [
    (affine, 1, "out"),
    (read_later, 3, "kept out spread out.1"),
    (other_columns, 2, "tile tile out"),
    (reused, 2, "out out.1"),
    (in_place_later, 5, "b c b spread out"),
    (long, 3, "result.11 result.23 out"),
    (neighbours, 3, "tile tile out"),
    (chosen, 2, "result out"),
    (softmax, 4, "power out"),
    (other_reductions, 10, "twice twice twice twice out"),
    (gradient_of_layer_norm, 4, "scaled out"),
    (cosine, 4, ""),
    (two_sums(independent), 2, ""),
    (two_sums(of_its_mean), 4, "product"),
    (two_sums(in_place), 3, "product product"),
    (two_sums(over_a_column), 5, "product result"),
    (group_norm, 5, "total mean total.1 rsqrt out"),
    (softmax_by_heads, 5, "shared_row tile max power sum out"),
    (across_groups, 4, "twice out thrice out.1"),
    (apart(shifted, nothing), 6, "a c out"),
    (apart(filled, nothing), 6, "a c out"),
    (apart(function, nothing), 6, "a b c out"),
    (apart(three_operators, nothing), 6, "a b c out"),
    (apart(a_part, nothing), 8, "a b b c out"),
    (apart(shifted, changed_column), 7, "a b c out"),
    (apart(shifted, changed_result), 7, "a b c b out"),
    (apart(shifted, changed_source), 6, "a b c out"),
    (apart(shifted, read_by_others), 10, "a b c spread result spread.1 c out"),
    (layer_norm, 7, "out"),
    (layer_norm_of_40_tiles, 200, " ".join(["out", *(f"out.{n}" for n in range(1, 40))])),
    (rounds, 8, "a total c total out"),
]
"""Kernels, the number of instructions that are left, and the tiles of several columns that these write."""
ROUNDED = [
    (softmax, 4, "power out"),
    (gradient_of_layer_norm, 5, "scaled out"),
    (cosine, 6, ""),
    (layer_norm, 7, "d out"),
]
"""The same in bfloat16, where results that are rounded are kept."""


@pytest.mark.parametrize("case", [*((np.float32, *case) for case in CASES), *((BF16, *case) for case in ROUNDED)])
def test_what_is_left(case: tuple[Any, Any, int, str], shared: pytest.MonkeyPatch) -> None:
    dtype, kernel, count, tiles = case
    arguments = inputs(dtype)
    insts = lowered(kernel, *arguments)
    assert (len(insts), " ".join(tiles_written(insts))) == (count, tiles)
    same_bits(kernel, *arguments, shared=shared)


def test_a_launch_of_one_loop_has_one_row_and_no_memory() -> None:
    (core,) = nki.jit(affine).compile(*inputs()).linked.cores
    assert core.entries == 1 and core.arena == 0


def test_numbers_that_each_launch_passes() -> None:
    @nki.jit
    def kernel(x, factor, offset):
        a = nl.load(x)
        b, c = like(a), like(a)
        nisa.tensor_scalar(b, a, nl.multiply, 3.0, op1=nl.add, operand1=offset)
        nisa.tensor_scalar(c, b, nl.multiply, factor)
        return returned(c)

    x = numbers(128, 40)
    for factor, offset in ((0.5, 1.0), (-2.0, 0.25)):
        np.testing.assert_array_equal(kernel(x, factor, offset), (x * np.float32(3) + np.float32(offset)) * factor)
    assert len(lowered(kernel, x, 0.5, 1.0)) == 1


def test_routines_of_fused_loops_are_kept_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (inst,) = lowered(affine, *inputs())
    key = routine_key(inst)
    monkeypatch.setenv("OPEN_NKI_CACHE", str(tmp_path))
    monkeypatch.delenv("OPEN_NKI_CACHE_DISABLE")
    anew(monkeypatch)
    (made,) = routines.compile_routines({key: inst}, {}, None)
    assert [routine.uses for routine in stored_routines([key]).values()] == [made.uses]


def test_loops_ask_ahead_for_what_is_in_no_tile() -> None:
    def part_of_rows(x):
        tile = nl.load(x[:, 0:96])
        result = like(tile)
        nisa.activation(result, nl.exp, tile)
        return returned(result)

    def prefetches(kernel: Any, *arguments: Any) -> int:
        return listing(lower(compiled(kernel, *arguments)), assembly=False).count("call void @llvm.prefetch")

    assert prefetches(affine, *inputs()) >= 2
    assert prefetches(part_of_rows, numbers(128, 97)) == 0


FUNCTIONS = tuple(getattr(nl, row.name) for row in ACTIVATIONS.values() if hasattr(nl, row.name) and not row.parameter)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.name)
def test_nan_between_parts(function: Any) -> None:
    """What is computed may be any NaN while it stays in registers, and is the canonical one wherever it is seen."""

    def kernel(x, y):
        a, b = nl.load(x), nl.load(y)
        total, results, narrow = like(a), [like(a) for _ in range(6)], [like(a, nl.bfloat16), like(a, nl.float16)]
        nisa.tensor_tensor(total, a, b, nl.subtract)
        nisa.activation(results[0], function, total)
        nisa.tensor_copy(results[1], total)
        nisa.tensor_scalar(results[2], total, nl.abs, None, op1=nl.maximum, operand1=0.5)
        nisa.tensor_tensor(results[3], b, total, nl.power)
        for number in range(2):
            nisa.tensor_copy(narrow[number], total)
            nisa.tensor_copy(results[number + 4], narrow[number])
        return tuple([returned(result) for result in results])

    words = np.random.default_rng(3).integers(0, 1 << 32, (2, 32, 48), np.uint32)
    words[:, :, ::3] |= 0x7F800000  # NaN of any sign and payload, quiet and signalling
    x, y = words.view(np.float32)
    x[:, 1::6] = y[:, 1::6] = np.inf
    assert len(lowered(kernel, x, y)) == 1
    with np.errstate(all="ignore"):
        both(kernel, x, y)
