"""Spills: a kernel that holds more than fits gives the bits that it gives in a larger memory."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import nki
import nki.isa as nisa
import nki.language as nl
from nki import target
from nki.base.element_types import float32
from nki.base.errors import AccumulationError, MemoryFullError
from nki.compilation import pipeline, simulated_run
from nki.compilation.executable import Executable
from nki.compilation.vendor_options import CompileConfig
from nki.ir.program import Program
from nki.ir.text import parser, printer
from nki.ir.types import Buffer, Tensor, TensorSpec
from nki.isa.instructions.dma_copy import DmaCopy
from nki.passes.allocation.spilling import ROLE
from nki.passes.verify import Verify
from nki.target.fact_rows import Fact
from nki.target.model import Target

TRN2 = target.find("trn2")
COLUMNS = 64
Array = NDArray[Any]


def small(sbuf: int = TRN2.sbuf_usable_partition_bytes, psum: int = TRN2.psum_partition_bytes) -> Target:
    """trn2 with less memory."""
    return TRN2.with_facts(
        {
            "sbuf_usable_partition_bytes": Fact(sbuf, "bytes", "this test"),
            "psum_partition_bytes": Fact(psum, "bytes", "this test"),
        }
    )


def compiled(kernel: Callable[..., Any], machine: Target, stop: str = "allocate", **shapes: tuple[int, ...]) -> Program:
    """The program of ``kernel`` for float32 tensors, which may spill."""
    specs = {name: TensorSpec(name, shape, float32) for name, shape in shapes.items()}
    return pipeline.compile(kernel, specs, machine, stop=stop, configs=(CompileConfig(), None))


def outputs(program: Program, *arrays: Array) -> list[Array]:
    """What ``program`` returns: native and reference executor agree."""
    expected = simulated_run.run(program, [array.view(np.uint8).reshape(-1).copy() for array in arrays])
    results = [np.zeros(t.nbytes, np.uint8) for t in program.outputs]
    Executable(program).launch([a.ctypes.data for a in (*arrays, *results)])
    for one, other in zip(expected, results, strict=True):
        np.testing.assert_array_equal(np.asarray(one).view(np.uint8).reshape(-1), other)
    return [result.view(np.float32) for result in results]


def homes(program: Program) -> list[Tensor]:
    return [tensor for tensor in program.core.tensors if tensor.role == ROLE]


def fits(program: Program, machine: Target) -> None:
    """The result is a legal program of ``machine``, without memory beyond it, and has a text form."""
    Verify().check(program, program, machine)
    for tensor, (_, offset) in program.core.placement.items():
        most = machine.sbuf_usable_partition_bytes if tensor.buffer is Buffer.sbuf else machine.psum_partition_bytes
        assert offset + tensor.bytes_per_partition <= most
    assert parser.parse(printer.show(program)) == program


TILES = 6
STEPS = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, TILES - 1), st.integers(0, TILES - 1), st.integers(0, 3)),
    min_size=1,
    max_size=24,
)


def drawn_kernel(steps: tuple[tuple[int, int, int, int], ...]) -> Callable[..., Any]:
    """A kernel that loads, changes in part, adds and multiplies tiles of COLUMNS columns as ``steps`` say."""

    def kernel(x, y):
        tiles = [nl.ndarray((128, COLUMNS), dtype=nl.float32, buffer=nl.sbuf) for _ in range(TILES)]
        sums = [nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.psum) for _ in range(3)]
        for i in range(TILES):
            nisa.dma_copy(dst=tiles[i], src=x[i])
        for i, psum in enumerate(sums):
            nisa.nc_matmul(psum, tiles[i], tiles[i + 1])
        for kind, one, two, part in steps:
            columns = slice(part * 16, part * 16 + 16)
            if kind == 0:
                nisa.dma_copy(dst=tiles[one], src=x[two])
            elif kind == 1:
                nisa.dma_copy(dst=tiles[one][:, columns], src=x[two][:, columns])
            elif kind == 2:
                nisa.tensor_tensor(tiles[one], tiles[one], tiles[two], nl.add)
            elif kind == 3:
                nisa.tensor_scalar(tiles[one][:, columns], tiles[two][:, columns], nl.multiply, 0.5)
            elif kind == 4:
                nisa.nc_matmul(sums[part % 3], tiles[one], tiles[two], accumulate=part == 3)
            else:
                nisa.tensor_tensor(tiles[one][0:64], tiles[one][0:64], sums[part % 3], nl.add)
        out = nl.ndarray((TILES, 128, COLUMNS), dtype=nl.float32, buffer=nl.shared_hbm)
        more = nl.ndarray((3, 64, 64), dtype=nl.float32, buffer=nl.shared_hbm)
        for i in range(TILES):
            nisa.dma_copy(dst=out[i], src=tiles[i])
        for i, psum in enumerate(sums):
            last = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_copy(last, psum)
            nisa.dma_copy(dst=more[i], src=last)
        return out, more

    return kernel


@pytest.mark.filterwarnings("ignore:nc_matmul:")
@settings(max_examples=25)
@given(STEPS, st.integers(3, 6), st.integers(1, 3))
def test_the_bits_of_a_larger_memory(steps: list[tuple[int, int, int, int]], room: int, banks: int) -> None:
    kernel, shapes = drawn_kernel(tuple(steps)), {"x": (TILES, 128, COLUMNS), "y": (128, COLUMNS)}
    machine = small(room * COLUMNS * 4, banks * TRN2.psum_bank_bytes)
    arrays = [np.random.default_rng(0).standard_normal(shape, np.float32) for shape in shapes.values()]
    try:
        more = compiled(kernel, TRN2, **shapes)
    except AccumulationError:  # the drawn kernel reads a sum before its last matmul
        assume(False)
        raise
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", nki.NkiSpillWarning)
        try:
            less = compiled(kernel, machine, **shapes)
        except MemoryFullError:  # only sums that are not complete do not wait elsewhere
            assert banks == 1 and any(kind == 4 and part == 3 for kind, _, _, part in steps)
            return
    fits(less, machine)
    for one, other in zip(outputs(more, *arrays), outputs(less, *arrays), strict=True):
        np.testing.assert_array_equal(one.view(np.uint32), other.view(np.uint32))


def changed_kernel(x):
    """Loads all rows, and adds the last one to the others; tiles change before and after they wait."""
    tiles = []
    for i in range(x.shape[0]):
        tile = nl.ndarray((128, COLUMNS), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[i])
        nisa.tensor_scalar(tile, tile, nl.add, 1.0)
        tiles.append(tile)
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    for tile in tiles[:-1]:
        nisa.tensor_tensor(tile, tile, tiles[-1], nl.add)
    for i in range(x.shape[0]):
        nisa.dma_copy(dst=out[i], src=tiles[i])
    return out


def changed(x: Array) -> Array:
    """What ``changed_kernel`` returns."""
    result = x + np.float32(1)
    result[:-1] += result[-1]
    return result.reshape(-1)


def copies(program: Program, home: bool) -> int:
    """DMA copies to (``home``) or from HBM tensors in which tiles wait."""
    found = [inst for inst in program.core.instructions() if isinstance(inst, DmaCopy)]
    return sum((inst.dst if home else inst.src).tensor.role == ROLE for inst in found)


def loaded_kernel(x):
    """Loads all rows, reads each one at once, and again from the last to the first."""
    tiles = []
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    for i in range(x.shape[0]):
        tile = nl.ndarray((128, COLUMNS), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[i])
        nisa.dma_copy(dst=out[x.shape[0] - 1 - i], src=tile)
        tiles.append(tile)
    for i in reversed(range(x.shape[0])):
        nisa.dma_copy(dst=out[i], src=tiles[i])
    return out


def test_what_was_only_loaded_is_loaded_again_and_not_stored() -> None:
    machine, shape = small(4 * COLUMNS * 4), (10, 128, COLUMNS)
    with pytest.warns(nki.NkiSpillWarning, match=r"keeps no tile elsewhere but loads.*\(0 bytes stored, \d+ loaded"):
        program = compiled(loaded_kernel, machine, x=shape)
    assert not homes(program)
    loads = [i for i in program.core.instructions() if isinstance(i, DmaCopy) and i.dst.buffer is Buffer.sbuf]
    assert 16 <= len(loads) <= 17  # three or four of the ten rows are still there
    fits(program, machine)
    x = np.random.default_rng(1).standard_normal(shape, np.float32)
    np.testing.assert_array_equal(outputs(program, x)[0], x.reshape(-1))


def constants_kernel(x):
    """Fills tiles with numbers, loads as many, and uses the numbers last."""
    filled, loaded = [], []
    for i in range(x.shape[0]):
        tile = nl.ndarray((128, COLUMNS), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(dst=tile, value=float(i))
        filled.append(tile)
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    for i in range(x.shape[0]):
        tile = nl.ndarray((128, COLUMNS), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[i])
        nisa.tensor_scalar(tile, tile, nl.add, 1.0)
        loaded.append(tile)
    for i in range(x.shape[0]):
        nisa.tensor_tensor(filled[i], filled[i], loaded[i], op=nl.add)
        nisa.dma_copy(dst=out[i], src=filled[i])
    return out


def test_constants_are_made_again_and_not_stored() -> None:
    machine, shape = small(6 * COLUMNS * 4), (8, 128, COLUMNS)
    with pytest.warns(nki.NkiSpillWarning):
        program = compiled(constants_kernel, machine, x=shape)
    assert len(homes(program)) <= 8  # of the tiles that were loaded and changed
    assert sum(inst.mnemonic == "memset" for inst in program.core.instructions()) == 8
    fits(program, machine)
    x = np.random.default_rng(3).standard_normal(shape, np.float32)
    wanted = (x + np.float32(1)) + np.arange(8, dtype=np.float32)[:, None, None]
    np.testing.assert_array_equal(outputs(program, x)[0], wanted.reshape(-1))


def rows_kernel(x, y):
    """Adds short rows ``x`` and long ones ``y`` to a total, in the same turn, again and again."""
    short, long = [], []
    for i in range(x.shape[0]):
        tile = nl.ndarray((128, x.shape[2]), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[i])
        short.append(tile)
    for i in range(y.shape[0]):
        tile = nl.ndarray((128, y.shape[2]), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=y[i])
        long.append(tile)
    out = nl.ndarray((3, *x.shape), dtype=nl.float32, buffer=nl.shared_hbm)
    total = nl.ndarray((128, x.shape[2]), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(total, value=0.0)
    for turn in range(3):
        for i in range(x.shape[0]):
            nisa.tensor_tensor(total, total, short[i], op=nl.add)
            nisa.tensor_tensor(total, total, long[i][:, 0 : x.shape[2]], op=nl.add)
            nisa.dma_copy(dst=out[turn, i], src=total)
    return out


def test_short_rows_stay_where_long_ones_cost_less_for_each_byte() -> None:
    machine = small(17 * 16 * 4 + 10 * 1024 * 4)
    with pytest.warns(nki.NkiSpillWarning):
        program = compiled(rows_kernel, machine, x=(16, 128, 16), y=(16, 128, 1024))
    loads = [i for i in program.core.instructions() if isinstance(i, DmaCopy) and i.dst.buffer is Buffer.sbuf]
    assert sum(load.dst.shape[1] == 16 and load.src.tensor.role == "input" for load in loads) == 16
    fits(program, machine)


def test_what_was_changed_is_stored_once_for_each_change() -> None:
    machine, shape = small(4 * COLUMNS * 4), (10, 128, COLUMNS)
    tile = 128 * COLUMNS * 4
    with pytest.warns(nki.NkiSpillWarning) as warned:
        program = compiled(changed_kernel, machine, x=shape)
    stored, loaded = copies(program, home=True), copies(program, home=False)
    assert 6 <= stored <= 20 and 6 <= loaded <= 20 and len(homes(program)) <= 10
    (message,) = [str(w.message) for w in warned]
    assert f"({stored * tile} bytes stored, {loaded * tile} loaded again)" in message
    assert "sbuf of trn2 has 1024 bytes per partition" in message and "docs/memory.md" in message
    fits(program, machine)
    x = np.random.default_rng(2).standard_normal(shape, np.float32)
    np.testing.assert_array_equal(outputs(program, x)[0], changed(x))


def test_the_whole_pipeline_runs_behind_spills() -> None:
    with pytest.warns(nki.NkiSpillWarning):
        program = compiled(changed_kernel, small(4 * COLUMNS * 4), stop="sync", x=(10, 128, COLUMNS))
    x = np.random.default_rng(3).standard_normal((10, 128, COLUMNS), np.float32)
    np.testing.assert_array_equal(outputs(program, x)[0], changed(x))


def loop_kernel(x):
    """A loop on the device uses one tile of many, and has tiles of its own."""
    tiles = []
    for i in range(6):
        tile = nl.ndarray((128, COLUMNS), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[i])
        nisa.tensor_scalar(tile, tile, nl.add, 1.0)
        tiles.append(tile)
    out = nl.ndarray((6, 128, COLUMNS), dtype=nl.float32, buffer=nl.shared_hbm)

    def body(_):
        half = nl.ndarray((128, COLUMNS), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(half, tiles[0], nl.multiply, 0.5)
        nisa.tensor_tensor(tiles[5], tiles[5], half, nl.add)

    nl.fori_loop(0, 3, body)
    for tile in tiles[:5]:
        nisa.tensor_tensor(tile, tile, tiles[5], nl.add)
    for i in range(6):
        nisa.dma_copy(dst=out[i], src=tiles[i])
    return out


def test_a_loop_keeps_what_it_uses() -> None:
    machine = small(3 * COLUMNS * 4)
    with pytest.warns(nki.NkiSpillWarning):
        program = compiled(loop_kernel, machine, x=(6, 128, COLUMNS))
    fits(program, machine)
    x = np.random.default_rng(4).standard_normal((6, 128, COLUMNS), np.float32)
    expected = x + 1
    for _ in range(3):
        expected[5] += expected[0] * np.float32(0.5)
    expected[:5] += expected[5]
    np.testing.assert_array_equal(outputs(program, x)[0], expected.reshape(-1))
    with pytest.raises(MemoryFullError):
        compiled(loop_kernel, small(2 * COLUMNS * 4), x=(6, 128, COLUMNS))


def sums_kernel(x, y):
    """Three sums in PSUM, complete before they are read in turn, twice; ``y``: to which the kernel adds once more."""
    right = nl.load(x)
    left, columns = right[:, 0:64], x.shape[1]
    sums = [nl.ndarray((64, columns), dtype=nl.float32, buffer=nl.psum) for _ in range(3)]
    for psum in sums:
        nisa.nc_matmul(psum, left, right)
    for psum in sums[: y.shape[0] - 1]:
        nisa.nc_matmul(psum, left, right, accumulate=True)
    out = nl.ndarray((6, 64, columns), dtype=nl.float32, buffer=nl.shared_hbm)
    total = nl.zeros((64, columns), dtype=nl.float32)
    for i in range(6):
        nisa.tensor_tensor(total, total, sums[i % 3], nl.add)
        nl.store(out[i], total)
    return out


def test_a_complete_sum_waits_in_sbuf_and_an_open_one_stays() -> None:
    machine, shape = small(psum=2 * TRN2.psum_bank_bytes), (128, 300)
    with pytest.warns(nki.NkiSpillWarning, match="in SBUF meanwhile"):
        program = compiled(sums_kernel, machine, x=shape, y=(1, 1))
    fits(program, machine)
    x = np.random.default_rng(5).standard_normal(shape, np.float32)
    expected = outputs(compiled(sums_kernel, TRN2, x=shape, y=(1, 1)), x, x)
    np.testing.assert_array_equal(outputs(program, x, x)[0], expected[0])
    with pytest.raises(MemoryFullError):
        compiled(sums_kernel, machine, x=shape, y=(4, 1))


@pytest.mark.parametrize("open_sums", [1, 4])
def test_small_sums_share_banks_instead(open_sums: int) -> None:
    machine, shapes = small(psum=TRN2.psum_bank_bytes), {"x": (128, 64), "y": (open_sums, 1)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = compiled(sums_kernel, machine, **shapes)
    fits(program, machine)
    x = np.random.default_rng(6).standard_normal(shapes["x"], np.float32)
    expected = outputs(compiled(sums_kernel, TRN2, **shapes), x, x[:open_sums, :1])
    np.testing.assert_array_equal(outputs(program, x, x[:open_sums, :1])[0], expected[0])


def test_tiles_that_an_index_moves_share_no_bank() -> None:
    def kernel(x):
        tiles = [nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.psum) for _ in range(3)]
        for tile in tiles:
            nisa.nc_matmul(tile, nl.load(x), nl.load(x))
        register = nisa.register_alloc(3)
        out = nl.ndarray((64, 7), dtype=nl.float32, buffer=nl.shared_hbm)
        columns = nl.zeros((64, 7), dtype=nl.float32)
        for i in range(6):
            column = tiles[i % 3].ap([[64, 64], [1, 1]], scalar_offset=register, indirect_dim=1)
            nisa.tensor_tensor(columns[:, i + 1 : i + 2], columns[:, i : i + 1], column, nl.add)
        nisa.dma_copy(dst=out, src=columns)
        return out

    with pytest.warns(nki.NkiSpillWarning, match="in SBUF meanwhile"):
        program = compiled(kernel, small(psum=2 * TRN2.psum_bank_bytes), x=(128, 64))
    assert not [tensor.name for tensor in program.core.tensors if "bank" in tensor.name]


def big(x):
    tiles = []
    for i in range(4):
        tile = nl.ndarray((128, 16_384), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[i])
        nisa.tensor_scalar(tile, tile, nl.add, float(i))
        tiles.append(tile)
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    for tile in tiles[:3]:
        nisa.tensor_tensor(tile, tile, tiles[3], nl.add)
    for i in range(4):
        nisa.dma_copy(dst=out[i], src=tiles[i])
    return out


def test_only_a_kernel_with_a_configuration_that_allows_it_spills() -> None:
    x = np.random.default_rng(6).standard_normal((4, 128, 16_384), np.float32)
    expected = x + np.arange(4, dtype=np.float32)[:, None, None]
    expected[:3] += expected[3]
    spilling = nki.jit(big, compile_config=CompileConfig())
    with pytest.warns(nki.NkiSpillWarning):
        np.testing.assert_array_equal(spilling(x), expected)
    with pytest.warns(nki.NkiSpillWarning):
        np.testing.assert_array_equal(nki.simulate(spilling)(x), expected)
    for kernel in (nki.jit(big), nki.jit(big, compile_config=CompileConfig(nki_alloc_fallback=False))):
        with pytest.raises(MemoryFullError):
            kernel(x)
        with pytest.raises(MemoryFullError):
            nki.simulate(kernel)(x)


def read_kernel(x, y):
    """Products that each are read twice, the first one in a loop on the device, too."""
    right = nl.load(x)
    sums = [nl.ndarray((64, 300), dtype=nl.float32, buffer=nl.psum) for _ in range(4)]
    for i, psum in enumerate(sums):
        nisa.nc_matmul(psum, right[:, i : i + 64], right)
    out = nl.ndarray((9, 64, 300), dtype=nl.float32, buffer=nl.shared_hbm)
    sofar = nl.zeros((64, 300), dtype=nl.float32)
    for i in range(8):
        nisa.tensor_tensor(sofar, sofar, sums[i % 4], nl.add)
        nl.store(out[i], sofar)
    total = nl.load(y)

    def body(_):
        nisa.tensor_tensor(total, total, sums[0], nl.add)

    nl.fori_loop(0, 3, body)
    nl.store(out[8], total)
    return out


def test_a_tile_of_psum_is_read_where_it_waits() -> None:
    machine, shapes = small(psum=2 * TRN2.psum_bank_bytes), {"x": (128, 300), "y": (64, 300)}
    with pytest.warns(nki.NkiSpillWarning, match="in SBUF meanwhile"):
        program = compiled(read_kernel, machine, **shapes)
    fits(program, machine)
    copies = [inst for inst in program.core.instructions() if inst.mnemonic == "tensor_copy"]
    assert 2 <= len(copies) <= 3
    assert all(access.buffer is Buffer.sbuf for inst in copies for access in inst.writes())
    rng = np.random.default_rng(6)
    arrays = [rng.standard_normal(shape, np.float32) for shape in shapes.values()]
    expected = outputs(compiled(read_kernel, TRN2, **shapes), *arrays)
    np.testing.assert_array_equal(outputs(program, *arrays)[0], expected[0])


def rotated(x, cos, sin):
    """Pairs of rows turned by angles: three tiles are enough at any instruction."""
    half, width = cos.shape[0], cos.shape[1] // 2
    loaded = [nl.ndarray((half, width), dtype=nl.float32, buffer=nl.sbuf) for _ in range(4)]
    results = [nl.ndarray((half, width), dtype=nl.float32, buffer=nl.sbuf) for _ in range(4)]
    first, second, cosine, sine = loaded
    for tile, source in zip(loaded, (x[0:half], x[half:], cos, sin), strict=True):
        nisa.dma_copy(dst=tile, src=source[:, 0:width])
    for tile, one, factor in zip(results, (first, second, first, second), (cosine, cosine, sine, sine), strict=True):
        nisa.tensor_tensor(tile, one, factor, nl.multiply)
    nisa.tensor_tensor(results[0], results[0], results[3], nl.subtract)
    nisa.tensor_tensor(results[1], results[1], results[2], nl.add)
    out = nl.ndarray((2, half, width), dtype=nl.float32, buffer=nl.shared_hbm)
    for i in range(2):
        nisa.dma_copy(dst=out[i], src=results[i])
    return out


@pytest.mark.filterwarnings("ignore::nki.NkiSpillWarning")
@pytest.mark.parametrize("width", [8, 64])
@pytest.mark.parametrize("room", [3, 3.5, 4, 5])
def test_rows_of_any_length_give_way(width: int, room: float) -> None:
    machine = small(int(room * width * 2))
    shapes = {"x": (128, width), "cos": (64, width), "sin": (64, width)}
    program = compiled(rotated, machine, **shapes)
    fits(program, machine)
    arrays = [np.random.default_rng(6).standard_normal(shape, np.float32) for shape in shapes.values()]
    expected = outputs(compiled(rotated, TRN2, **shapes), *arrays)
    np.testing.assert_array_equal(outputs(program, *arrays)[0], expected[0])


def sized_kernel(sizes: tuple[int, ...], steps: tuple[tuple[int, int, int], ...]) -> Callable[..., Any]:
    """A kernel on tiles of several ``sizes`` in columns, which adds parts of them to one another."""

    def kernel(x):
        tiles = [nl.ndarray((128, size), dtype=nl.float32, buffer=nl.sbuf) for size in sizes]
        out = nl.ndarray((128, sum(sizes)), dtype=nl.float32, buffer=nl.shared_hbm)
        for tile, size in zip(tiles, sizes, strict=True):
            nisa.dma_copy(dst=tile, src=x[:, 0:size])
        for kind, one, two in steps:
            dst, src = tiles[one % len(sizes)], tiles[two % len(sizes)]
            columns = min(dst.shape[1], src.shape[1])
            if kind == 0:
                nisa.tensor_tensor(dst[:, 0:columns], dst[:, 0:columns], src[:, 0:columns], nl.add)
            elif kind == 1:
                nisa.tensor_copy(dst[:, 0:columns], src[:, 0:columns])
            else:
                nisa.memset(dst, value=float(two))
        start = 0
        for tile, size in zip(tiles, sizes, strict=True):
            nisa.dma_copy(dst=out[:, start : start + size], src=tile)
            start += size
        return out

    return kernel


SIZED = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 7), st.integers(0, 7)), min_size=1, max_size=25).map(tuple)


@pytest.mark.filterwarnings("ignore::nki.NkiSpillWarning")
@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 60), min_size=3, max_size=8).map(tuple), SIZED)
def test_where_each_instruction_has_room_a_kernel_fits(sizes: Any, steps: Any) -> None:
    kernel = sized_kernel(sizes, steps)
    pairs = [sizes[one % len(sizes)] + sizes[two % len(sizes)] for _, one, two in steps if (one - two) % len(sizes)]
    machine = small(4 * max(*sizes, *pairs))
    program = compiled(kernel, machine, x=(128, 60))
    fits(program, machine)
    x = np.random.default_rng(7).standard_normal((128, 60), np.float32)
    expected = outputs(compiled(kernel, TRN2, x=(128, 60)), x)
    np.testing.assert_array_equal(outputs(program, x)[0].view(np.uint32), expected[0].view(np.uint32))
