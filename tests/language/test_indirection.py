"""``t.indirect(index)`` in kernels: what it reads and writes, natively and in the simulator, and what it trusts."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.base.errors import DynamicIndexError, NkiError, OutOfBoundsError, PsumError, UnwrittenReadError
from nki.target import ENVIRONMENT
from tests.support.both_executors import both
from tests.support.kernel_parts import returned

Array = np.ndarray[Any, Any]
RANDOM = np.random.default_rng(11)
TABLE = RANDOM.standard_normal((128, 64)).astype(np.float32)
LISTS = RANDOM.integers(0, 64, (128, 2)).astype(np.uint16)
"""A list of up to 32 offsets for each group of 16 partitions, all different."""


@pytest.fixture(autouse=True)
def trn3(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT, "trn3")


def chosen(index: Array, count: int, group: int = 16) -> Array:
    """The offsets of each partition, one after the other."""
    return np.array(
        [[index[p // group * group + i % group, i // group] for i in range(count)] for p in range(len(index))]
    )


def moved_within(table, numbers, targets):
    """Elements of one tile go to other places of it."""
    tile, index, there = nl.load(table), nl.load(numbers), nl.load(targets)
    nisa.tensor_copy(tile.indirect(there), tile.indirect(index))
    return returned(tile)


def refused(kernel: Any, *arguments: Any) -> NkiError:
    """The error of a kernel, the same whichever way it is run."""
    with pytest.raises(NkiError) as native:
        nki.jit(kernel)(*arguments)
    with pytest.raises(NkiError) as eager:
        nki.simulate(kernel)(*arguments)
    assert (native.value.code, native.value.message) == (eager.value.code, eager.value.message)
    return eager.value


def gathers(table, numbers, count):
    tile, index = nl.load(table), nl.load(numbers)
    found = nl.ndarray((tile.shape[0], count), table.dtype)
    nisa.tensor_copy(found, tile.indirect(index, num_elem=count))
    return returned(found)


@pytest.mark.parametrize("count", [1, 15, 16, 17, 32])
def test_each_group_of_sixteen_has_a_list(count: int) -> None:
    want = np.take_along_axis(TABLE, chosen(LISTS, count), 1)
    np.testing.assert_array_equal(both(gathers, TABLE, LISTS, count), want)


@pytest.mark.parametrize("kind", [np.uint16, np.uint32, np.int32])
def test_equal_lists_read_alike_in_every_reading(kind: Any) -> None:
    """As kernels do that do not depend on which group an offset holds for."""
    same = np.tile(LISTS[:16], (8, 1)).astype(kind)
    want = TABLE[:, same[:16].T.reshape(-1)]
    np.testing.assert_array_equal(both(gathers, TABLE, same, 32), want)


def test_without_num_elem_one_group_takes_all() -> None:
    def kernel(table, numbers):
        tile, index = nl.load(table), nl.load(numbers)
        found = tile.indirect(index)
        assert found.shape == (16, 32)
        assert found.is_indirect()
        assert found[:, :].shape == found[...].shape == (16, 32)
        copy = nl.ndarray((16, 32), table.dtype)
        nisa.tensor_copy(copy, found[:, 0:32])
        return returned(copy)

    want = np.take_along_axis(TABLE[:16], chosen(LISTS[:16], 32), 1)
    np.testing.assert_array_equal(both(kernel, TABLE[:16], LISTS[:16]), want)


def test_offsets_count_the_elements_of_the_view() -> None:
    """Over several dimensions, from where the view starts, and in its steps; up to the end of the tile."""

    def kernel(table, numbers):
        tile = nl.ndarray((16, 4, 16), table.dtype)
        nisa.dma_copy(tile, table.reshape((16, 4, 16)))
        index = nl.load(numbers)
        out = nl.ndarray((3, 16, 16), table.dtype, buffer=nl.shared_hbm)
        for number, view in enumerate((tile, tile[:, 2], tile[:, 1:3, ::2])):
            found = nl.ndarray((16, 16), table.dtype)
            nisa.tensor_copy(found, view.indirect(index))
            nl.store(out[number], found)
        return out

    index = (LISTS[:16, :1] % 16).astype(np.uint16)
    columns = chosen(index, 16)
    found = both(kernel, TABLE[:16], index)
    for got, where in zip(found, (columns, 32 + columns, 16 + 2 * columns), strict=True):
        np.testing.assert_array_equal(got, np.take_along_axis(TABLE[:16], where, 1))


def test_the_tensor_engine_gathers_in_groups_of_thirty_two() -> None:
    def kernel(left, right, numbers):
        stationary, moving, index = nl.load(left), nl.load(right), nl.load(numbers)
        total = nl.ndarray((32, 40), nl.float32, buffer=nl.psum)
        nisa.nc_matmul(total, stationary, moving.indirect(index, num_elem=40))
        return returned(nl.copy(total))

    left, right = (RANDOM.integers(-4, 5, (64, n)).astype(ml_dtypes.bfloat16) for n in (32, 64))
    index = LISTS[:64]
    gathered = np.take_along_axis(right, chosen(index, 40, 32), 1)
    want = left.astype(np.float32).T @ gathered.astype(np.float32)
    np.testing.assert_array_equal(both(kernel, left, right, index), want)


def scatters(values, numbers):
    found, index = nl.load(values), nl.load(numbers)
    tile = nl.ndarray((values.shape[0], 64), values.dtype)
    nisa.memset(tile, -1.0)
    nisa.tensor_scalar(tile.indirect(index, num_elem=values.shape[1]), found, nl.add, 0.0)
    return returned(tile)


def test_a_scatter_leaves_other_elements_alone_and_the_last_of_equal_offsets_stays() -> None:
    lists = LISTS % 20  # 32 offsets of 20 elements
    want = np.full((128, 64), -1, np.float32)
    for partition, columns in enumerate(chosen(lists, 32)):
        for number, column in enumerate(columns):
            want[partition, column] = TABLE[partition, number]
    np.testing.assert_array_equal(both(scatters, TABLE[:, :32].copy(), lists), want)


def test_a_predicated_copy_scatters_what_the_predicate_chooses() -> None:
    """Also where a later equal offset is not chosen."""

    def kernel(values, numbers, predicate):
        found, index, condition = nl.load(values), nl.load(numbers), nl.load(predicate)
        tile = nl.ndarray((16, 64), values.dtype)
        nisa.memset(tile, -1.0)
        nisa.tensor_copy_predicated(tile.indirect(index), found, condition)
        return returned(tile)

    predicate = np.tile(np.array([3, 0], np.uint8), (16, 8))
    found = both(kernel, TABLE[:16, :16].copy(), np.full((16, 1), 7, np.uint16), predicate)
    np.testing.assert_array_equal(found[:, 7], TABLE[:16, 14])
    assert (np.delete(found, 7, 1) == -1).all()


def test_one_instruction_reads_all_before_it_writes() -> None:
    """Elements of a tile in another order, in place."""

    order = np.arange(16, dtype=np.int32)[:, None]
    found = both(moved_within, TABLE[:16, :16].copy(), order, order[::-1].copy())
    np.testing.assert_array_equal(found, TABLE[:16, 15::-1])


def test_offsets_are_looked_up_in_every_round_of_a_loop() -> None:
    def kernel(table, numbers):
        tile, index = nl.load(table), nl.load(numbers)
        total = nl.ndarray((16, 16), table.dtype)
        nisa.memset(total, 0.0)

        def add_next(i):
            nisa.tensor_tensor(total, tile.indirect(index), total, nl.add)
            nisa.tensor_scalar(index, index, nl.bitwise_xor, 1)

        nl.fori_loop(0, 3, add_next)
        return returned(total)

    index = (LISTS[:16, :1]).astype(np.int32)
    numbers = RANDOM.integers(0, 9, (16, 64)).astype(np.float32)
    rounds = [np.take_along_axis(numbers, chosen(index ^ bit, 16), 1) for bit in (0, 1, 0)]
    np.testing.assert_array_equal(both(kernel, numbers, index), sum(rounds))


def test_functions_of_tiles_take_indirect_views() -> None:
    def kernel(table, numbers):
        tile, index = nl.load(table), nl.load(numbers)
        total = nl.sum(nl.multiply(nl.copy(tile.indirect(index)), 2.0), axis=1, keepdims=True)
        return returned(total)

    numbers = RANDOM.integers(0, 9, (16, 64)).astype(np.float32)
    want = 2 * np.take_along_axis(numbers, chosen(LISTS[:16], 32), 1).sum(axis=1, keepdims=True)
    np.testing.assert_array_equal(both(kernel, numbers, LISTS[:16]), want)


def test_both_cores_follow_their_own_offsets() -> None:
    def kernel(table, numbers):
        core = nl.program_id(0)
        tile, index = nl.load(table[core]), nl.load(numbers[core])
        out = nl.ndarray((2, 16, 16), table.dtype, buffer=nl.shared_hbm)
        nl.store(out[core], nl.copy(tile.indirect(index)))
        return out

    tables, lists = TABLE[:32].reshape(2, 16, 64), LISTS[:32, :1].reshape(2, 16, 1).copy()
    native, eager = nki.jit(kernel)[2](tables, lists), nki.simulate(nki.jit(kernel)[2])(tables, lists)
    assert native.tobytes() == eager.tobytes()
    for number in range(2):
        want = np.take_along_axis(tables[number], chosen(lists[number], 16), 1)
        np.testing.assert_array_equal(native[number], want)


# What it trusts


def test_an_offset_outside_the_partition_is_an_error() -> None:
    lists = LISTS.copy()
    lists[37, 1] = 200  # offset 21 of its group
    both(gathers, TABLE, lists, 21)
    error = refused(gathers, TABLE, lists, 22)
    assert isinstance(error, OutOfBoundsError)
    assert "run-time index 200 from 'index'" in error.message
    assert "the largest that stays inside is 63" in error.message


def test_the_first_operand_with_an_offset_outside_is_named() -> None:
    lists = [np.full((16, 1), n, np.int32) for n in (64, -1)]
    error = refused(moved_within, TABLE[:16], *lists)
    assert error.message.startswith("tensor_copy: dst 'tile' (16, 64) was accessed at run-time index 4294967295")


def partly(table, numbers, there):
    tile, index = nl.ndarray(table.shape, table.dtype), nl.load(numbers)
    nisa.dma_copy(tile[:, 0:there], table[:, 0:there])
    found = nl.ndarray((128, 20), table.dtype)
    nisa.tensor_copy(found, tile.indirect(index, num_elem=20))
    return returned(found)


def test_only_what_the_offsets_choose_has_to_be_written() -> None:
    lists = LISTS % 40
    want = np.take_along_axis(TABLE, chosen(lists, 20), 1)
    np.testing.assert_array_equal(both(partly, TABLE, lists, 40), want)
    lists[70, 0] = 40
    with pytest.raises(UnwrittenReadError, match="partitions 64 to 79, bytes 160 to 163"):
        nki.simulate(partly)(TABLE, lists, 40)


def test_only_the_offsets_that_count_have_to_be_written() -> None:
    def kernel(table, numbers, count):
        tile, index = nl.load(table), nl.ndarray(numbers.shape, numbers.dtype)
        nisa.dma_copy(index[:, 0:1], numbers[:, 0:1])
        found = nl.ndarray((128, count), table.dtype)
        nisa.tensor_copy(found, tile.indirect(index, num_elem=count))
        return returned(found)

    both(kernel, TABLE, LISTS, 16)
    with pytest.raises(UnwrittenReadError, match=r"the index of an operand, 'index' .* partition 0, bytes 2 to 3"):
        nki.simulate(kernel)(TABLE, LISTS, 17)


def test_a_scatter_writes_what_it_names_and_no_more() -> None:
    def kernel(values, numbers, first):
        found, index = nl.load(values), nl.load(numbers)
        tile, copy = nl.ndarray((16, 64), values.dtype), nl.ndarray((16, 16), values.dtype)
        nisa.tensor_copy(tile.indirect(index), found)
        nisa.tensor_copy(copy, tile[:, first : first + 16])
        return returned(copy)

    order = (5 + np.arange(16, dtype=np.uint32))[:, None]
    np.testing.assert_array_equal(both(kernel, TABLE[:16, :16].copy(), order, 5), TABLE[:16, :16])
    with pytest.raises(UnwrittenReadError, match=r"partitions 0 to 15, bytes 84 to 87"):
        nki.simulate(kernel)(TABLE[:16, :16].copy(), order, 6)


def test_a_predicate_leaves_unwritten_what_it_does_not_choose() -> None:
    def kernel(values, numbers, predicate):
        found, index, condition = nl.load(values), nl.load(numbers), nl.load(predicate)
        tile = nl.ndarray((16, 16), values.dtype)
        nisa.tensor_copy_predicated(tile.indirect(index), found, condition)
        return returned(tile)

    order = np.arange(16, dtype=np.uint16)[:, None]
    predicate = np.ones((16, 16), np.uint8)
    np.testing.assert_array_equal(both(kernel, TABLE[:16, :16].copy(), order, predicate), TABLE[:16, :16])
    predicate[3, 9] = 0
    with pytest.raises(UnwrittenReadError, match="partition 3, bytes 36 to 39"):
        nki.simulate(kernel)(TABLE[:16, :16].copy(), order, predicate)


def test_a_gathered_predicate_chooses_what_is_written() -> None:
    def kernel(values, numbers, predicate, columns):
        found, index, condition = nl.load(values), nl.load(numbers), nl.load(predicate)
        tile, copy = nl.ndarray((16, 16), values.dtype), nl.ndarray((16, columns), values.dtype)
        nisa.tensor_copy_predicated(tile, found, condition.indirect(index))
        nisa.tensor_copy(copy, tile[:, 0:columns])
        return returned(copy)

    order = np.arange(1, 17, dtype=np.uint16)[:, None]
    predicate = np.tile((np.arange(20) < 8).astype(np.uint32), (16, 1))  # the first row is left out
    found = both(kernel, TABLE[:16, :16].copy(), order, predicate, 7)
    np.testing.assert_array_equal(found, TABLE[:16, :7])
    with pytest.raises(UnwrittenReadError, match="partitions 0 to 15, bytes 28 to 31"):
        nki.simulate(kernel)(TABLE[:16, :16].copy(), order, predicate, 8)


def test_a_print_shows_the_chosen_elements(capsys: pytest.CaptureFixture[str]) -> None:
    def kernel(table, numbers):
        tile, index = nl.load(table), nl.load(numbers)
        print(tile.indirect(index, num_elem=2))
        return returned(tile)

    table = np.arange(16 * 64, dtype=np.float32).reshape(16, 64)
    nki.simulate(kernel)(table, np.full((16, 1), 5, np.uint16))
    assert capsys.readouterr().out.splitlines()[1].split() == ["[[", "5.", "5.]"]
    nki.simulate(kernel)(table, np.full((16, 1), 64, np.uint16))
    assert "out of bounds" in capsys.readouterr().out


# Sums in PSUM


def sums(left, right, numbers, begin, accumulate):
    stationary, moving, index = nl.load(left), nl.load(right), nl.load(numbers)
    total = nl.ndarray((32, 32), nl.bfloat16, buffer=nl.psum)
    if begin:
        nisa.nc_matmul(total, stationary, moving)
    nisa.nc_matmul(total.indirect(index), stationary, moving, accumulate=accumulate)
    return returned(nl.copy(total))


@pytest.mark.parametrize(
    ("begin", "accumulate"), [(False, None), (False, False), (False, True), (True, None), (True, True)]
)
def test_a_matmul_adds_at_offsets_where_all_of_the_tile_was_written(begin: bool, accumulate: bool | None) -> None:
    left, right = (RANDOM.integers(-2, 3, (32, 32)).astype(np.float32) for _ in range(2))
    order = np.random.default_rng(3).permutation(32).astype(np.uint16)[:, None]
    adds = begin if accumulate is None else accumulate
    if adds and not begin:
        with pytest.raises(NkiError, match="is added to where nothing was written"):
            nki.simulate(sums)(left, right, order, begin, accumulate)
        return
    product = left.T @ right
    scattered = np.empty_like(product)
    scattered[:, order[:, 0]] = product
    want = scattered + product if adds else scattered
    found = both(sums, left, right, order, begin, accumulate)
    np.testing.assert_array_equal(found.astype(np.float32), want)


@pytest.mark.parametrize(
    ("plain_first", "says"), [(True, "is written in part"), (False, "was written at places that are known only when")]
)
def test_the_compiler_does_not_guess_what_a_scatter_has_written(plain_first: bool, says: str) -> None:
    def kernel(left, right, numbers):
        stationary, moving, index = nl.load(left), nl.load(right), nl.load(numbers)
        total = nl.ndarray((32, 32), nl.bfloat16, buffer=nl.psum)
        half, some = total[:, 0:16], total.indirect(index, num_elem=16)
        for dst in (half, some) if plain_first else (some, half):
            nisa.nc_matmul(dst, stationary, moving)
        return returned(nl.copy(total))

    left, right = np.ones((32, 32), np.float32), np.ones((32, 16), np.float32)
    error = refused(kernel, left, right, np.arange(32, dtype=np.uint16)[:, None])
    assert isinstance(error, PsumError)
    assert says in error.message


# What is no view of a view


def parts(make: Any) -> Any:
    def kernel(table, numbers):
        tile, index = nl.load(table), nl.load(numbers)
        make(tile.indirect(index), index)
        return returned(tile)

    return kernel


@pytest.mark.parametrize(
    "make",
    [
        lambda t, i: t[:, 0],
        lambda t, i: t[0:8],
        lambda t, i: t[:, nl.ds(2, 4)],
        lambda t, i: t.select(1, 3),
        lambda t, i: t.slice(1, 0, 8),
        lambda t, i: t.reshape((16, 4, 4)),
        lambda t, i: t.reshape_dim(1, (4, 4)),
        lambda t, i: t.expand_dim(1),
        lambda t, i: t.rearrange(("p", ("a", "b")), ("p", "b", "a"), {"a": 4}),
        lambda t, i: t.view(nl.uint8),
        lambda t, i: t.ap([[64, 16], [1, 4]]),
        lambda t, i: t.indirect(i),
    ],
)
def test_a_part_of_an_indirect_view_is_none(make: Any) -> None:
    error = refused(parts(make), TABLE[:16], LISTS[:16, :1])
    assert isinstance(error, DynamicIndexError)


def test_an_indirect_view_as_another_type_of_the_same_width() -> None:
    def kernel(table, numbers):
        tile, index = nl.load(table), nl.load(numbers)
        found = nl.ndarray((16, 16), nl.uint32)
        nisa.tensor_copy(found, tile.indirect(index).view(nl.uint32))
        return returned(found)

    want = np.take_along_axis(TABLE[:16].view(np.uint32), chosen(LISTS[:16, :1], 16), 1)
    np.testing.assert_array_equal(both(kernel, TABLE[:16], LISTS[:16, :1].copy()), want)


# Where tiles start


def placed(first, second, third):
    """A kernel that gathers from a tile at one partition, with offsets at another, and scatters with others."""

    def kernel(table, numbers):
        tile = nl.ndarray((32, 64), table.dtype, address=(first, 0))
        index = nl.ndarray((32, 1), numbers.dtype, address=(second, 4096))
        there = nl.ndarray((32, 1), numbers.dtype, address=(third, 8192))
        target = nl.ndarray((32, 64), table.dtype, address=(64, 1024))
        for its in (index, there):
            nisa.dma_copy(its, numbers)
        nisa.dma_copy(tile, table)
        nisa.memset(target, 0.0)
        nisa.tensor_copy(target.indirect(there, num_elem=16), tile.indirect(index, num_elem=16))
        return returned(target)

    return kernel


def test_tiles_and_their_offsets_start_at_one_partition() -> None:
    lists = (LISTS[:32, :1]).copy()
    want = np.zeros((32, 64), np.float32)
    for partition, columns in enumerate(chosen(lists, 16)):
        want[partition, columns] = TABLE[partition, columns]
    for first in (0, 32, 96):
        np.testing.assert_array_equal(both(placed(first, first, first), TABLE[:32], lists), want)
    for places, rule in {(32, 64, 32): "TI05", (32, 32, 0): "TI06"}.items():
        assert refused(placed(*places), TABLE[:32], lists).rule == rule
