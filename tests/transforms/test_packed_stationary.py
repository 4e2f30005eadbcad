"""Stationary operands are packed once where products read them, and the bits stay those of the simulator."""

from __future__ import annotations

import os
import random
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.base import dtype as dt
from nki.compiler.executable import lower
from nki.ir.instruction import Inst
from nki.ir.types import Access
from nki.numerics.matmul_entry import word_routines
from nki.transforms import packed_stationary
from tests.support.both_executors import both, numbers
from tests.support.kernel_parts import stored
from tests.support.shared_launches import launched, shared

__all__ = ["shared"]

pytestmark = pytest.mark.skipif(word_routines() is None, reason="the processor does not multiply words")
SEEDS = max(8, int(os.environ.get("NKI_TEST_EXAMPLES", "50")) // 4)


def _product(stationary, moving):
    total = nl.ndarray((stationary.shape[1], moving.shape[1]), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(total, stationary, moving)
    return stored(total)


def _turned(tile):
    """The transposed tile, by way of PSUM."""
    spread = nl.ndarray((tile.shape[1], tile.shape[0]), dtype=tile.dtype, buffer=nl.psum)
    nisa.nc_transpose(spread, tile)
    result = nl.ndarray(spread.shape, dtype=tile.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(result, spread)
    return result


def _computed(array):
    """A tile that an activation writes."""
    part = _left(array)
    tile = nl.ndarray(part.shape, dtype=array.dtype, buffer=nl.sbuf)
    nisa.activation(tile, nl.tanh, part)
    return tile


def _left(array):
    """A load of the left half of an input, which is no tile of its own."""
    return nl.load(array[:, : array.shape[1] // 2])


def loaded(left, right):
    """A load fills the stationary tile; products read all of it, and a part."""
    a, b = _left(left), nl.load(right)
    return _product(a, b), _product(a[:, 32:96], b)


def once(left, right):
    """One product reads a tile that a load fills, part by part."""
    a, b = nl.ndarray((left.shape[0], 128), dtype=left.dtype, buffer=nl.sbuf), nl.load(right)
    for start in range(0, 128, 64):
        nisa.dma_copy(a[:, start : start + 64], left[:, start : start + 64])
    return _product(a, b)


def turned(left, right):
    """A transposition of what is computed fills the stationary tile; its source changes before the last product."""
    back = nl.ndarray((128, left.shape[0]), dtype=left.dtype, buffer=nl.sbuf)
    nisa.tensor_scalar(back, _turned(_left(left)), nl.multiply, 0.5)
    a, b = _turned(back), nl.load(right)
    first = _product(a, b)
    nisa.memset(back, 1.0)
    return first, _product(a[:, 32:64], b), stored(back)


def computed(left, right):
    """Two products read a tile that an activation writes: it is copied."""
    a, b = _computed(left), nl.load(right)
    return _product(a, b), _product(a, b)


def turned_input(left, right):
    """Products read what is to be transposed where it lies in an input, and pack its columns themselves."""
    a, b = _turned(nl.load(left.reshape((left.shape[1], left.shape[0]))[0:128])), nl.load(right)
    return _product(a, b), _product(a, b)


def written_between(left, right):
    """Between the products the tile gets other contents; each is read twice."""
    part, b = _left(left), nl.load(right)
    a = nl.ndarray(part.shape, dtype=left.dtype, buffer=nl.sbuf)
    results = []
    for scale in (1.0, 2.0):
        nisa.tensor_scalar(a, part, nl.multiply, scale)
        results += [_product(a, b), _product(a, b)]
    return tuple(results)


def also_moving(left, right):
    """One product reads the tile as its moving operand, too."""
    a, b = _left(left), nl.load(right)
    return _product(a, b), _product(b[:, :128], a)


def also_added(left, right):
    """The Vector engine reads the tile, too: the product reads a packed copy, as it is read twice."""
    a, b = _left(left), nl.load(right)
    nisa.tensor_scalar(b[:, :1], a[:, :1], nl.add, 1.0)
    return _product(a, b), _product(a, b)


def odd_window(left, right):
    """A product reads columns that are no whole groups."""
    a, b = _left(left), nl.load(right)
    return _product(a, b), _product(a[:, 8:40], b)


def odd_part(left, right):
    """A copy writes columns that are no whole groups."""
    a, b = _left(left), nl.load(right)
    nisa.tensor_copy(a[:, 8:24], b[:, 0:16])
    return _product(a, b)


def masked(left, right):
    """A predicate tells which elements of the tile are written."""
    a, b = _left(left), nl.load(right)
    mask = nl.ndarray(a.shape, dtype=nl.uint8, buffer=nl.sbuf)
    nisa.tensor_scalar(mask, a, nl.greater, 0.0)
    nisa.tensor_copy_predicated(a, _computed(left), mask)
    return _product(a, b)


def dynamic(left, right):
    """A device loop loads windows of the input, and reads windows of a tile."""
    b, a = nl.load(right), _left(left)
    out = nl.ndarray((4, 32, right.shape[1]), dtype=nl.float32, buffer=nl.shared_hbm)

    def body(i):
        part = nl.ndarray((left.shape[0], 32), dtype=left.dtype, buffer=nl.sbuf)
        nisa.dma_copy(part, left[:, nl.ds(i * 32, 32)])
        total = nl.ndarray((32, right.shape[1]), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(total, part, b, accumulate=False)
        nisa.nc_matmul(total, a[:, 0:32], b, accumulate=True)
        result = nl.ndarray(total.shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(result, total)
        nisa.dma_copy(out[i], result)

    nl.fori_loop(0, 4, body)
    return _product(a, b), out


def is_packed(access: Access) -> bool:
    """True of a packed stationary operand, and of what packs it."""
    return access.dtype is dt.bfloat16_words and len(access.shape) == 2


def packings(kernel: Any, *arguments: Any) -> tuple[int, int]:
    """The copies that pack stationary operands, and the products that read what is packed."""
    insts: list[Inst] = list(lower(nki.jit(kernel).compile(*arguments).kernel, "gather_scatter").instructions())
    writes = sum(is_packed(access) for inst in insts for access in inst.writes())
    return writes, sum(is_packed(access) for inst in insts for access in inst.reads())


def bfloat16(*shape: int) -> Any:
    return numbers(*shape).astype(ml_dtypes.bfloat16)


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (loaded, (1, 2)),
        (once, (2, 1)),
        (turned, (1, 2)),
        (computed, (1, 2)),
        (turned_input, (0, 0)),
        (written_between, (2, 4)),
        (also_added, (1, 2)),
    ],
)
def test_each_operand_is_packed_once(kernel: Any, expected: tuple[int, int], shared: pytest.MonkeyPatch) -> None:
    left, right = bfloat16(96, 256), bfloat16(96, 160)
    assert packings(kernel, left, right) == expected
    results = both(kernel, left, right)
    expected_bits = [result.tobytes() for result in (results if isinstance(results, tuple) else (results,))]
    for outputs in launched(nki.jit(kernel).compile(left, right).kernel, [left, right], shared):
        assert outputs == expected_bits


@pytest.mark.parametrize("kernel", [also_moving, odd_window, odd_part, masked, dynamic])
def test_tiles_with_other_readers_or_writers_stay(kernel: Any) -> None:
    left, right = bfloat16(96, 256), bfloat16(96, 160)
    assert packings(kernel, left, right) == (0, 0)
    both(kernel, left, right)


@pytest.mark.parametrize(("rows", "columns"), [(96, 120), (80, 128), (20, 128), (96, 16)])
def test_parts_of_groups_are_not_packed(rows: int, columns: int) -> None:
    left, right = bfloat16(rows, 2 * columns), bfloat16(rows, 128)
    assert packings(also_added, left, right) == (0, 0)
    both(also_added, left, right)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.float8_e4m3])
def test_other_dtypes_are_not_packed(dtype: Any) -> None:
    assert packings(loaded, numbers(96, 256).astype(dtype), numbers(96, 128).astype(dtype)) == (0, 0)


def test_other_moving_operands_read_it_as_well() -> None:
    left, right = bfloat16(96, 256), numbers(96, 128).astype(ml_dtypes.float8_e5m2)
    assert packings(loaded, left, right) == (1, 2)
    both(loaded, left, right)


@pytest.mark.parametrize("kernel", [loaded, turned_input])
@pytest.mark.parametrize("scale", [2.0**-120, 2.0**-70, 2.0**-40])
def test_small_numbers_of_packed_operands(kernel: Any, scale: float, shared: pytest.MonkeyPatch) -> None:
    """Products whose digits tile registers would lose go through float32, also from packed operands."""
    left, right = (numbers(96, 256) * np.float32(scale)).astype(ml_dtypes.bfloat16), bfloat16(96, 70)
    left[:, :16] = bfloat16(96, 16)
    right[:, 64:] = (numbers(96, 6) * np.float32(2.0**-60)).astype(ml_dtypes.bfloat16)
    assert packings(kernel, left, right) == ((1, 2) if kernel is loaded else (0, 0))
    results = [result.tobytes() for result in both(kernel, left, right)]
    for outputs in launched(nki.jit(kernel).compile(left, right).kernel, [left, right], shared):
        assert outputs == results


class Step(nl.NKIObject):
    """What happens next to a stationary tile: ``kind``, of columns ``first`` to ``last`` - 1."""

    kind: str
    first: int
    last: int
    columns: int
    """Columns of the moving operand of a product."""


def some_steps(source: random.Random, width: int) -> tuple[Step, ...]:
    """Steps of one tile, after it was filled; most products and copies take whole groups."""
    kinds = source.choice(("product", "product copy", "product turn", "product copy turn compute read mask"))
    steps: list[Step] = []
    for _ in range(source.randrange(2, 9)):
        unit = source.choice((32, 32, 32, 32, 8))
        first = source.randrange(0, width, unit)
        last = source.randrange(first + unit, width + unit, unit)
        kind, columns = source.choice(kinds.split()), source.choice((1, 5, 32, 64, 100, 160))
        steps.append(Step(kind=kind, first=first, last=min(last, width), columns=columns))
    return (*steps, Step(kind="product", first=0, last=width, columns=160))


@nki.jit
def steps_of(left, other, right, steps):
    """Steps of a tile of the shape of ``left``; products add to one result, which each product's rows begin anew."""
    depth = left.shape[0]
    a, b, source = nl.ndarray(left.shape, dtype=left.dtype, buffer=nl.sbuf), nl.load(right), nl.load(other)
    nisa.dma_copy(a, left)
    results = []
    for step in steps:
        part, from_other = a[:, step.first : step.last], source[:, step.first : step.last]
        count = step.last - step.first
        if step.kind == "product":
            total = nl.ndarray((min(count, 128), step.columns), dtype=nl.float32, buffer=nl.psum)
            nisa.nc_matmul(total, part[:, : min(count, 128)], b[:, : step.columns])
            nisa.nc_matmul(total, part[:, : min(count, 128)], b[:, 160 - step.columns :])
            results.append(stored(total))
        elif step.kind == "copy":
            nisa.tensor_copy(part, from_other)
        elif step.kind == "turn":
            for at in range(0, count, 128):
                end = min(at + 128, count)
                spread = nl.ndarray((depth, end - at), dtype=left.dtype, buffer=nl.psum)
                nisa.nc_transpose(spread, _turned(from_other[:, at:end]))
                nisa.tensor_copy(part[:, at:end], spread)
        elif step.kind == "compute":
            nisa.tensor_scalar(part, from_other, nl.multiply, 0.5)
        elif step.kind == "read":
            nisa.tensor_tensor(b[:, :1], b[:, :1], part[:, :1], nl.add)
        else:
            mask = nl.ndarray((depth, count), dtype=nl.uint8, buffer=nl.sbuf)
            nisa.tensor_scalar(mask, from_other, nl.greater, 0.0)
            nisa.tensor_copy_predicated(part, from_other, mask)
    return tuple(results)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_steps(seed: int, shared: pytest.MonkeyPatch) -> None:
    """Whatever else happens to a tile, and whatever part of it, all executors and threads give the same bits."""
    source = random.Random(seed)
    depth, width = source.choice((32, 64, 96, 128, 100)), source.choice((64, 128, 192, 256))
    steps = some_steps(source, width)
    arrays = [bfloat16(depth, columns) for columns in (width, width, 160)]
    arrays[1] = (-arrays[1]).astype(ml_dtypes.bfloat16)
    if source.random() < 0.3:
        small = source.randrange(width)
        arrays[0][:, small : small + 20] = 2.0**-100
    program = steps_of.compile(*arrays, steps).kernel
    expected = [np.ascontiguousarray(output).tobytes() for output in nki.simulate(steps_of)(*arrays, steps)]
    for outputs in launched(program, arrays, shared):
        assert outputs == expected, steps


def test_random_steps_pack_often() -> None:
    """The test before means something: many of its tiles are packed."""
    packed = 0
    for seed in range(8):
        source = random.Random(seed)
        depth, width = source.choice((32, 64, 96, 128, 100)), source.choice((64, 128, 192, 256))
        arrays = [bfloat16(depth, columns) for columns in (width, width, 160)]
        insts = lower(steps_of.compile(*arrays, some_steps(source, width)).kernel, "gather_scatter").instructions()
        packed += any(is_packed(access) for inst in insts for access in inst.reads())
    assert packed >= 4


def test_nothing_is_packed_without_tile_registers() -> None:
    program = nki.jit(loaded).compile(bfloat16(96, 256), bfloat16(96, 128)).kernel
    assert packed_stationary.pack_stationary(program.core.body, (), lambda: False) is None
