"""Grids of tiles and of blocks select what NumPy selects, wherever the tiles lie; kernels that go through them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nki
import nki.isa as nisa
import nki.language as nl
from nki.base.errors import TensorOperatorError, TileShapeError, TileTypeError, ViewError
from nki.frontend.builder import Builder
from nki.ir.recorder import recording
from nki.language.grids import NkiGrid
from nki.target import GEN3
from tests.support.both_executors import both, numbers, refused
from tests.support.kernel_parts import returned

Array = np.ndarray[Any, Any]
HBM, CHIP = [nl.shared_hbm, nl.private_hbm], [nl.sbuf, nl.psum]


@dataclass
class Model:
    """The selection as lists: for each source dimension the coordinates, and for each of them its elements.

    ``places`` holds the element of the storage behind each element of the source.
    """

    places: Array
    tile: tuple[int, ...]
    block: tuple[int, ...] | None
    coordinates: list[list[list[int]]]
    live: list[int]

    @property
    def front(self) -> int:
        return self.places.ndim - len(self.tile)

    def elements(self, dim: int) -> list[int]:
        return [element for coordinate in self.coordinates[dim] for element in coordinate]

    def grouped(self, elements: list[int], dim: int) -> list[list[int]]:
        """The elements of a dimension, cut into coordinates."""
        nominal = self.nominal(dim)
        return [elements[at : at + nominal] for at in range(0, len(elements), nominal)]

    def nominal(self, dim: int) -> int:
        at = dim - self.front
        return 1 if at < 0 else self.tile[at] * (self.block[at] if self.block else 1)

    def anew(self, tile: tuple[int, ...], block: tuple[int, ...] | None) -> Model:
        """The selection as a source of its own; slabs that were chosen stay chosen."""
        chosen = [dim for dim in range(self.front) if dim not in self.live]
        model = Model(self.selected(), tile, block, [], [])
        model.live = [dim for dim in range(self.places.ndim) if dim not in chosen]
        model.coordinates = [model.grouped(list(range(n)), dim) for dim, n in enumerate(model.places.shape)]
        return model

    def selected(self) -> Array:
        return self.places[np.ix_(*(self.elements(dim) for dim in range(self.places.ndim)))]


def places_of(tensor: Any) -> Array:
    """The element of the storage behind each element of a tensor."""
    access = tensor.access
    steps = zip(np.indices(access.shape), access.strides, strict=True)
    return access.offset + sum((index * step for index, step in steps), np.zeros(access.shape, int))


def begin(places: Array, tile: tuple[int, ...]) -> Model:
    coordinates = [[[element] for element in range(n)] for n in places.shape]
    return Model(places, tile, None, coordinates, list(range(places.ndim))).anew(tile, None)


def capacity(extent: tuple[int, ...], tile: tuple[int, ...]) -> Array:
    """The layout of tiles on chip, element by element: tile after tile in the free dimension of ``tile[0]`` rows."""
    counts = [-(-n // size) for n, size in zip(extent, tile, strict=True)]
    room = int(np.prod(tile[1:]))
    places = np.zeros(extent, int)
    for at in np.ndindex(*extent):
        number = int(np.ravel_multi_index([e // size for e, size in zip(at, tile, strict=True)], counts))
        inner = [e % size for e, size in zip(at, tile, strict=True)]
        within = int(np.ravel_multi_index(inner[1:], tile[1:]))
        places[at] = inner[0] * room * int(np.prod(counts)) + number * room + within
    return places


@st.composite
def grids(draw: st.DrawFn) -> tuple[NkiGrid, Model]:
    """A grid of tiles: of a tensor in HBM or on chip, of a part of one, or of storage of its own."""
    rank = draw(st.integers(2, 4))
    extent = tuple(draw(st.integers(1, 9)) for _ in range(rank))
    kind = draw(st.sampled_from(["tensor", "part", "alloc"]))
    buffer = draw(st.sampled_from(HBM + CHIP))
    tile_rank = rank if buffer.on_chip else draw(st.integers(2, rank))
    tile = tuple(draw(st.integers(1, 4)) for _ in range(tile_rank))
    if kind == "alloc":
        grid = nl.alloc_tiles(tile_shape=tile, element_shape=extent, buffer=buffer, dtype=nl.float32)
        assert grid.data.access.tensor.shape == extent if buffer.is_hbm else True
        plain = np.arange(np.prod(extent)).reshape(extent)
        return grid, begin(plain if buffer.is_hbm else capacity(extent, tile), tile)
    tensor = nl.ndarray(extent, nl.float32, buffer)
    if kind == "part":
        starts = [draw(st.integers(0, n - 1)) for n in extent]
        tensor = tensor[tuple(slice(at, None) for at in starts)]
    return nl.tiles(tensor, tile_shape=tile), begin(places_of(tensor), tile)


def check(grid: NkiGrid, model: Model) -> None:
    """Compare all members, and the elements that ``data`` names."""
    wanted = model.selected()
    whole = [model.nominal(dim) for dim in range(wanted.ndim)]
    assert grid.shape == tuple(len(model.coordinates[dim]) for dim in model.live)
    assert grid.tile_shape == model.tile and grid.element_shape == wanted.shape
    assert (grid.block_shape if isinstance(grid, nl.NkiBlockGrid) else None) == model.block
    starts = [[coordinate[0] for coordinate in model.coordinates[dim]] for dim in model.live]
    for step, first in zip(grid.index_step_elements, starts, strict=True):
        assert set(np.diff(first)) <= {step}
    assert grid.is_remainder == any(len(c) < n for n, cs in zip(whole, model.coordinates, strict=True) for c in cs)
    even = all(len(set(np.diff(wanted, axis=dim).ravel())) <= 1 for dim in range(wanted.ndim))
    partition = model.places.shape[0] > 1 and grid.buffer.on_chip and wanted.shape[0] > 1
    even = even and not (partition and wanted.flat[wanted.size // wanted.shape[0]] - wanted.flat[0] != row(grid))
    assert grid.is_data_representable == even
    if even:
        assert grid.data.shape == wanted.shape and grid.data.dtype is nl.float32 and grid.buffer is grid.data.buffer
        assert (places_of(grid.data) == wanted).all()
    else:
        with pytest.raises(ViewError, match="not one tensor"):
            _ = grid.data


def row(grid: NkiGrid) -> int:
    return grid.source.tensor.free_size


@given(st.data())
def test_a_grid_selects_what_numpy_selects(data: st.DataObject) -> None:
    with recording(Builder("test", GEN3)):
        grid, model = data.draw(grids())
        check(grid, model)
        for _ in range(data.draw(st.integers(0, 4))):
            grid, model = stepped(data.draw, grid, model)
            check(grid, model)


@pytest.fixture
def recorded() -> Iterator[None]:
    with recording(Builder("test", GEN3)):
        yield


def stepped(draw: Callable[..., Any], grid: NkiGrid, model: Model) -> tuple[NkiGrid, Model]:
    """Index, open, group or tile anew."""
    step = draw(st.sampled_from(["index", "index", "tiles", "blocks", "anew"]))
    if step == "index":
        return indexed(draw, grid, model)
    if step == "anew":
        tile = tuple(draw(st.integers(1, 4)) for _ in model.tile)
        if not grid.is_data_representable or tile == model.tile:
            return grid, model
        return nl.tiles(grid, tile_shape=tile), model.anew(tile, None)
    block = tuple(draw(st.integers(1, 3)) for _ in model.tile) if step == "blocks" else None
    if apart(grid):
        with pytest.raises(ViewError, match="do not touch"):
            nl.tiles(grid)
        return grid, model
    return nl.tiles(grid) if block is None else nl.blocks(grid, block_shape=block), model.anew(model.tile, block)


def apart(grid: NkiGrid) -> bool:
    """True if blocks were left out between selected ones."""
    return any(axis.grain > 1 and axis.pace > 1 and axis.count > 1 for axis in grid.axes)


def indexed(draw: Callable[..., Any], grid: NkiGrid, model: Model) -> tuple[NkiGrid, Model]:
    keys: list[Any] = []
    after = Model(model.places, model.tile, model.block, list(model.coordinates), [])
    for dim in model.live:
        count = len(model.coordinates[dim])
        if draw(st.booleans()):
            keys.append(draw(st.integers(0, count - 1)))
            after.coordinates[dim] = [model.coordinates[dim][keys[-1]]]
            continue
        start = draw(st.integers(0, count - 1))
        taken = slice(start, draw(st.integers(start + 1, count)), draw(st.integers(1, 3)))
        keys.append(slice(None) if dim < model.front else taken)
        after.coordinates[dim] = model.coordinates[dim][keys[-1]]
        after.live.append(dim)
    return grid[tuple(keys)], after


def copied_by_tiles(a, buffer, tile_shape):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    source, target = nl.tiles(a, tile_shape=tile_shape), nl.tiles(out, tile_shape=tile_shape)
    for i in range(source.shape[0]):
        for j in range(source.shape[1]):
            tile = nl.ndarray(source[i, j].element_shape, dtype=a.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile.data, src=source[i, j].data)
            if buffer == nl.psum:
                bank = nl.ndarray(source[i, j].element_shape, dtype=a.dtype, buffer=nl.psum)
                nisa.tensor_copy(bank.data, tile.data)
                nisa.tensor_copy(tile.data, bank.data)
            nisa.dma_copy(dst=target[i, j].data, src=tile.data)
    return out


def held_in_blocks(a, buffer, tile_shape):
    """The whole of ``a`` in one allocation on chip, loaded and stored tile by tile, computed on block by block."""
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    source, target = nl.tiles(a, tile_shape=tile_shape), nl.tiles(out, tile_shape=tile_shape)
    held = nl.alloc_blocks(
        tile_shape=tile_shape, block_shape=(2, 2), element_shape=a.shape, buffer=buffer, dtype=a.dtype
    )
    for i in range(source.shape[0]):
        for j in range(source.shape[1]):
            at = nl.tiles(held[i // 2, j // 2])[i % 2, j % 2].data
            staged = at if buffer == nl.sbuf else nl.ndarray(at.shape, at.dtype)
            nisa.dma_copy(staged, source[i, j].data)
            if buffer == nl.psum:
                nisa.tensor_copy(at, staged)
    for i in range(held.shape[0]):
        for j in range(held.shape[1]):
            opened = nl.tiles(held[i, j])
            for row in range(opened.shape[0]):
                strip = opened[row, :].data
                result = nl.ndarray(strip.shape, strip.dtype)
                nisa.tensor_scalar(result, strip, nl.multiply, 2.0)
                nl.tiles(nl.blocks(target, block_shape=(2, 2))[i, j])[row, :].data[...] = result
    return out


@pytest.mark.parametrize("buffer", CHIP)
@pytest.mark.parametrize(
    ("shape", "tile_shape"), [((256, 96), (128, 32)), ((200, 100), (64, 32)), ((20, 30), (32, 64))]
)
def test_kernels_go_through_tiles_and_blocks(shape: Any, buffer: Any, tile_shape: Any) -> None:
    a = numbers(*shape)
    assert (both(copied_by_tiles, a, buffer, tile_shape) == a).all()
    assert (both(held_in_blocks, a, buffer, tile_shape) == 2 * a).all()


def returns_a_grid(a):
    held = nl.alloc_tiles(tile_shape=(32, 32), element_shape=a.shape, buffer=nl.shared_hbm, dtype=a.dtype)
    held.data[...] = a
    return held.data


def test_data_of_a_whole_grid_is_the_tensor() -> None:
    assert (both(returns_a_grid, numbers(40, 50)) == numbers(40, 50)).all()


def slabs(a):
    """Three dimensions in HBM; the tiles have two of them."""
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    source, target = nl.tiles(a, tile_shape=(16, 16)), nl.tiles(out, tile_shape=(16, 16))
    for b in range(source.shape[0]):
        for i in range(source.shape[1]):
            for j in range(source.shape[2]):
                tile = nl.load(source[b, i, j].data[0])
                target[b][i, j].data[0] = tile
    return out


def test_dimensions_in_front_of_the_tiles_are_indexed_slab_by_slab() -> None:
    a = numbers(3, 40, 20)
    assert (both(slabs, a) == a).all()


def test_a_grid_emits_nothing() -> None:
    def kernel(a):
        grid = nl.blocks(a, tile_shape=(8, 8), block_shape=(2, 1))
        assert nl.tiles(grid[0, :])[1:, 0].element_shape == (8, 8)
        return returned(a)

    program = nki.jit(kernel).compile(numbers(32, 16)).kernel
    assert [inst.mnemonic for inst in program.instructions()] == ["dma_copy"]


WRONG_TYPES = [[128, 64], (128.0, 64), (True, 64), (np.int64(128), 64), 128, "(128, 64)"]


@pytest.mark.usefixtures("recorded")
@pytest.mark.parametrize("shape", WRONG_TYPES)
def test_a_shape_is_a_tuple_of_python_integers(shape: Any) -> None:
    t = nl.ndarray((128, 64), nl.float32, nl.shared_hbm)
    rest = {"buffer": nl.sbuf, "dtype": nl.float32}
    for call in (
        lambda: nl.tiles(t, tile_shape=shape),
        lambda: nl.blocks(t, tile_shape=(8, 8), block_shape=shape),
        lambda: nl.alloc_tiles(tile_shape=shape, element_shape=(128, 64), **rest),
        lambda: nl.alloc_tiles(tile_shape=(128, 64), element_shape=shape, **rest),
        lambda: nl.alloc_blocks(tile_shape=(128, 64), block_shape=shape, element_shape=(128, 64), **rest),
    ):
        with pytest.raises(TileTypeError, match="is not a tuple of Python integers") as caught:
            call()
        assert isinstance(caught.value, TypeError)


def alloc(tile_shape: Any = (8, 8), element_shape: Any = (16, 16), buffer: Any = nl.sbuf) -> Any:
    return nl.alloc_tiles(tile_shape=tile_shape, element_shape=element_shape, buffer=buffer, dtype=nl.float32)


@pytest.mark.usefixtures("recorded")
@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda t: nl.tiles(t, tile_shape=(0, 8)), ValueError, r"tile_shape=\(0, 8\) has a size below 1"),
        (lambda t: nl.tiles(t, tile_shape=(8,)), ValueError, r"\(8,\) has 1 dimensions; tiles of 't' .* have 2 to 2"),
        (lambda t: nl.tiles(t, tile_shape=(8, 8, 8)), ValueError, "has 3 dimensions"),
        (lambda t: nl.tiles(t), TypeError, "without tile_shape"),
        (lambda t: nl.tiles(np.zeros((8, 8)), tile_shape=(8, 8)), TypeError, "neither a tensor nor a grid"),
        (lambda t: nl.blocks(t, tile_shape=(8, 8), block_shape=(2,)), ValueError, r"\(2,\) counts tiles of"),
        (lambda t: nl.blocks(t, tile_shape=(8, 8), block_shape=(2, -1)), ValueError, "size below 1"),
        (lambda t: nl.tiles(nl.ndarray((8, 8, 8), t.dtype), tile_shape=(8, 8)), ValueError, "leaves 1 of"),
        (lambda t: alloc(element_shape=(2, 16, 16)), ValueError, "leaves 1 of the dimensions of element_shape"),
        (lambda t: alloc(element_shape=(16, 0)), ValueError, r"element_shape=\(16, 0\) has a size below 1"),
        (lambda t: alloc(tile_shape=(8,)), ValueError, "has 1 dimensions"),
        (lambda t: alloc(buffer="sbuf"), TypeError, "buffer='sbuf' .str. is no nl.MemoryRegion"),
        (lambda t: alloc(buffer=nl.MemoryRegion.register), ValueError, "tiles in nl.register"),
    ],
)  # fmt: skip
def test_wrong_shapes(call: Callable[[Any], Any], kind: type[Exception], text: str) -> None:
    with pytest.raises((TileTypeError, TileShapeError), match=text) as caught:
        call(nl.ndarray((128, 64), nl.float32, nl.shared_hbm, "t"))
    assert isinstance(caught.value, kind)


@pytest.mark.parametrize(
    ("use", "code", "text"),
    [
        (lambda g: g[4], "NKI-TN001", "index 4 is outside coordinate 0 of NkiTileGrid (4, 2) of 'a'"),
        (lambda g: g[-1], "NKI-TN001", "use an index from 0 to 3"),
        (lambda g: g[0][2], "NKI-TN001", "index 2 is outside coordinate 0 of NkiTileGrid (2,) of 'a'"),
        (lambda g: g[0, 0, 0], "NKI-TN001", "has 2 coordinates; 3 indices were given"),
        (lambda g: g[0:5], "NKI-TN001", "is no part of its 4"),
        (lambda g: g[2:2], "NKI-TN001", "is no part of its 4"),
        (lambda g: g[::-1], "NKI-TN001", "is no part of its 4"),
        (lambda g: g[...], "NKI-TN001", "(ellipsis)"),
        (lambda g: g[[0]], "NKI-TN001", "(list)"),
        (lambda g: g[True], "NKI-TN001", "(bool)"),
        (lambda g: g[1.0], "NKI-TN001", "(float)"),
        (lambda g: g[None], "NKI-TN001", "(NoneType)"),
        (lambda g: g[nisa.register_alloc(0)], "NKI-RG004", "known only when the kernel runs"),
    ],
)
def test_wrong_indices(use: Callable[[Any], Any], code: str, text: str) -> None:
    def kernel(a, use):
        return nl.load(use(nl.tiles(a, tile_shape=(32, 32))).data)

    report = refused(kernel, numbers(128, 64), use)
    assert report.startswith(f"[{code}]") and text in report


def test_slabs_are_chosen_one_at_a_time() -> None:
    def kernel(a):
        return nl.tiles(a, tile_shape=(32, 32))[0:2].data

    assert "indexed one slab at a time" in refused(kernel, numbers(4, 128, 64))


def test_instructions_take_data() -> None:
    def kernel(a):
        tile = nl.ndarray((32, 32), a.dtype)
        nisa.dma_copy(tile, nl.tiles(a, tile_shape=(32, 32))[0, 0])
        return a

    assert "fix: pass its .data, the tensor that it selects" in refused(kernel, numbers(128, 64))


@pytest.mark.usefixtures("recorded")
@pytest.mark.parametrize("use", [list, lambda g: g.__setitem__((0, 0), None)])
def test_python_that_grids_do_not_take(use: Callable[[Any], Any]) -> None:
    with pytest.raises(TensorOperatorError, match=r"NkiTileGrid \(2, 2\) of"):
        use(alloc())
