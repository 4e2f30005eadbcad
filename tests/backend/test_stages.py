"""What each stage around products leaves out, of kernels that users write, and the borders of it.

That bits stay is tested here, with each matrix unit, and with random programs (test_small_programs.py).
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.backend.cpu.native import library
from nki.backend.cpu.stages import share_loads
from nki.compilation.executable import NATIVE_STAGES
from nki.ir.instruction import Inst
from tests.support.both_executors import numbers
from tests.support.kernel_parts import activated, copied, product, returned, stored, transposed
from tests.support.matrix_units import unit
from tests.support.native_programs import lowered, same_bits
from tests.support.shared_launches import shared

__all__ = ["shared", "unit"]
BF16 = ml_dtypes.bfloat16


def left_out(kernel: Any, stage: str, *arrays: Any) -> Counter[str]:
    """The mnemonics of the instructions that a stage leaves out, or makes others of."""
    names = [each.name for each in NATIVE_STAGES]
    before = lowered(kernel, *arrays, stop=names[names.index(stage) - 1])
    after = lowered(kernel, *arrays, stop=stage)
    return Counter(inst.mnemonic for inst in before) - Counter(inst.mnemonic for inst in after)


def check(kernel: Any, stage: str, expected: str, arrays: list[Any], shared: pytest.MonkeyPatch) -> None:
    """Exactly these instructions, separated by blanks, are left out; the bits stay on any number of threads."""
    assert left_out(kernel, stage, *arrays) == Counter(expected.split())
    same_bits(kernel, *arrays, shared=shared)


# fold_transposes: no copy through PSUM behind a transposition


def exponentials(left):
    return activated(nl.load(left), nl.exp)


def attention(left, right):
    """exp(left) @ right."""
    return stored(product(transposed(exponentials(left)), nl.load(right)))


def read_by_another(left, right):
    """The tile that the product reads is a result, too."""
    tile = transposed(nl.load(left))
    return stored(product(tile, nl.load(right))), returned(tile)


def moving(left, right):
    """The transposed tile is the moving operand."""
    return stored(product(nl.load(right), transposed(nl.load(left))))


def converted(left, right):
    """The copy rounds."""
    spread = nl.ndarray((left.shape[1], left.shape[0]), dtype=left.dtype, buffer=nl.psum)
    nisa.nc_transpose(spread, nl.load(left))
    return stored(product(copied(spread, nl.float16), copied(nl.load(right), nl.float16)))


def written_twice(left, right):
    """The tile holds another operand first."""
    tile = nl.ndarray((left.shape[1], left.shape[0]), dtype=left.dtype, buffer=nl.sbuf)
    spread = nl.ndarray(tile.shape, dtype=left.dtype, buffer=nl.psum)
    total = nl.ndarray((left.shape[0], right.shape[1]), dtype=nl.float32, buffer=nl.psum)
    b = nl.load(right)
    nisa.memset(tile, 0.5)
    nisa.nc_transpose(spread, nl.load(left))
    nisa.nc_matmul(total, tile, b)
    nisa.tensor_copy(tile, spread)
    nisa.nc_matmul(total, tile, b)
    return stored(total)


def in_a_loop(left, right):
    """The copy runs again and again."""
    tile = nl.ndarray((left.shape[1], left.shape[0]), dtype=left.dtype, buffer=nl.sbuf)
    spread = nl.ndarray(tile.shape, dtype=left.dtype, buffer=nl.psum)
    nisa.nc_transpose(spread, nl.load(left))

    def body(_):
        nisa.tensor_copy(tile, spread)

    nl.fori_loop(0, 2, body)
    return stored(product(tile, nl.load(right)))


def ordered(left, right):
    """The user has asked for an order of the copy."""
    spread = nl.ndarray((left.shape[1], left.shape[0]), dtype=left.dtype, buffer=nl.psum)
    turn = nisa.nc_transpose(spread, nl.load(left))
    tile = nl.ndarray(spread.shape, dtype=left.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(tile, spread).depends_on(turn)
    return stored(product(tile, nl.load(right)))


def side_by_side(weights, places):
    """Blocks of columns, each transposed, at these places of one tile; neighbours may overlap."""
    rows, width = weights.shape[0], weights.shape[1] // 2
    spread = nl.ndarray((width, 2 * rows), dtype=weights.dtype, buffer=nl.psum)
    for n, at in enumerate(places):
        nisa.nc_transpose(spread[:, at : at + rows], weights[:, n * 32 : n * 32 + width])
    return copied(spread)


def heads(left, right):
    """Two blocks; the last product takes half of the partitions."""
    tile, rows = side_by_side(exponentials(left), (0, left.shape[0])), left.shape[0]
    total = nl.ndarray((rows, right.shape[1]), dtype=nl.float32, buffer=nl.psum)
    for n in range(2):
        depth = tile.shape[0] // (1 + n)
        nisa.nc_matmul(total, tile[0:depth, n * rows : (n + 1) * rows], nl.load(right[0:depth]), accumulate=n > 0)
    return stored(total)


def across_heads(left, right):
    """The product reads columns of both transpositions."""
    tile, rows = side_by_side(nl.load(left), (0, left.shape[0])), left.shape[0]
    return stored(product(tile[:, rows // 2 : rows // 2 + rows], nl.load(right[0 : tile.shape[0]])))


def over_another_head(left, right):
    """Another transposition writes half of the columns again."""
    rows = left.shape[0]
    tile = side_by_side(nl.load(left), (0, rows // 2, rows))
    return stored(product(tile[:, 0:rows], nl.load(right[0 : tile.shape[0]])))


def overwritten(left, right):
    """What is transposed gets other contents before the product."""
    weights = exponentials(left)
    tile = transposed(weights)
    nisa.memset(weights, 1.0)
    return stored(product(tile, nl.load(right))), stored(product(transposed(weights), nl.load(right)))


FOLDED: list[tuple[Any, str, str]] = [
    (attention, "tensor_copy", "tensor_copy nc_transpose"),
    (heads, "tensor_copy", "tensor_copy nc_transpose nc_transpose"),
    (overwritten, "tensor_copy tensor_copy", "tensor_copy tensor_copy nc_transpose"),
    *((kernel, "", "") for kernel in (read_by_another, moving, converted, written_twice, in_a_loop, ordered)),
    *((kernel, "", "") for kernel in (across_heads, over_another_head)),
]
"""Kernels, and what is left out; in bfloat16 where operands are read as words, as these are read as columns as well."""


@pytest.mark.parametrize("case", FOLDED, ids=lambda case: case[0].__name__)
@pytest.mark.parametrize("dtype", [np.float32, BF16])
def test_transpositions(case: tuple[Any, str, str], dtype: Any, unit: str, shared: pytest.MonkeyPatch) -> None:
    kernel, as_floats, as_words = case
    left, right = numbers(64, 128).astype(dtype), numbers(128, 96).astype(dtype)
    left[3], right[5] = left[3] * dtype(2.0**-80), right[5] * dtype(2.0**-70)  # products that words would lose
    expected = as_floats if dtype is np.float32 or unit == "float32" else as_words
    check(kernel, "fold_transposes", expected, [left, right], shared)


@pytest.mark.parametrize(
    "shape", [(100, 77, 33), (17, 128, 40), (3, 5, 7), (128, 100, 512), (48, 96, 64), (128, 128, 1)]
)
def test_transpositions_of_any_size(shape: tuple[int, int, int], unit: str, shared: pytest.MonkeyPatch) -> None:
    """Parts of groups are transposed, for words as well."""
    rows, depth, columns = shape
    arrays = [numbers(rows, depth).astype(BF16), numbers(depth, columns).astype(BF16)]
    check(attention, "fold_transposes", "tensor_copy", arrays, shared)


def test_threads_meet_nowhere_between_softmax_and_product(shared: pytest.MonkeyPatch) -> None:
    del shared  # regions are worth a team, however small they are
    for kernel in (attention, heads):
        (core,) = nki.jit(kernel).compile(numbers(128, 128), numbers(128, 64)).linked.cores
        assert core.table[: core.entries, 0].tolist() == [library.address("region")]


# share_loads: each window of an input once, and what is filled by parts where the parts lie


def tiled(left, right):
    """Tiles of 64 x 64 x 128."""
    result = nl.ndarray((left.shape[1], right.shape[1]), dtype=nl.float32, buffer=nl.shared_hbm)
    for m in range(0, left.shape[1], 64):
        for n in range(0, right.shape[1], 128):
            total = nl.ndarray((64, 128), dtype=nl.float32, buffer=nl.psum)
            for k in range(0, left.shape[0], 64):
                nisa.nc_matmul(total, nl.load(left[k : k + 64, m : m + 64]), nl.load(right[k : k + 64, n : n + 128]))
            nisa.dma_copy(result[m : m + 64, n : n + 128], copied(total))
    return result


def window_of_a_tile(left, right):
    """A product with a part of a tile that is loaded whole."""
    a, b = nl.load(left), nl.load(right)
    return stored(product(a[32:64], b[32:64, 32:72])), stored(product(a[32:64], b[32:64, 64:96]))


def changed_between(left, right):
    """The second load of a window finds other numbers."""
    memory = nl.ndarray(right.shape, dtype=right.dtype, buffer=nl.shared_hbm)
    a, results = nl.load(left), []
    nisa.dma_copy(memory, right)
    for _ in range(2):
        result = copied(product(a, nl.load(memory[0:64, 0:64])), a.dtype)
        results.append(returned(result))
        nisa.dma_copy(memory[0:64, 0:64], result)
    return *results, memory


def changed_tile(left, right):
    """Of two tiles with one window one changes before its product."""
    b, results = nl.load(right), []
    for scale in (1.0, 2.0):
        a = nl.load(left[:, 0:32])
        if scale != 1.0:
            nisa.memset(a[:, 0:16], scale)
        results.append(stored(product(a, b)))
    return tuple(results)


def blocks(left, right, change=""):
    """All blocks of 64 rows of an operand side by side in one tile."""
    count, rows, columns = left.shape[0] // 64, left.shape[1], right.shape[1]
    a = nl.ndarray((64, count, rows), dtype=left.dtype, buffer=nl.sbuf)
    b = nl.ndarray((64, count, columns), dtype=right.dtype, buffer=nl.sbuf)
    for k in range(count):
        nisa.dma_copy(a[:, k, :], left[k * 64 : (k + 1) * 64])
        nisa.dma_copy(b[:, k, :], right[k * 64 : (k + 1) * 64])
    if change == "computed":
        nisa.tensor_scalar(a[:, 1, :], a[:, 1, :], nl.multiply, 2.0)
    if change == "overwritten":
        nisa.dma_copy(a[:, 1, :], left[0:64])
    results = []
    for m in range(0, rows, 32):
        total = nl.ndarray((32, columns), dtype=nl.float32, buffer=nl.psum)
        for k in range(count):
            nisa.nc_matmul(total, a[32:64, k, m : m + 32], b[32:64, k, :], accumulate=k > 0)
        if change == "late" and m == 0:
            nisa.dma_copy(a[:, 0, :], left[64:128])
        if change == "across":
            nisa.nc_matmul(total, a.reshape((64, count * rows))[32:64, rows - 16 : rows + 16], b[32:64, 0, :])
        results.append(stored(total))
    return tuple(results)


def blocks_that(change):
    def kernel(left, right):
        return blocks(left, right, change)

    kernel.__name__ = f"blocks_{change}"
    return kernel


def copies(count: int) -> str:
    return " ".join(["dma_copy"] * count)


SHARED = [
    (tiled, copies(2 * 8 - 2 * 2 - 2 * 2)),
    (window_of_a_tile, ""),
    (changed_between, ""),
    (changed_tile, ""),
    (blocks, copies(4)),
    *((blocks_that(change), copies(2)) for change in ("computed", "overwritten", "late", "across")),
]
"""Kernels, and the copies that are left out."""


@pytest.mark.parametrize("case", SHARED, ids=lambda case: case[0].__name__)
@pytest.mark.parametrize("dtype", [np.float32, BF16, np.float16])
def test_loads(case: tuple[Any, str], dtype: Any, shared: pytest.MonkeyPatch) -> None:
    kernel, expected = case
    rows = 64 if kernel in (window_of_a_tile, changed_between, changed_tile) else 128
    arrays = [numbers(rows, 64 if rows == 64 else 128).astype(dtype), numbers(rows, 256).astype(dtype)]
    check(kernel, "share_loads", expected, arrays, shared)


def is_load(insts: list[Inst]) -> list[bool]:
    """True of the copies into tiles on chip."""
    return [(copy := inst.as_copy()) is not None and copy.dst.buffer is nl.sbuf for inst in insts]


def test_shared_tiles_have_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loads with the readers nearest to each other come first: here two of ``left``, 16 KiB each."""
    monkeypatch.setattr(share_loads, "_MOST_BYTES", 2 * 64 * 64 * 4)
    insts = lowered(tiled, numbers(128, 192), numbers(128, 256), stop="share_loads")
    assert sum(is_load(insts)) == 2 * 3 + 2 * 2 * 3


def test_an_input_that_is_written_between_is_copied() -> None:
    """What was copied counts, although products read it after the write."""

    def kernel(weights, right):
        a, b = nl.ndarray((64, 2, 64), dtype=weights.dtype, buffer=nl.sbuf), nl.load(right)
        for k in range(2):
            nisa.dma_copy(a[:, k, :], weights[k * 64 : (k + 1) * 64])
        nisa.dma_copy(weights[0:64], b)
        total = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.psum)
        for k in range(2):
            nisa.nc_matmul(total, a[:, k, :], b)
        return stored(total), weights

    weights, right = numbers(128, 64), numbers(64, 64)
    old = weights.copy()
    result, new = nki.jit(kernel)(weights, right)
    np.testing.assert_allclose(result, old[:64].T @ right + old[64:].T @ right, rtol=1e-4, atol=1e-3)
    np.testing.assert_array_equal(new, np.concatenate([right, old[64:]]))
