"""Moving operands are packed once where several products read them, and the bits stay those of the simulator."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.backend.cpu.runtime import region_builder
from nki.backend.cpu.runtime.region_builder import RegionBuilder
from nki.base import dtype as dt
from nki.compiler.executable import Executable, lower
from nki.ir.instruction import Inst
from nki.ir.types import Access
from nki.numerics.matmul_entry import word_routines
from nki.numerics.words.operands import GROUP
from nki.transforms import packed_operands
from tests.support.both_executors import both, numbers
from tests.support.kernel_parts import stored
from tests.support.shared_launches import launched, shared

__all__ = ["shared"]

pytestmark = pytest.mark.skipif(word_routines() is None, reason="the processor does not multiply words")


def _product(stationary, moving):
    total = nl.ndarray((stationary.shape[1], moving.shape[1]), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(total, stationary, moving)
    return stored(total)


def part_by_part(left, right):
    """Copies fill the moving tile from turned parts; products read all of it, and a part."""
    depth, columns = right.shape
    tile = nl.ndarray((depth, columns), dtype=right.dtype, buffer=nl.sbuf)
    turned = nl.load(right[:, :])
    for start in range(0, columns, 64):
        spread = nl.ndarray((64, depth), dtype=right.dtype, buffer=nl.psum)
        nisa.nc_transpose(spread, turned[:, start : start + 64])
        back = nl.ndarray((64, depth), dtype=right.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(back, spread)
        again = nl.ndarray((depth, 64), dtype=right.dtype, buffer=nl.psum)
        nisa.nc_transpose(again, back)
        nisa.tensor_copy(tile[:, start : start + 64], again)
    a = nl.load(left)
    return _product(a, tile), _product(a, tile[:, 32:96])


def computed(left, right):
    """An activation writes the moving tile, which two products read."""
    tile = nl.ndarray(right.shape, dtype=right.dtype, buffer=nl.sbuf)
    nisa.activation(tile, nl.exp, nl.load(right))
    a = nl.load(left)
    return _product(a, tile), _product(a[:, 0:32], tile)


def written_between(left, right):
    """Between the products the tile gets other contents; each is read twice."""
    tile = nl.ndarray(right.shape, dtype=right.dtype, buffer=nl.sbuf)
    a, b = nl.load(left), nl.load(right)
    results = []
    for scale in (1.0, 2.0):
        nisa.tensor_scalar(tile, b, nl.multiply, scale)
        results += [_product(a, tile), _product(a, tile)]
    return tuple(results)


def an_input(left, right):
    """Two products read one window of an input in place."""
    a = nl.load(left)
    return _product(a, nl.load(right)), _product(a[:, 0:64], nl.load(right))


def two_windows(left, right):
    """Two windows of an input; each is read by two products in place."""
    a = nl.load(left[0:64])
    windows = [nl.load(right[0:64]), nl.load(right[32:96])]
    return tuple(_product(part, window) for window in windows for part in (a, a[:, 0:32]))


def few_rows(left, right):
    """A product of 16 rows reads its moving operand where it lies."""
    tile = nl.ndarray(right.shape, dtype=right.dtype, buffer=nl.sbuf)
    nisa.activation(tile, nl.exp, nl.load(right))
    a = nl.load(left)
    return _product(a[:, 0:16], tile), _product(a[:, 0:8], tile)


def once(left, right):
    """One product reads a tile that is computed."""
    tile = nl.ndarray(right.shape, dtype=right.dtype, buffer=nl.sbuf)
    nisa.activation(tile, nl.exp, nl.load(right))
    return _product(nl.load(left), tile)


def packings(kernel: Any, *arguments: Any) -> tuple[int, int]:
    """The copies that pack moving operands, and the products that read what is packed."""
    insts: list[Inst] = list(lower(nki.jit(kernel).compile(*arguments).kernel, "gather_scatter").instructions())
    writes = sum(is_panels(access) for inst in insts for access in inst.writes())
    return writes, sum(is_panels(access) for inst in insts for access in inst.reads())


def is_panels(access: Access) -> bool:
    """True of a packed moving operand."""
    return access.dtype is dt.bfloat16_words and len(access.shape) == 3


def bfloat16(*shape: int) -> Any:
    return numbers(*shape).astype(ml_dtypes.bfloat16)


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [(part_by_part, (2, 2)), (computed, (1, 2)), (written_between, (2, 4)), (an_input, (1, 2)), (two_windows, (2, 4))],
)
def test_each_window_is_packed_once(kernel: Any, expected: tuple[int, int], shared: pytest.MonkeyPatch) -> None:
    left, right = bfloat16(96, 64), bfloat16(96, 128)
    assert packings(kernel, left, right) == expected
    results = [result.tobytes() for result in both(kernel, left, right)]
    for outputs in launched(nki.jit(kernel).compile(left, right).kernel, [left, right], shared):
        assert outputs == results


@pytest.mark.parametrize(("nbytes", "distances"), [(1 << 20, [1]), (64 * 128 * 2, [3])])
def test_copies_of_inputs_follow_each_other(nbytes: int, distances: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as they fit: else each stands before the first product that reads it."""
    monkeypatch.setattr(packed_operands, "_MOST_TOGETHER", nbytes)
    assert distances_of_packings(two_windows) == distances


def test_copies_of_tiles_stay_behind_what_writes_the_tile() -> None:
    (distance,) = distances_of_packings(written_between)
    assert distance > 1


def distances_of_packings(kernel: Any) -> list[int]:
    """Products and copies from each copy that packs a moving operand to the next one."""
    insts = lower(nki.jit(kernel).compile(bfloat16(96, 64), bfloat16(96, 128)).kernel, "gather_scatter").instructions()
    seen = [is_packing for inst in insts if (is_packing := packs(inst)) or inst.effects.accumulation is not None]
    places = [place for place, is_packing in enumerate(seen) if is_packing]
    return [after - place for place, after in itertools.pairwise(places)]


def packs(inst: Inst) -> bool:
    """True of a copy that packs a moving operand."""
    return any(is_panels(access) for access in inst.writes())


def test_chunks_of_packing_have_whole_words(shared: pytest.MonkeyPatch) -> None:
    """However small the cache is, a chunk has both rows of each word that it packs."""
    blocks: list[tuple[int, int]] = []
    begin = RegionBuilder.start

    def start(builder: RegionBuilder) -> None:
        region = builder.region
        if region.rows and not region.has_product:
            blocks.append((len(region.rows) // 2, region.block))
        begin(builder)

    shared.setattr(region_builder, "_CACHE", 1)
    shared.setattr(RegionBuilder, "start", start)
    Executable(nki.jit(two_windows).compile(bfloat16(96, 64), bfloat16(96, 128)).kernel)
    assert (3, GROUP) in blocks, "a region of copies, of at most 64 partitions"


@pytest.mark.parametrize("kernel", [few_rows, once])
def test_what_is_read_in_place_or_once_is_not_packed(kernel: Any) -> None:
    left, right = bfloat16(96, 64), bfloat16(96, 128)
    assert packings(kernel, left, right) == (0, 0)
    both(kernel, left, right)


@pytest.mark.parametrize(("rows", "columns"), [(96, 130), (80, 128), (20, 128)])
def test_parts_of_groups_and_panels_are_not_packed(rows: int, columns: int) -> None:
    left, right = bfloat16(rows, 64), bfloat16(rows, columns)
    assert packings(computed, left, right) == (0, 0)
    both(computed, left, right)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_other_dtypes_are_not_packed(dtype: Any) -> None:
    left, right = numbers(96, 64).astype(dtype), numbers(96, 128).astype(dtype)
    assert packings(computed, left, right) == (0, 0)


@pytest.mark.parametrize("scale", [2.0**-120, 2.0**-70, 2.0**-40])
def test_small_numbers_of_packed_operands(scale: float) -> None:
    """Products whose digits tile registers would lose go through float32, also from packed operands."""
    left, right = bfloat16(96, 64), (numbers(96, 128) * np.float32(scale)).astype(ml_dtypes.bfloat16)
    left[:, :32] = (numbers(96, 32) * np.float32(2.0**-60)).astype(ml_dtypes.bfloat16)
    assert packings(an_input, left, right) == (1, 2)
    both(an_input, left, right)


def test_nothing_is_packed_without_tile_registers() -> None:
    program = nki.jit(an_input).compile(bfloat16(96, 64), bfloat16(96, 128)).kernel
    assert packed_operands.pack_operands(program.core.body, (), lambda: False) is None
