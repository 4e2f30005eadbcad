"""Views of tensors against NumPy: whatever chain of indices and reshapes, DMA moves the elements that NumPy names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import nki
import nki.language as nl
from nki.base.element_types import float32
from nki.base.errors import IndexRangeError, ViewError
from nki.frontend.builder import Builder
from nki.ir.recorder import recording
from nki.ir.types import Buffer
from nki.language.indexing import ds
from nki.language.nki_tensor import NkiTensor
from nki.target import GEN3
from tests.support.kernel_parts import returned

Array = np.ndarray[Any, Any]


def storage(shape: tuple[int, ...], buffer: Buffer) -> tuple[NkiTensor, Array]:
    """A tensor, and the positions of its elements in memory."""
    with recording(Builder("test", GEN3)) as builder:
        tensor = NkiTensor.of(builder.tensor("t", shape, float32, buffer))
    return tensor, np.arange(tensor.size).reshape(shape)


def positions(view: NkiTensor) -> Array:
    """The elements that the view touches, one by one."""
    total = np.full(view.shape, view.offset)
    for dim, (step, count) in enumerate(view.get_pattern()):
        total = total + (step * np.arange(count)).reshape((-1,) + (1,) * (view.ndim - dim - 1))
    return total


@st.composite
def one_index(draw: st.DrawFn, size: int) -> tuple[Any, slice | int]:
    """An index for a dimension as a kernel writes it, and as NumPy does."""
    kind = draw(st.sampled_from(["int", "slice", "step", "ds", "all"]))
    start = draw(st.integers(0, size - 1))
    stop = draw(st.integers(start + 1, size))
    below = draw(st.booleans())
    if kind == "int":
        return (start - size if below else start,) * 2
    if kind == "ds":
        return ds(start - size if below else start, stop - start), slice(start, stop)
    if kind == "all":
        return (draw(st.sampled_from([slice(None), slice(0, None), slice(None, size)])),) * 2
    step = draw(st.integers(1, 5)) if kind == "step" else None
    first = draw(st.sampled_from([start, start - size])) if start or not below else None
    last = draw(st.sampled_from([stop, stop - size])) if stop < size else draw(st.sampled_from([stop, None]))
    return (slice(first, last, step),) * 2


@st.composite
def keys(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """An index for a tensor of ``shape``: some of its dimensions, an Ellipsis perhaps for others."""
    front = draw(st.integers(0, len(shape)))
    back = draw(st.integers(0, len(shape) - front))
    dots = draw(st.booleans())
    chosen = [draw(one_index(n)) for n in shape[:front]]
    ends = [draw(one_index(n)) for n in shape[len(shape) - back :]] if dots and back else []
    mine = [c[0] for c in chosen] + ([...] if dots else []) + [c[0] for c in ends]
    theirs = [c[1] for c in chosen] + ([...] if dots else []) + [c[1] for c in ends]
    return (mine[0] if len(mine) == 1 else tuple(mine)), tuple(theirs)


def as_numpy(key: tuple[Any, ...], on_chip: bool) -> tuple[Any, ...]:
    """On chip an integer keeps dimension 0."""
    first = key[0] if key else slice(None)
    if not on_chip or not isinstance(first, int):
        return key
    return (slice(first, first + 1 or None), *key[1:])


@st.composite
def chains(draw: st.DrawFn, on_chip: bool) -> tuple[NkiTensor, Array]:
    """A view after up to four steps, and NumPy's."""
    shape = tuple(draw(st.lists(st.integers(1, 8), min_size=1 + on_chip, max_size=4)))
    view, wanted = storage(shape, Buffer.sbuf if on_chip else Buffer.hbm)
    for _ in range(draw(st.integers(1, 4))):
        if draw(st.booleans()):
            key, theirs = draw(keys(view.shape))
            if on_chip and isinstance(key, tuple) and key and key[0] is ... and len(key) == 1 + view.ndim:
                theirs = (..., *as_numpy(theirs[1:], True))
            view, wanted = view[key], wanted[as_numpy(theirs, on_chip)]
            if wanted.ndim < 1 + on_chip:
                wanted = wanted.reshape((*wanted.shape, 1))
        else:
            fresh = draw(shapes_of(view.shape[1:] if on_chip else view.shape))
            fresh = (view.shape[0], *fresh) if on_chip else fresh
            try:
                view = view.reshape(fresh) if draw(st.booleans()) else view.reshape(*fresh)
            except ViewError:
                assert copies(view, fresh)
                continue
            wanted = wanted.reshape(fresh)
    return view, wanted


@st.composite
def shapes_of(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Another shape with as many elements: factors of the sizes, regrouped, with ones here and there."""
    factors: list[int] = []
    for size in shape:
        for prime in (2, 3, 5, 7):
            while size % prime == 0:
                factors.append(prime)
                size //= prime
        factors.append(size)
    sizes = [1] * draw(st.integers(1, 4))
    places = sorted(draw(st.integers(0, len(sizes) - 1)) for _ in factors)
    for place, factor in zip(places, draw(st.permutations(factors)), strict=True):
        sizes[place] *= factor
    return tuple(sizes)


def copies(view: NkiTensor, shape: tuple[int, ...]) -> bool:
    """Whether NumPy, too, must copy to give the view this shape."""
    memory = np.zeros(int(positions(view).max()) + 1, np.int8)
    array = np.lib.stride_tricks.as_strided(memory[view.offset :], view.shape, view.strides)
    return not np.shares_memory(array.reshape(shape), memory)


@given(st.booleans().flatmap(chains))
def test_a_view_touches_what_numpy_touches(made: tuple[NkiTensor, Array]) -> None:
    view, wanted = made
    assert view.shape == wanted.shape
    assert np.array_equal(positions(view), wanted)


@nki.jit
def copied(x, steps):
    view = x
    for kind, argument in steps:
        view = view[argument] if kind == "index" else view.reshape(argument)
    return returned(view)


@pytest.mark.parametrize(
    ("shape", "steps"),
    [
        ((6, 8, 10), [("index", (slice(1, 6, 2), 3))]),
        ((6, 8, 10), [("index", (..., -1)), ("index", (slice(-3, None), slice(None, None, 3)))]),
        ((6, 8, 10), [("reshape", (48, 10)), ("index", (slice(5, 48, 7), slice(2, -1, 4)))]),
        ((6, 8, 10), [("index", (slice(0, 6, 2),)), ("reshape", (3, 80)), ("index", (slice(None), slice(1, 79, 3)))]),
        ((6, 8, 10), [("index", (2, 3, 4))]),
        ((512,), [("reshape", (2, 256)), ("index", (1, slice(0, 256, 8)))]),
        ((3, 1, 5, 1), [("reshape", (15,)), ("index", (slice(14, 15),))]),
    ],
)
def test_dma_reads_it(shape: tuple[int, ...], steps: list[tuple[str, Any]]) -> None:
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    wanted = x
    for kind, argument in steps:
        wanted = np.asarray(wanted[argument] if kind == "index" else wanted.reshape(argument))
    wanted = wanted.reshape(-1) if wanted.ndim else wanted.reshape(1)

    STEPS = steps

    @nki.jit
    def kernel(x):
        return copied(x, STEPS)

    assert np.array_equal(kernel(x).reshape(-1), wanted)
    assert np.array_equal(nki.simulate(kernel)(x).reshape(-1), wanted)


@given(st.integers(1, 6), st.integers(-9, 9), st.integers(-9, 9), st.integers(-3, 3))
def test_indices_are_never_clipped(size: int, start: int, stop: int, step: int) -> None:
    """A slice either has all elements that NumPy's slice has, or it is refused."""
    tensor, numbers = storage((size, 2), Buffer.hbm)
    inside = -size <= start < size and -size <= stop <= size and step > 0
    wanted = numbers[start:stop:step] if inside else numbers[:0]
    try:
        view = tensor[start:stop:step]
        assert view.access.signature
    except IndexRangeError:
        assert not inside or len(wanted) == 0 or stop == 0
    else:
        assert inside
        assert np.array_equal(positions(view), wanted)


@given(st.integers(1, 6), st.integers(-9, 9), st.integers(-9, 9))
def test_ds_is_never_clipped(size: int, start: int, count: int) -> None:
    tensor, numbers = storage((size, 2), Buffer.hbm)
    first = start + size if start < 0 else start
    inside = first >= 0 and count > 0 and first + count <= size
    if not inside:
        with pytest.raises(IndexRangeError):
            assert tensor[ds(start, count)].access.signature
        return
    assert np.array_equal(positions(tensor[ds(start, count)]), numbers[first : first + count])


@given(st.lists(st.integers(-4, 12), min_size=1, max_size=4))
def test_reshape_takes_only_sizes(sizes: list[int]) -> None:
    tensor, _ = storage((4, 6), Buffer.hbm)
    assume(np.prod(sizes) != 24 or min(sizes) < 1)
    with pytest.raises(ViewError):
        tensor.reshape(*sizes)


@pytest.mark.parametrize("run", [nki.jit, nki.simulate])
@pytest.mark.filterwarnings("ignore::nki.base.warning.NkiDeprecationWarning")
def test_a_range_is_the_slice_of_its_numbers(run: Any) -> None:
    """On chip and in HBM, of both kinds, also beside other indices and where something is written."""

    def kernel(x):
        tile = nl.load(x[nl.affine_range(6), range(8)])
        assert tile[range(1, 6, 2), range(3)].shape == (3, 3) and tile[range(2)].shape == (2, 8)
        assert tile[..., range(0, 8, 4)].shape == (6, 2) and x[2, range(4, 8)].shape == (4,)
        assert tile[range(3, 3)].shape[0] == 0
        out = nl.ndarray((3, 4), x.dtype, buffer=nl.shared_hbm)
        nl.store(out[range(3), nl.affine_range(4)], tile[range(0, 6, 2), nl.sequential_range(1, 8, 2)])
        return out

    x = np.arange(48, dtype=np.float32).reshape(6, 8)
    assert np.array_equal(run(kernel)(x), x[0:6:2, 1:8:2])


@pytest.mark.parametrize(
    ("index", "fix"),
    [
        (range(9), "stop <= 8"),
        (range(-2, 4), "stop <= 8"),
        (range(7, -1, -1), "nc_n_gather"),
        ([0, 1, 2], "write the slice 0:3"),
        ([1, 3, 5], "write the slice 1:6:2"),
        ([0, 1, 3], "copied one by one"),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::nki.base.warning.NkiWarning")
def test_numbers_that_are_no_slice_are_refused(index: Any, fix: str) -> None:
    @nki.jit
    def kernel(x):
        return nl.load(x)[:, index]

    with pytest.raises(IndexRangeError) as caught:
        kernel.compile(np.ones((6, 8), np.float32))
    assert fix in caught.value.fix
