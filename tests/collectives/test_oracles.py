"""The oracles of collectives against examples that are worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.isa.oracle.vectors import bf16, f16, f32, i32, u32

from . import oracles
from .oracles import OutsideError

PAIR, HALVES = [[0, 1]], [[0, 1], [2, 3]]


def same(got: Any, want: Any) -> None:
    """Every rank has the shape, the dtype and the bits."""
    assert len(got) == len(want)
    for rank, (one, other) in enumerate(zip(got, want, strict=True)):
        assert one.shape == other.shape and one.dtype == other.dtype, (rank, one, other)
        assert one.tobytes() == other.tobytes(), (rank, one, other)


def column(*numbers: Any) -> Any:
    return f32(*[[n] for n in numbers])


@pytest.mark.parametrize(
    ("op", "operand", "want"),
    [  # the page of ReplicaGroup
        ("bitwise_and", 0, [[0, 1, 2, 3, 4, 5, 6, 7]]),
        ("div", 4, [[0, 1, 2, 3], [4, 5, 6, 7]]),
        ("mod", 4, [[0, 4], [1, 5], [2, 6], [3, 7]]),
        ("bitwise_and", 1, [[0, 2, 4, 6], [1, 3, 5, 7]]),
    ],
)
def test_partitions_of_ranks(op: str, operand: int, want: list[list[int]]) -> None:
    assert oracles.from_partition_op(8, op, operand) == want


def test_a_sum_reaches_every_rank_of_its_list() -> None:
    srcs = [f32(1, 2), f32(10, 20), f32(100, 200), f32(1000, 2000)]
    dsts = [f32(-1, -1)] * 4
    want = [f32(11, 22), f32(11, 22), f32(1100, 2200), f32(1100, 2200)]
    same(oracles.all_reduce(srcs, dsts, HALVES, "add"), want)
    crossed = [f32(101, 202), f32(1010, 2020)] * 2
    same(oracles.all_reduce(srcs, dsts, [[0, 2], [1, 3]], "add"), crossed)


def test_a_rank_in_no_list_keeps_its_destination() -> None:
    srcs, dsts = [f32(1), f32(2), f32(4)], [f32(7), f32(8), f32(9)]
    same(oracles.all_reduce(srcs, dsts, [[0, 2]], "add"), [f32(5), f32(8), f32(5)])
    same(oracles.all_to_all(srcs, dsts, [[1]]), [f32(7), f32(2), f32(9)])


def test_extremes() -> None:
    srcs = [i32(3, -5), i32(-2, 6)]
    same(oracles.all_reduce(srcs, srcs, PAIR, "minimum"), [i32(-2, -5)] * 2)
    same(oracles.all_reduce(srcs, srcs, PAIR, "maximum"), [i32(3, 6)] * 2)


def test_sums_add_in_float32_in_the_order_of_the_list_and_round_once() -> None:
    # bfloat16 has 256 and 258: 256 + 1 is a tie and stays, 256 + (1 + 1) is exact. Float32 keeps 257.
    three = [[0, 1, 2]]
    srcs = [bf16(256), bf16(1), bf16(1)]
    same(oracles.all_reduce(srcs, srcs, three, "add"), [bf16(258)] * 3)
    halves = [f16(2048), f16(1), f16(2)]  # float16 has 2048, 2050, 2052: 2051 is a tie, to 2052
    same(oracles.all_reduce(halves, halves, three, "add"), [f16(2052)] * 3)
    large = [f32(2**24), f32(1), f32(1)]
    same(oracles.all_reduce(large, large, three, "add"), [f32(2**24)] * 3)
    same(oracles.all_reduce(large, large, [[1, 2, 0]], "add"), [f32(2**24 + 2)] * 3)
    zeros = [f32(-0.0), f32(-0.0)]
    same(oracles.all_reduce(zeros, zeros, PAIR, "add"), zeros)


def test_sums_of_integers_are_exact_and_wrap() -> None:
    srcs = [i32(2**24 + 1, 2**31 - 1), i32(2, 1)]
    same(oracles.all_reduce(srcs, srcs, PAIR, "add"), [i32(2**24 + 3, -(2**31))] * 2)


def test_gathering_by_rows_and_by_columns() -> None:
    srcs = [f32([1, 2, 3], [4, 5, 6]), f32([7, 8, 9], [10, 11, 12])]
    rows, columns = np.zeros((4, 3), np.float32), np.zeros((2, 6), np.float32)
    below = f32([1, 2, 3], [4, 5, 6], [7, 8, 9], [10, 11, 12])  # comment of nki-library's all_gather kernel
    same(oracles.all_gather(srcs, [rows] * 2, PAIR, 0), [below] * 2)
    beside = f32([1, 2, 3, 7, 8, 9], [4, 5, 6, 10, 11, 12])
    same(oracles.all_gather(srcs, [columns] * 2, PAIR, 1), [beside] * 2)
    swapped = f32([7, 8, 9], [10, 11, 12], [1, 2, 3], [4, 5, 6])
    same(oracles.all_gather(srcs, [rows] * 2, [[1, 0]], 0), [swapped] * 2)


def test_scattering_a_sum() -> None:
    srcs = [f32([1, 1], [2, 2], [3, 3], [4, 4]), f32([1, 1], [2, 2], [3, 3], [40, 40])]
    dsts = [np.zeros((2, 2), np.float32)] * 2
    same(oracles.reduce_scatter(srcs, dsts, PAIR, "add"), [f32([2, 2], [4, 4]), f32([6, 6], [44, 44])])
    turned = oracles.reduce_scatter(srcs, dsts, [[1, 0]], "maximum")
    same(turned, [f32([3, 3], [40, 40]), f32([1, 1], [2, 2])])


def test_exchanging_chunks() -> None:
    srcs = [f32([1, 2, 3], [4, 5, 6]), f32([7, 8, 9], [10, 11, 12])]  # as in nki-library's comment
    want = [f32([1, 2, 3], [7, 8, 9]), f32([4, 5, 6], [10, 11, 12])]
    same(oracles.all_to_all(srcs, srcs, PAIR), want)
    flat = [f32(1, 2, 3, 4), f32(5, 6, 7, 8)]  # chunks of elements: one row has no two chunks of rows
    same(oracles.all_to_all(flat, flat, PAIR), [f32(1, 2, 5, 6), f32(3, 4, 7, 8)])
    of_three = [f32(*range(10 * r, 10 * r + 3)) for r in range(3)]
    same(oracles.all_to_all(of_three, of_three, [[0, 1, 2]]), [f32(r, 10 + r, 20 + r) for r in range(3)])


def test_pairs() -> None:
    srcs, dsts = [f32(1), f32(2), f32(3), f32(4)], [f32(-1), f32(-2), f32(-3), f32(-4)]
    same(oracles.collective_permute(srcs, dsts, [(0, 2), (2, 0)]), [f32(3), f32(-2), f32(1), f32(-4)])
    same(oracles.collective_permute(srcs, dsts, [(0, 1), (1, 3)]), [f32(-1), f32(1), f32(-3), f32(2)])
    with pytest.raises(AssertionError):
        oracles.collective_permute(srcs, dsts, [(0, 1), (2, 1)])


def test_the_ring_goes_to_the_successor() -> None:
    srcs = [f32(1), f32(2), f32(3), f32(4)]
    same(oracles.collective_permute_implicit(srcs, srcs, [[0, 1, 2, 3]]), [f32(4), f32(1), f32(2), f32(3)])
    same(oracles.collective_permute_implicit(srcs, srcs, HALVES), [f32(2), f32(1), f32(4), f32(3)])
    same(oracles.collective_permute_implicit(srcs, srcs, [[0, 2, 1, 3]]), [f32(4), f32(3), f32(1), f32(2)])


def test_the_ring_reduces_before_it_sends() -> None:
    left, right, old = [f32(1), f32(2), f32(3)], [f32(10), f32(20), f32(30)], [f32(0)] * 3
    reduce = oracles.collective_permute_implicit_reduce
    same(reduce(left, right, old, [[0, 1, 2]], "add"), [f32(33), f32(11), f32(22)])
    same(reduce(left, right, old, [[0, 1]], "minimum"), [f32(2), f32(1), f32(0)])


def test_the_owner_of_a_step_walks_back_along_the_ring() -> None:
    owner = oracles.current_processing_rank_id
    assert [owner(i, [[0, 1, 2, 3]], 1) for i in range(5)] == [1, 0, 3, 2, 1]
    assert [owner(i, HALVES, 3) for i in range(3)] == [3, 2, 3]
    assert [owner(i, [[0, 2, 1]], 1) for i in range(3)] == [1, 2, 0]


def test_a_ring_of_steps_brings_what_its_owner_says() -> None:
    groups, held = [[0, 3, 1], [2, 4]], [f32(r) for r in range(5)]
    for step in range(4):
        for rank in range(5):
            assert held[rank][0, 0] == oracles.current_processing_rank_id(step, groups, rank)
        held = oracles.collective_permute_implicit(held, held, groups)


def test_chunks_of_sizes_known_at_run_time() -> None:
    srcs = [f32(1, 2, 3, 4), f32(5, 6, 7, 8)]
    dsts = [f32(0, 0, 0, 0, 0, 0), f32(0, 0, 0, 0, 0, 0)]  # slots of 3
    tables = [u32([1, 3], [0, 1], [9, 9]), u32([2, 0], [2, 0], [9, 9])]
    got, after = oracles.all_to_all_v(srcs, dsts, tables, PAIR)
    same(got, [f32(1, 0, 0, 7, 8, 0), f32(2, 3, 4, 0, 0, 0)])
    same(after, [u32([1, 3], [0, 1], [1, 2]), u32([2, 0], [2, 0], [3, 0])])
    _, untouched = oracles.all_to_all_v(srcs, dsts, tables, PAIR, recv_counts_known=True)
    same(untouched, tables)


def test_displacements_of_what_is_received() -> None:
    srcs = [f32(1, 2), f32(3, 4)]
    dsts = [f32(-1, -1, -1), f32(-2, -2, -2)]
    tables = [u32([1, 1], [0, 1], [0, 0], [2, 0]), u32([1, 1], [0, 1], [0, 0], [0, 1])]
    got, _ = oracles.all_to_all_v(srcs, dsts, tables, PAIR, has_rdispls=True)
    same(got, [f32(3, -1, 1), f32(2, 4, -2)])
    ignored, _ = oracles.all_to_all_v(srcs, [f32(0, 0)] * 2, tables, PAIR)  # four rows: the last is not read
    same(ignored, [f32(1, 3), f32(2, 4)])


def test_one_chunk_for_all() -> None:
    srcs = [f32(1, 2, 3), f32(4, 5, 6)]
    dsts = [f32(0, 0, 0, 0), f32(0, 0, 0, 0)]
    tables = [u32([2, 99], [1, 99], [0, 0]), u32([1, 99], [0, 99], [0, 0])]  # column 1 of what is sent is not read
    got, after = oracles.all_gather_v(srcs, dsts, tables, PAIR)
    same(got, [f32(2, 3, 4, 0)] * 2)
    same(after, [u32([2, 99], [1, 99], [2, 1]), u32([1, 99], [0, 99], [2, 1])])


def test_metadata_on_one_partition() -> None:
    tables = [u32([1, 1], [0, 0], [0, 0])[None]] * 2
    got, after = oracles.all_gather_v([f32(1), f32(2)], [f32(0, 0)] * 2, tables, PAIR)
    same(got, [f32(1, 2)] * 2)
    assert after[0].shape == (1, 3, 2) and after[0][0, 2].tolist() == [1, 1]


def test_split_forms_take_what_was_prepared() -> None:
    srcs, dsts = [f32(1, 2), f32(3, 4)], [f32(0, 0), f32(0, 0)]
    prepared = [u32([1, 1], [0, 1], [0, 0])] * 2
    later = [u32([0, 0], [0, 0], [0, 0])] * 2
    got, after = oracles.all_to_all_v(srcs, dsts, later, PAIR, prepared=prepared)
    same(got, [f32(1, 3), f32(2, 4)])
    same(after, [u32([0, 0], [0, 0], [1, 1])] * 2)


@pytest.mark.parametrize(
    ("tables", "rdispls"),
    [
        (u32([1, 2], [0, 1], [0, 0]), False),  # ends behind the source
        (u32([2, 0], [0, 0], [0, 0]), False),  # longer than a slot
        (u32([1, 0], [0, 0], [0, 0], [2, 0]), True),  # begins behind the destination
    ],
)
def test_chunks_outside(tables: Any, rdispls: bool) -> None:
    with pytest.raises(OutsideError):
        oracles.all_to_all_v([f32(1, 2)] * 2, [f32(0, 0)] * 2, [tables] * 2, PAIR, has_rdispls=rdispls)


def test_arguments_are_left_alone() -> None:
    srcs, dsts, tables = [f32(1), f32(2)], [f32(0, 0), f32(0, 0)], [u32([1, 1], [0, 0], [0, 0])] * 2
    oracles.all_gather(srcs, dsts, PAIR, 1)
    oracles.all_to_all_v(srcs, dsts, tables, PAIR)
    same([*srcs, *dsts, *tables], [f32(1), f32(2), f32(0, 0), f32(0, 0), *[u32([1, 1], [0, 0], [0, 0])] * 2])
