"""What the guides say of views, each statement with a tensor of our own: shapes, patterns, limits, run-time indices."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.base.errors import DynamicIndexError, IndexRangeError, RegisterUseError, ViewError, WriteOverlapError
from nki.base.warning import NkiWarning
from nki.frontend.builder import Builder
from nki.ir.loop import VirtualRegister
from nki.ir.recorder import recording
from nki.ir.types import Buffer, IndexKind
from nki.language.nki_tensor import NkiTensor
from nki.target import GEN3
from tests.support.both_executors import both
from tests.support.kernel_parts import returned

Make = Callable[..., NkiTensor]


@pytest.fixture
def builder() -> Iterator[Builder]:
    with recording(Builder("guide", GEN3)) as made:
        yield made


@pytest.fixture
def make(builder: Builder) -> Make:
    def tensor(shape: tuple[int, ...], buffer: Buffer = Buffer.sbuf, dtype: Any = nl.float32) -> NkiTensor:
        return NkiTensor.of(builder.tensor("t", shape, dtype, buffer))

    return tensor


@pytest.fixture
def register(builder: Builder) -> VirtualRegister:
    return VirtualRegister(builder.tensor("r", (1, 1), nl.int32, Buffer.register))


def test_a_tensor_is_described_by_its_attributes(make: Make) -> None:
    t = make((96, 40), dtype=nl.bfloat16)
    assert (t.shape, t.strides, t.offset) == ((96, 40), (40, 1), 0)
    assert (t.dtype, t.buffer, t.ndim, t.size, t.name) == (nl.bfloat16, nl.sbuf, 2, 96 * 40, "t")
    assert t.is_contiguous()
    assert not t.is_indirect()
    assert t.get_pattern() == [[40, 96], [1, 40]]


def test_views_share_storage() -> None:
    @nki.jit
    def kernel(a):
        t = nl.load(a)
        nisa.memset(t.reshape_dim(1, (4, 6))[:, 1], 7.0)
        return returned(t)

    a = np.random.default_rng(1).random((8, 24), np.float32)
    wanted = a.copy()
    wanted[:, 6:12] = 7.0
    assert np.array_equal(kernel(a), wanted)
    assert np.array_equal(nki.simulate(kernel)(a), wanted)


@pytest.mark.parametrize(
    ("view", "shape"),
    [
        (lambda t: t.slice(1, 3, 19), (64, 16)),
        (lambda t: t.slice(dim=-1, start=0, end=24, step=5), (64, 5)),
        (lambda t: t.select(1, 9), (64, 1)),
        (lambda t: t.select(dim=0, index=9), (1, 24)),
        (lambda t: t.reshape_dim(1, (2, 3, -1)), (64, 2, 3, 4)),
        (lambda t: t.reshape_dim(0, (64,)), (64, 24)),
        (lambda t: t.reshape((64, 3, 8)).permute((0, 2, 1)), (64, 8, 3)),
        (lambda t: t.reshape(shape=(64, 3, 8)).permute(dims=(0, -1, -2)), (64, 8, 3)),
        (lambda t: t.reshape(64, 2, 3, 4).flatten_dims(1, 2), (64, 6, 4)),
        (lambda t: t.reshape(64, 2, 3, 4).flatten_dims(start_dim=-3, end_dim=-1), (64, 24)),
        (lambda t: t.expand_dim(1), (64, 1, 24)),
        (lambda t: t.expand_dim(-1), (64, 24, 1)),
        (lambda t: t.expand_dim(1).squeeze_dim(1), (64, 24)),
        (lambda t: t.expand_dim(1).broadcast(1, 5), (64, 5, 24)),
        (lambda t: t.rearrange(("p", ("a", "b")), ("p", "b", "a"), {"a": 6}), (64, 4, 6)),
        (lambda t: t.rearrange(["p", ["a", "b"]], ["p", ["a", "b"]], {"b": np.int64(2)}), (64, 24)),
        (lambda t: t.view(nl.uint8), (64, 96)),
        (lambda t: t.view(nl.int32), (64, 24)),
        (lambda t: t.reinterpret_cast("bfloat16"), (64, 48)),
        (lambda t: t.view(nl.uint8)[:, 8:16].view(nl.float32), (64, 2)),
        (lambda t: t[0:32].permute((0, 1))[:, 0:1].select(1, 0), (32, 1)),
    ],
)
def test_shapes(make: Make, view: Callable[[NkiTensor], NkiTensor], shape: tuple[int, ...]) -> None:
    assert view(make((64, 24))).shape == shape


def test_contiguity(make: Make) -> None:
    t = make((16, 4, 8))
    assert t[0:8].is_contiguous()  # whole partitions
    assert t[0:8, 1].is_contiguous()
    assert not t[:, :, 0:4].is_contiguous()
    assert not t.permute((0, 2, 1)).is_contiguous()
    assert not make((4, 8), Buffer.hbm)[:, 0:4].is_contiguous()
    assert make((4, 8), Buffer.hbm)[1:3].is_contiguous()


def test_ap_is_what_other_views_are_made_of(make: Make) -> None:
    t = make((32, 48))
    sliced = t.slice(1, 5, 45, 2)
    by_hand = t.ap([(48, 32), (2, 20)], offset=5)
    assert by_hand.get_pattern() == sliced.get_pattern() == [[48, 32], [2, 20]]
    assert by_hand.offset == sliced.offset == 5


def test_a_pattern_can_be_changed_and_used_again(make: Make) -> None:
    t = make((32, 48))
    pattern = t.get_pattern()
    pattern[0][1] = 16
    assert t.ap(pattern=pattern).shape == (16, 48)
    assert t.get_pattern() == [[48, 32], [1, 48]]


def test_ap_takes_lists_tuples_and_numpy_integers(make: Make) -> None:
    t = make((32, 48))
    n = np.int64
    assert t.ap(((n(48), n(8)), [n(1), 4]), offset=n(3)).access.same_place(t.ap([[48, 8], [1, 4]], 3).access)


def test_ap_sees_storage_and_not_the_view(make: Make) -> None:
    t = make((32, 48))
    inner = t.ap([[48, 32], [2, 24]])
    assert inner.ap([[48, 32], [1, 8]]).access.same_place(t.ap([[48, 32], [1, 8]]).access)


def test_ap_inherits_the_offset_alone(make: Make) -> None:
    view = make((32, 48))[8:, 6:]
    assert view.offset == 8 * 48 + 6
    assert view.ap([[48, 4], [1, 3]]).offset == view.offset
    assert view.ap([[96, 4], [1, 3]], dtype=nl.bfloat16).offset == 2 * view.offset


def test_an_explicit_offset_counts_from_the_storage_and_says_so_on_a_moved_view(make: Make) -> None:
    t = make((32, 48))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        t.ap([[48, 4], [1, 3]], offset=5)
        t[8:].ap([[48, 4], [1, 3]])
    with pytest.warns(NkiWarning, match="'t' that does not start at element 0.*API reference") as caught:
        moved = t[8:].ap([[48, 4], [1, 3]], offset=5)
    assert moved.offset == 5
    assert caught[0].filename == __file__


def test_a_line_in_an_unrolled_loop_warns_once() -> None:
    @nki.jit
    def kernel(a):
        out = nl.ndarray((16, 4), dtype=a.dtype, buffer=nl.shared_hbm)
        t = nl.load(a)
        for i in range(4):
            nisa.dma_copy(out[:, i : i + 1], t[:, i + 1 :].ap([[8, 16], [1, 1]], offset=i))
        return out

    a = np.arange(128, dtype=np.float32).reshape(16, 8)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        assert np.array_equal(kernel(a), a[:, 0:4])
    assert len(caught) == 1


def test_one_partition_may_have_any_step(make: Make) -> None:
    t = make((32, 48))
    assert t.ap([[1, 1], [1, 48]], offset=48).access.same_place(t[1].access)


def test_ap_reads_other_types(make: Make) -> None:
    t = make((32, 48), dtype=nl.int32)
    halves = t.ap([[96, 32], [1, 96]], offset=0, dtype=nl.bfloat16)
    assert halves.shape == (32, 96)
    assert halves.access.same_place(t.view(nl.bfloat16).access)


def test_in_hbm_any_pattern_that_stays_inside(make: Make) -> None:
    t = make((6, 4), Buffer.hbm)
    assert t.ap([[1, 2], [0, 3], [5, 4], [1, 1], [1, 2], [3, 1]]).ndim == 6
    with pytest.raises(IndexRangeError):
        assert t.ap([[1, 25]]).access.signature


def test_one_element_at_run_time(make: Make, register: VirtualRegister) -> None:
    h, index = make((6, 32, 8), Buffer.hbm), make((1, 1), dtype=nl.int32)
    for view in (h.select(0, index), h.select(0, register), h[register], h[index, ...]):
        assert view.shape == (32, 8)
        assert view.is_indirect()
        assert view.access.dynamic is not None
        assert (view.access.dynamic.step, view.access.dynamic.kind, view.offset) == (256, IndexKind.whole, 0)
    t = make((32, 6, 8))
    view = t[8:16, register, 2:4]
    assert (view.shape, view.offset) == ((8, 2), 8 * 48 + 2)
    assert view.access.dynamic is not None
    assert (view.access.dynamic.source, view.access.dynamic.step) == (register, 8)


def test_a_window_that_starts_at_a_run_time_index(make: Make, register: VirtualRegister) -> None:
    t = make((32, 64))
    view = t[:, nl.ds(register, 16)]
    assert view.shape == (32, 16)
    assert view.access.dynamic is not None
    assert view.access.dynamic.step == 1
    with pytest.raises(IndexRangeError):
        t[:, nl.ds(register, 65)]
    with pytest.raises(DynamicIndexError):
        t[nl.ds(register, 16)]
    with pytest.raises(RegisterUseError):
        t[:, register:16]


def test_what_is_indexed_at_run_time_is_viewed_like_anything(make: Make, register: VirtualRegister) -> None:
    h = make((6, 32, 8), Buffer.hbm)[register]
    views = [h.permute((1, 0)), h.reshape(256), h.expand_dim(0).broadcast(0, 4), h[1::2, 3], h.view(nl.int32)]
    assert [v.shape for v in views] == [(8, 32), (256,), (4, 32, 8), (16,), (32, 8)]
    assert all(v.access.dynamic is h.access.dynamic for v in views)


def test_rows_by_a_column_of_indices(make: Make) -> None:
    h, column = make((50, 4, 8), Buffer.hbm), make((20, 1), dtype=nl.int32)
    view = h.vector_select(0, column)
    assert view.shape == (20, 4, 8)
    assert view.access.dynamic is not None
    assert (view.access.dynamic.kind, view.access.dynamic.step) == (IndexKind.rows, 32)
    same = h.ap([[32, 20], [8, 4], [1, 8]], vector_offset=column)
    assert same.access.signature == view.access.signature
    assert same.is_indirect()
    for seen in (view[:, 2:4], view.permute((0, 2, 1)), view.flatten_dims(1, 2), view.reshape(20, 16, 2)):
        assert seen.shape[0] == 20
        assert seen.access.dynamic is view.access.dynamic


def test_a_column_may_be_cut_from_a_tile(make: Make) -> None:
    h, indices = make((50, 8), Buffer.hbm), make((20, 6), dtype=nl.uint32)
    for column in (indices[:, 2], indices.ap([[6, 20], [1, 1], [1, 1]], offset=2)):
        assert h.vector_select(0, column).shape == (20, 8)


def test_scalar_offset_counts_in_the_base_tensor(make: Make, register: VirtualRegister) -> None:
    h = make((12, 5, 7), Buffer.hbm)
    steps = [h.ap([[7, 2], [1, 7]], scalar_offset=register, indirect_dim=d).access.dynamic for d in (0, 1, 2, -2)]
    assert [s.step for s in steps if s is not None] == [35, 7, 1, 7]
    row = h.reshape((1, 420)).ap([[1, 420]], scalar_offset=register)
    assert row.access.dynamic is not None
    assert row.access.dynamic.step == 420
    halves = h.ap([[14, 2], [1, 14]], scalar_offset=register, indirect_dim=1, dtype=nl.float16)
    assert halves.access.dynamic is not None
    assert halves.access.dynamic.step == 14


def test_scalar_offset_on_chip(make: Make, register: VirtualRegister) -> None:
    t = make((32, 6, 8))
    view = t.ap([[48, 32], [1, 8]], scalar_offset=register, indirect_dim=1)
    assert view.access.dynamic is not None
    assert (view.shape, view.access.dynamic.step) == ((32, 8), 8)
    with pytest.raises(DynamicIndexError):
        t.ap([[48, 32], [1, 8]], scalar_offset=register)


def test_only_the_window_at_index_zero_is_known_to_fit(make: Make, register: VirtualRegister) -> None:
    h = make((12, 8), Buffer.hbm)
    assert h.ap([[8, 12], [1, 8]], scalar_offset=register).shape == (12, 8)
    with pytest.raises(IndexRangeError):
        assert h.ap([[8, 13], [1, 8]], scalar_offset=register).access.signature


def test_what_repeats_leaves_no_choice(make: Make, register: VirtualRegister) -> None:
    t = make((32, 1, 8))
    assert t.broadcast(1, 1).select(1, register).shape == (32, 8)
    with pytest.raises(DynamicIndexError, match="nothing to choose"):
        t.broadcast(1, 4).select(1, register)
    with pytest.raises(DynamicIndexError, match="nothing to choose"):
        t.broadcast(1, 4).ap([[8, 32], [1, 8]], scalar_offset=register, indirect_dim=1)


def test_a_view_prints_its_index(make: Make, register: VirtualRegister) -> None:
    assert str(make((12, 8), Buffer.hbm)[register]) == "NkiTensor t float32[8] in hbm at r"


def test_what_is_written_is_written_once() -> None:
    @nki.jit
    def kernel(a, where):
        t = nl.load(a)
        nisa.memset(t.ap(where), 0.0)
        return returned(t)

    a = np.ones((4, 12), np.float32)
    assert kernel(a, ((12, 4), (3, 2), (2, 3))).sum() == 4 * 6  # 0, 2, 3, 4, 5 and 7
    for run in (kernel, nki.simulate(kernel)):
        with pytest.raises(WriteOverlapError):
            run(a, ((12, 4), (2, 2), (1, 3)))


@pytest.mark.parametrize("steps", [((0, 12),), ((0, 3), (0, 4))])
def test_of_what_is_written_to_one_place_the_last_element_stays(steps: tuple[tuple[int, int], ...]) -> None:
    """Kernels that want only the sum of a reduction write its elements to one column."""

    @nki.jit
    def kernel(a, steps):
        t, column = nl.load(a), nl.ndarray((4, 1), dtype=a.dtype)
        sums, out = nl.ndarray((4, 1), dtype=a.dtype), nl.ndarray((4, 3), dtype=a.dtype, buffer=nl.shared_hbm)
        nisa.activation_reduce(column.ap([[1, 4], *steps]), nl.square, t, nl.add, sums)
        nl.store(out[:, 0:1], column)
        nl.store(out[:, 1:2], sums)
        nisa.dma_copy(column.ap([[1, 4], *steps]), a)
        nl.store(out[:, 2:3], column)
        return out

    a = np.arange(48, dtype=np.float32).reshape(4, 12)
    want = np.stack([a[:, -1] ** 2, (a**2).sum(axis=1), a[:, -1]], axis=1)
    np.testing.assert_array_equal(both(kernel, a, steps), want)


def test_an_output_is_returned_as_it_is() -> None:
    @nki.jit
    def kernel(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, a)
        return out[...].reshape(a.shape).view(nl.float32)

    a = np.random.default_rng(2).random((4, 4), np.float32)
    assert np.array_equal(kernel(a), a)


def test_reshape_keeps_asking_for_sizes(make: Make) -> None:
    with pytest.raises(ViewError):
        make((4, 6)).reshape((4, 6), shape=(4, 6))


INDEX = np.array([[3]], np.int32)
MATRIX = np.arange(6 * 8 * 10, dtype=np.float32).reshape(6, 8, 10)


def by_register(a, index):
    r = nisa.register_alloc()
    nisa.register_load(r, index)
    return r


def by_tile(a, index):
    return index


@dataclass
class Case:
    """A view with run-time index 3, and NumPy's; whether the view is also one of a tile on chip."""

    name: str
    on_chip: bool
    view: Callable[[Any, Any], Any]
    wanted: Callable[[Any], Any]


CASES = [
    Case("select", False, lambda a, i: a.select(0, i), lambda a: a[3]),
    Case("inner", True, lambda a, i: a[1:5, i, 2:4], lambda a: a[1:5, 3, 2:4]),
    Case("window", True, lambda a, i: a[:, nl.ds(i, 4)], lambda a: a[:, 3:7]),
    Case("bits", False, lambda a, i: a[i].view(nl.int32), lambda a: a[3].view(np.int32)),
    Case("permuted", False, lambda a, i: a.permute((2, 0, 1)).select(-1, i), lambda a: a[:, 3].T),
    Case("reordered", True, lambda a, i: a.permute((0, 2, 1)).select(-1, i), lambda a: a[:, 3]),
    Case("steps", True, lambda a, i: a[::2, :, i], lambda a: a[::2, :, 3]),
    Case("repeated", True, lambda a, i: a[:, i].expand_dim(1).broadcast(1, 2), lambda a: np.stack([a[:, 3]] * 2, 1)),
    Case("ap", True, lambda a, i: a.ap([[80, 6], [1, 10]], scalar_offset=i, indirect_dim=1), lambda a: a[:, 3]),
    Case(
        "ap of halves",
        True,
        lambda a, i: a.ap([[160, 6], [1, 20]], scalar_offset=i, indirect_dim=1, dtype=nl.uint16),
        lambda a: np.ascontiguousarray(a[:, 3]).view(np.uint16),
    ),
]
PLACES = [(case, place) for case in CASES for place in ("hbm", "sbuf") if case.on_chip or place == "hbm"]


@pytest.mark.parametrize("source", [by_register, by_tile])
@pytest.mark.parametrize(("case", "place"), PLACES, ids=[f"{case.name}-{place}" for case, place in PLACES])
def test_run_time_views_read(case: Case, place: str, source: Callable[..., Any]) -> None:
    view, on_chip = case.view, place == "sbuf"

    @nki.jit
    def kernel(a, index):
        number = nl.load(index)
        whole = nl.load(a) if on_chip else a
        seen = view(whole, source(a, number))
        return returned(seen)

    np.testing.assert_array_equal(both(kernel, MATRIX, INDEX), case.wanted(MATRIX))


@pytest.mark.parametrize("ap", [False, True])
def test_rows_are_gathered_and_scattered(ap: bool) -> None:
    @nki.jit
    def kernel(a, rows):
        out = nl.ndarray((9, 8, 10), dtype=a.dtype, buffer=nl.shared_hbm)
        index = nl.load(rows)
        tile = nl.ndarray((4, 8, 10), dtype=a.dtype, buffer=nl.sbuf)
        column = index.ap([[3, 4], [1, 1], [1, 1]], offset=1)
        if ap:
            nisa.dma_copy(tile, a.ap([[80, 4], [1, 80]], vector_offset=column))
        else:
            nisa.dma_copy(tile, a.vector_select(0, column))
        zeros = nl.zeros((9, 80), dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(out, zeros)
        nisa.dma_copy(out.vector_select(0, index[:, 2])[:, 1:7:2, 3], tile[:, 1:7:2, 3])
        return out

    rows = np.array([[0, 5, 8], [0, 2, 0], [0, 2, 7], [0, 1, 4]], np.int32)
    wanted = np.zeros((9, 8, 10), np.float32)
    wanted[rows[:, 2], 1:7:2, 3] = MATRIX[rows[:, 1], 1:7:2, 3]
    np.testing.assert_array_equal(both(kernel, MATRIX, rows), wanted)


def test_views_print_what_they_hold(capsys: pytest.CaptureFixture[str]) -> None:
    @nki.jit
    def kernel(a, index):
        i = nl.load(index)
        print(a[i, i.shape[0], 0:2])
        print(a.vector_select(0, i))
        return returned(a[i, 0, 0:1])

    nki.simulate(kernel)(MATRIX, INDEX)
    shown = capsys.readouterr().out
    assert "at i\n" in shown
    assert "250" in shown
    assert "NkiTensor a float32[1, 8, 10] in hbm at i\n" in shown


@pytest.mark.parametrize("run", [nki.jit, nki.simulate])
@pytest.mark.parametrize("offset", [None, 0, 1, 4, 9])
@pytest.mark.parametrize("memory", [nl.sbuf, nl.psum])
def test_a_pattern_whose_rows_are_those_of_the_view_counts_in_the_view(
    run: Any, offset: int | None, memory: Any
) -> None:
    """Rows that lie as far apart as the view is wide can be no pattern of the storage."""

    def kernel(x):
        tile = nl.load(x)
        half = tile[1:6, 4:8]
        rows = 2 if offset == 9 else 3
        seen = half.ap(pattern=[[4, rows], [1, 3]], offset=offset)
        wide = half.view(nl.int16).ap([[8, rows], [1, 3]], (offset or 0) * 2)
        out = nl.ndarray((rows, 3), x.dtype, buffer=nl.shared_hbm)
        words = nl.ndarray((rows, 3), nl.int16, buffer=nl.shared_hbm)
        nisa.dma_copy(out, seen)
        nisa.dma_copy(words, wide)
        return out, words

    x = np.arange(48, dtype=np.int32).reshape(6, 8)
    dense = np.ascontiguousarray(x[1:6, 4:8]).reshape(-1)
    rows = 2 if offset == 9 else 3
    places = (offset or 0) + 4 * np.arange(rows)[:, None] + np.arange(3)
    got, words = run(kernel)(x)
    assert np.array_equal(got, dense[places])
    assert np.array_equal(words, dense.view(np.int16)[(offset or 0) * 2 + 8 * np.arange(rows)[:, None] + np.arange(3)])


@pytest.mark.parametrize(
    "take",
    [
        lambda half: half.ap([[4, 3], [1, 3]], 2),  # across the end of a row of the view
        lambda half: half.ap([[4, 6], [1, 3]], 0),  # below it
        lambda half: half.ap([[3, 3], [1, 3]], 0),  # neither the view's rows nor the storage's
        lambda half: half.slice(1, 0, 4, 2).ap([[2, 3], [1, 2]], 0),  # no dense rows
    ],
)
@pytest.mark.filterwarnings("ignore::nki.base.warning.NkiWarning")
def test_a_pattern_that_leaves_the_view_is_refused(take: Any) -> None:
    @nki.jit
    def kernel(x):
        tile = nl.load(x)
        return returned(nl.copy(take(tile[1:6, 4:8])))

    with pytest.raises(ViewError, match="from partition to partition"):
        kernel.compile(np.ones((6, 8), np.float32))


@pytest.mark.parametrize("run", [nki.jit, nki.simulate])
def test_the_base_tensor_is_all_of_the_storage(run: Any) -> None:
    def kernel(x):
        tile = nl.load(x)
        for view in (tile, tile[2:4], tile[:, 1:3], tile.reshape((6, 2, 4)), tile.view(nl.int8)):
            base = view.base_tensor
            assert base.shape == (6, 8) and base.dtype == x.dtype and base.buffer == nl.sbuf and base.offset == 0
        part = x[2:4]
        out = nl.ndarray(part.base_tensor.shape, part.base_tensor.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(part.base_tensor))
        return out[0].base_tensor

    x = np.arange(48, dtype=np.int32).reshape(6, 8)
    assert np.array_equal(run(kernel)(x), x)
