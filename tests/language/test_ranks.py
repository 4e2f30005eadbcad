"""Launches of several ranks in both executors: arguments and results, and what is said of ranks that disagree."""

from __future__ import annotations

import numpy as np
import pytest

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
from nki.base.errors import (
    ArgumentError,
    CollectiveOrderError,
    DeadlockError,
    NkiError,
    OperatorError,
    RankArgumentError,
    RankMismatchError,
)
from nki.collectives import ReplicaGroup
from tests.support.rank_launches import EXECUTORS, copied, eager, empty, native

A = [np.full((8, 16), 1 + rank, np.float32) for rank in range(4)]
TWO = ReplicaGroup([[0, 1]])


@nki.jit
def total(a, group):
    result = empty(*a.shape, dtype=a.dtype)
    ncc.all_reduce([copied(a)], [result], group, nl.add)
    return copied(result)


# Arguments and results


@EXECUTORS
def test_a_list_has_an_item_for_each_rank(run):
    """A tuple, like a tensor alone, is one argument for all."""

    def kernel(a, scale, pair):
        result, factor = empty(*a.shape), nl.load(a)
        nisa.tensor_scalar(factor, factor, nl.multiply, scale, op1=nl.add, operand1=pair[1])
        ncc.all_reduce([copied(factor)], [result], TWO, nl.add)
        return copied(factor), copied(result)

    got = run(kernel, 2, A[0], [2.0, 3.0], (7, 1.0))
    for rank, (own, result) in enumerate(got):
        np.testing.assert_array_equal(own, (2 + rank) * A[0] + 1)
        np.testing.assert_array_equal(result, 5 * A[0] + 2)


def test_arguments_by_name():
    with nki.ranks(2):
        first, second = total(group=TWO, a=A[:2])
    np.testing.assert_array_equal(first, A[2])
    np.testing.assert_array_equal(second, A[2])
    (alone,) = nki.simulate(total, ranks=1)(a=A[:1], group=ReplicaGroup([[0]]))
    np.testing.assert_array_equal(alone, A[0])


def test_the_innermost_number_of_ranks_counts():
    with nki.ranks(4):
        with nki.ranks(2):
            assert len(total(A[:2], TWO)) == len(nki.simulate(total)(A[:2], TWO)) == 2
        assert len(total(A, ReplicaGroup([[0, 1], [2, 3]]))) == 4
    assert total(A[0], ReplicaGroup([[0]])).shape == (8, 16)


def test_the_simulator_by_its_variable(monkeypatch):
    monkeypatch.setenv("NKI_SIMULATOR", "1")
    with nki.ranks(2):
        np.testing.assert_array_equal(total(A[:2], TWO), [A[2], A[2]])


@EXECUTORS
def test_a_launch_again_has_the_same_results(run):
    """What one launch has left behind does not change the next one, also where it failed."""
    noisy = [np.random.default_rng(rank).standard_normal((8, 16)).astype(np.float32) for rank in range(4)]
    four = ReplicaGroup([[0, 1, 2, 3]])
    first = run(total, 4, noisy, four)
    for _ in range(3):
        with pytest.raises(NkiError):
            run(total, 4, noisy[:1], four)
        np.testing.assert_array_equal(run(total, 4, noisy, four), first)


@pytest.mark.parametrize("wrong", [0, -1, True, 2.0, "2", None])
def test_a_number_of_ranks(wrong):
    with pytest.raises(RankArgumentError, match="takes a number of ranks"):
        nki.ranks(wrong)


@EXECUTORS
@pytest.mark.parametrize("count", [1, 3])
def test_a_list_of_another_length(count, run):
    with pytest.raises(RankArgumentError, match=rf"'a' of kernel 'total' is a list of {count}, and 2 ranks run"):
        run(total, 2, A[:count], TWO)


@EXECUTORS
def test_an_error_of_one_rank_ends_the_others(run):
    def kernel(a, op):
        result = empty(*a.shape)
        ncc.all_reduce([copied(a)], [result], TWO, op)
        return copied(result)

    with pytest.raises(OperatorError, match="reduces nothing"):
        run(kernel, 2, A[:2], [nl.add, nl.multiply])


# Groups and the ranks that run


@EXECUTORS
@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ([[0, 1], [2, 3]], "name rank 3; 2 ranks run"),
        ([[0, 2]], "name rank 2; 2 ranks run"),
        ([[0]], "leave out rank 1, which runs the collective; 2 ranks run"),
        ([[1]], "leave out rank 0, which runs the collective; 2 ranks run"),
    ],
)
@pytest.mark.parametrize("asks", [False, True])
def test_groups_name_the_ranks_that_run(groups, words, asks, run):
    group = ReplicaGroup(groups)

    def kernel(a):
        result = copied(a)
        if asks:
            row = nl.ndarray((1, 1), nl.int32)
            nisa.register_store(row, ncc.collective_permute_implicit_current_processing_rank_id(0, group))
            return copied(row)
        ncc.all_reduce([copied(a)], [result], group, nl.add)
        return copied(result)

    with pytest.raises(ArgumentError, match=words):
        run(kernel, 2, A[:2])


@EXECUTORS
def test_pairs_name_ranks_that_run(run):
    def kernel(a):
        result = copied(a)
        ncc.collective_permute([copied(a)], [result], [(0, 2)])
        return copied(result)

    with pytest.raises(ArgumentError, match="name rank 2; 2 ranks run"):
        run(kernel, 2, A[:2])


# Ranks that disagree: each is told what it is, and takes a branch of its own


def one_less(a, rank):
    if rank == 0:
        ncc.all_reduce([copied(a)], [empty(*a.shape)], TWO, nl.add)


def one_more_at_the_end(a, rank):
    for _ in range(2 + rank):
        ncc.all_reduce([copied(a)], [empty(*a.shape)], TWO, nl.add)


def apart(a, rank):
    ncc.all_reduce([copied(a)], [empty(*a.shape)], ReplicaGroup([[0], [1]] if rank else [[0, 1]]), nl.add)


def crossed(a, rank):
    """Two groups of the same ranks, in one order by one of them and in the other by the other."""
    for ranks in ([[0, 1]], [[1, 0]])[:: -1 if rank else 1]:
        ncc.all_reduce([copied(a)], [empty(*a.shape)], ReplicaGroup(ranks), nl.add)


STUCK = [
    (one_less, r"rank 0 waits at all_reduce\(\[0, 1\]\), line \d+; rank 1 has ended"),
    (one_more_at_the_end, r"rank 1 waits at all_reduce\(\[0, 1\]\), line \d+; rank 0 has ended"),
    (apart, r"rank 0 waits at all_reduce\(\[0, 1\]\), line \d+; rank 1 has ended"),
    (crossed, r"rank \d waits at all_reduce\(\[\d, \d\]\), line \d+; rank \d waits at all_reduce\(\[\d, \d\]\), line"),
]


@EXECUTORS
@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize(("disagree", "words"), STUCK, ids=lambda v: getattr(v, "__name__", ""))
def test_a_deadlock_is_named(disagree, words, cores, run):
    def kernel(a, rank):
        disagree(a, rank)
        return copied(a)

    with pytest.raises(DeadlockError, match=words) as caught:
        run(kernel, 2, A[:2], [0, 1], cores=cores)
    assert "every rank" in caught.value.fix


def other_shape(a, rank):
    ncc.all_reduce([copied(a[: 8 - rank])], [empty(8 - rank, 16)], TWO, nl.add)


def other_dtype(a, rank):
    dtype = nl.bfloat16 if rank else nl.float32
    ncc.all_reduce([copied(nl.load(a, dtype=dtype))], [empty(8, 16, dtype=dtype)], TWO, nl.add)


def other_operator(a, rank):
    ncc.all_reduce([copied(a)], [empty(8, 16)], TWO, nl.maximum if rank else nl.add)


def other_collective(a, rank):
    if rank:
        ncc.all_to_all([copied(a)], [empty(8, 16)], TWO, 0)
    else:
        ncc.all_reduce([copied(a)], [empty(8, 16)], TWO, nl.add)


def other_dimension(a, rank):
    tile = nl.load(a[:, :8])
    ncc.all_gather([tile], [nl.ndarray((8, 16) if rank else (16, 8), a.dtype)], TWO, rank)


def other_number(a, rank):
    ncc.all_reduce([copied(a)] * (1 + rank), [empty(8, 16) for _ in range(1 + rank)], TWO, nl.add)


def other_pairs(a, rank):
    ncc.collective_permute([copied(a)], [copied(a)], [(0, 1), (1, 0)] if rank else [(0, 1)])


MISMATCHED = [
    (other_shape, ("(8, 16)", "(7, 16)")),
    (other_dtype, ("float32", "bfloat16")),
    (other_operator, ("op add", "op maximum")),
    (other_collective, ("all_reduce", "all_to_all")),
    (other_dimension, ("collective_dim 0", "collective_dim 1")),
    (other_number, ("rank 0", "rank 1")),
    (other_pairs, ("pairs ((0, 1),)", "pairs ((0, 1), (1, 0))")),
]


@EXECUTORS
@pytest.mark.parametrize(("disagree", "words"), MISMATCHED, ids=lambda v: getattr(v, "__name__", ""))
def test_a_mismatch_is_named(disagree, words, run):
    def kernel(a, rank):
        disagree(a, rank)
        return copied(a)

    with pytest.raises(RankMismatchError) as caught:
        run(kernel, 2, A[:2], [0, 1])
    assert all(word in caught.value.message for word in words), caught.value.message
    assert caught.value.span is not None and caught.value.span.file == __file__


@EXECUTORS
def test_ranks_agree_about_their_own_group_alone(run):
    def kernel(a, rank):
        others = ReplicaGroup([[0, 1], [3, 2]] if rank == 1 else [[0, 1], [2, 3]])
        result = empty(8, 16)
        ncc.all_reduce([copied(a)], [result], others, nl.add)
        return copied(result)

    got = run(kernel, 4, A, [0, 1, 2, 3])
    np.testing.assert_array_equal(got, [A[0] + A[1]] * 2 + [A[2] + A[3]] * 2)


# Cores of one rank


@EXECUTORS
def test_a_collective_of_one_core(run):
    def kernel(a):
        source, result = copied(a), empty(*a.shape)
        if nl.program_id(0) == 0:
            ncc.all_reduce([source], [result], TWO, nl.add)
        return copied(a)

    with pytest.raises((CollectiveOrderError, DeadlockError)):
        run(kernel, 2, A[:2], cores=2)


@EXECUTORS
def test_cores_that_pass_other_tensors(run):
    def kernel(a):
        source, result = copied(a), empty(8, 16)
        half = slice(4 * nl.program_id(0), 4 * nl.program_id(0) + 4)
        ncc.all_reduce([source[half]], [result[half]], TWO, nl.add)
        return copied(a)

    with pytest.raises(CollectiveOrderError, match="with the same tensors in HBM"):
        run(kernel, 2, A[:2], cores=2)


def test_both_executors_are_tried():
    assert {native, eager} == set(EXECUTORS.args[1])
