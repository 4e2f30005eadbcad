"""``nki.collectives`` of pieces with sizes known at run time, at once and in two steps, in both executors."""

from __future__ import annotations

import numpy as np
import pytest

import nki
import nki.collectives as ncc
import nki.language as nl
from nki.base.errors import (
    ArgumentError,
    CollectiveOrderError,
    DTypeError,
    MemoryRegionError,
    NkiError,
    RankMismatchError,
    SeveralRanksError,
    ShapeError,
)
from nki.collectives import ReplicaGroup
from tests.support.rank_launches import EXECUTORS, copied, empty

RANKS = pytest.mark.parametrize("ranks", [1, 2, 4])
SLOT = 6
RNG = np.random.default_rng(7)
ONE, TWO = ReplicaGroup([[0]]), ReplicaGroup([[0, 1]])


def everyone(ranks):
    return ReplicaGroup([list(range(ranks))])


def at_once(exchange, *args, **more):
    exchange(*args, **more)


def in_two_steps(exchange, *args, **more):
    prepare, trigger = (getattr(ncc, f"{exchange.__name__}_{step}") for step in ("prepare", "trigger"))
    trigger(prepare(*args, **more), name="later")


STEPS = pytest.mark.parametrize("carry_out", [at_once, in_two_steps])


def tables(ranks, by_rank):
    """What each rank sends, counts and displacements, and as much as it receives, in rows as the kernels take them."""
    sent = RNG.integers(0, SLOT + 1, (ranks, ranks))
    starts = RNG.integers(0, SLOT * ranks - sent + 1)
    if not by_rank:
        sent, starts = (np.repeat(numbers[:, :1], ranks, axis=1) for numbers in (sent, starts))
    return [np.stack([sent[rank], starts[rank], np.full(ranks, 77)]).astype(np.uint32) for rank in range(ranks)]


def exchanged(sources, before, given, rank, places=None):
    """The destination and the counts that ``rank`` has received."""
    result = before.copy()
    counts = [table[0, rank] for table in given]
    for sender, (source, table) in enumerate(zip(sources, given, strict=True)):
        count, start = table[:2, rank]
        place = SLOT * sender if places is None else places[rank][sender]
        result[place : place + count] = source[start : start + count]
    return result, counts


@EXECUTORS
@RANKS
@STEPS
@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("exchange", [ncc.all_to_all_v, ncc.all_gather_v])
def test_pieces_come_into_slots(exchange, carry_out, ranks, cores, run):
    size, group = SLOT * ranks, everyone(ranks)
    sources, before = RNG.standard_normal((2, ranks, size)).astype(np.float32)
    given = tables(ranks, exchange is ncc.all_to_all_v)

    def kernel(a, b, table):
        target, rows = copied(b), copied(table)
        carry_out(exchange, [copied(a)], [target], group, rows)
        return copied(target), copied(rows)

    got = run(kernel, ranks, list(sources), list(before), given, cores=cores)
    for rank, (target, rows) in enumerate(got):
        want, counts = exchanged(sources, before[rank], given, rank)
        np.testing.assert_array_equal(target, want)
        np.testing.assert_array_equal(rows, [*given[rank][:2], counts])


@EXECUTORS
@RANKS
@STEPS
def test_pieces_come_to_given_places(carry_out, ranks, run):
    """One behind the other. Counts that are known are not written."""
    size, group = SLOT * ranks, everyone(ranks)
    sources, before = RNG.standard_normal((2, ranks, size)).astype(np.float32)
    given = tables(ranks, by_rank=True)
    counts = [[table[0, rank] for table in given] for rank in range(ranks)]
    places = [np.cumsum([0, *received[:-1]]) for received in counts]
    given = [np.concatenate([table, [place]]).astype(np.uint32) for table, place in zip(given, places, strict=True)]

    def kernel(a, b, table):
        target, rows = copied(b), copied(table)
        carry_out(ncc.all_to_all_v, [copied(a)], [target], group, rows, True, has_rdispls=True)
        return copied(target), copied(rows)

    got = run(kernel, ranks, list(sources), list(before), given)
    for rank, (target, rows) in enumerate(got):
        np.testing.assert_array_equal(target, exchanged(sources, before[rank], given, rank, places)[0])
        np.testing.assert_array_equal(rows, given[rank])


@EXECUTORS
def test_a_table_in_sbuf(run):
    sources, given = RNG.standard_normal((2, 2 * SLOT)).astype(np.float32), tables(2, by_rank=True)
    before = np.zeros(2 * SLOT, np.float32)

    def kernel(a, b, table):
        target, rows = copied(b), nl.load(table.reshape((1, 3, 2)))
        ncc.all_to_all_v([copied(a)], [target], TWO, rows)
        return copied(target), copied(rows)

    for rank, (target, rows) in enumerate(run(kernel, 2, list(sources), before, given)):
        want, counts = exchanged(sources, before, given, rank)
        np.testing.assert_array_equal(target, want)
        np.testing.assert_array_equal(rows[0, 2], counts)


@EXECUTORS
def test_the_table_is_read_when_it_is_prepared(run):
    """And the source when the exchange is triggered."""

    def kernel(a, b, table):
        target, rows, source = copied(b), copied(table), empty(*a.shape)
        first = ncc.all_to_all_v_prepare([source], [target], TWO, rows, True)
        nl.store(rows, nl.zeros(rows.shape, nl.uint32))
        nl.store(source, nl.load(a.reshape((1, 12))).reshape((1, 12)))
        ncc.all_to_all_v_trigger(first)
        return copied(target)

    sources, given = RNG.standard_normal((2, 1, 12)).astype(np.float32), tables(2, by_rank=True)
    before = np.zeros((1, 12), np.float32)
    for rank, target in enumerate(run(kernel, 2, list(sources), before, given)):
        want, _ = exchanged(sources[:, 0], before[0], given, rank)
        np.testing.assert_array_equal(target[0], want)


@EXECUTORS
def test_ranks_exchange_by_rank_or_to_all(run):
    def kernel(a, table, rank):
        exchange = ncc.all_gather_v if rank else ncc.all_to_all_v
        target = copied(a)
        exchange([copied(a)], [target], TWO, copied(table))
        return copied(target)

    with pytest.raises(RankMismatchError, match=r"by rank.*to all"):
        run(kernel, 2, np.zeros(12, np.float32), tables(2, by_rank=True), [0, 1])


@pytest.mark.parametrize(
    ("row", "numbers", "words"),
    [(0, [7, 0], "7 elements go to place 0, and 6 fit"), (1, [0, 13], "place 1 starts at 13 of 12")],
)
def test_pieces_lie_in_their_tensors(row, numbers, words):
    def kernel(a, table):
        target = copied(a)
        ncc.all_to_all_v([copied(a)], [target], TWO, copied(table))
        return copied(target)

    given = np.zeros((3, 2), np.uint32)
    given[row] = numbers
    with pytest.raises(ShapeError, match=words) as caught:
        nki.simulate(kernel, ranks=2)(np.zeros(12, np.float32), given)
    assert caught.value.rule == "CV01"


# What is wrong


def table(*shape, dtype=nl.uint32, on=nl.shared_hbm):
    return nl.ndarray(shape or (3, 1), dtype, buffer=on)


def rows(a, number, group=ONE, has_rdispls=False, columns=1):
    ncc.all_to_all_v([a], [copied(a)], group, copied(nl.zeros((number, columns), nl.uint32)), False, has_rdispls)


WRONG = [
    (SeveralRanksError, "name 2 ranks", lambda a: rows(a, 3, TWO, columns=2)),
    (ShapeError, "with n from 3 to 4", lambda a: rows(a, 2)),
    (ShapeError, "with n from 3 to 4", lambda a: rows(a, 5)),
    (ShapeError, "with n from 4 to 4", lambda a: rows(a, 3, has_rdispls=True)),
    (ShapeError, "(n, 2) in HBM", lambda a: rows(a, 3, TWO)),
    (ShapeError, "uint32", lambda a: ncc.all_gather_v([a], [a], ONE, table(3, 1, dtype=nl.int32))),
    (ShapeError, "uint32", lambda a: ncc.all_gather_v([a], [a], ONE, table(3, 1, on=nl.sbuf))),
    (ShapeError, "metadata_tensor", lambda a: ncc.all_gather_v([a], [a], ONE, "table")),
    (ArgumentError, "dsts has 2 tensors", lambda a: ncc.all_gather_v([a], [a, a], ONE, table())),
    (ArgumentError, "srcs has 2 tensors", lambda a: ncc.all_to_all_v_prepare([a, a], [a], ONE, table())),
    (ArgumentError, "recv_counts_known=1", lambda a: ncc.all_gather_v([a], [a], ONE, table(), 1)),
    (ArgumentError, "no ReplicaGroup", lambda a: ncc.all_gather_v([a], [a], None, table())),
    (MemoryRegionError, "both are in HBM", lambda a: ncc.all_to_all_v([nl.load(a)], [copied(a)], ONE, table())),
    (DTypeError, "nothing is converted", lambda a: ncc.all_to_all_v([a], [table(8, 16)], ONE, table())),
]


@pytest.mark.parametrize(("error", "words", "call"), WRONG, ids=[f"{n}" for n in range(len(WRONG))])
def test_what_is_wrong_is_said(error, words, call):
    def kernel(a):
        call(copied(a))
        return copied(a)

    with pytest.raises(NkiError) as caught:
        nki.jit(kernel)(np.ones((8, 16), np.float32))
    assert type(caught.value) is error and words in str(caught.value), str(caught.value)


def test_a_table_that_is_an_argument_is_only_read():
    """It cannot take the counts that come."""

    @nki.jit
    def kernel(a, given):
        target = copied(a)
        ncc.all_to_all_v([copied(a)], [target], ONE, given)
        return copied(target)

    with pytest.raises(NkiError):
        kernel(np.ones(6, np.float32), np.zeros((3, 1), np.uint32))


# Preparing and triggering


def prepared(a, kind=ncc.all_to_all_v_prepare):
    return kind([copied(a)], [copied(a)], ONE, copied(nl.zeros((3, 1), nl.uint32)))


def never_triggered(a):
    prepared(a)


def prepared_twice(a):
    first = prepared(a)
    prepared(a, ncc.all_gather_v_prepare)
    ncc.all_to_all_v_trigger(first)


def triggered_twice(a):
    first = prepared(a)
    ncc.all_to_all_v_trigger(first)
    ncc.all_to_all_v_trigger(first)


def triggered_as_another_kind(a):
    ncc.all_gather_v_trigger(prepared(a))


def triggered_as_the_first_kind(a):
    ncc.all_to_all_v_trigger(prepared(a, ncc.all_gather_v_prepare))


def triggered_by_nothing(a):
    prepared(a)
    ncc.all_to_all_v_trigger(None)


def triggered_by_a_collective(a):
    prepared(a)
    ncc.all_to_all_v_trigger(ncc.all_reduce([copied(a)], [copied(a)], ONE, nl.add))


def triggered_in_a_loop(a):
    first = prepared(a)
    nl.fori_loop(0, 2, lambda _: ncc.all_to_all_v_trigger(first))


ORDERS = [
    (never_triggered, "nothing triggers the exchange"),
    (prepared_twice, "was not triggered; one is prepared at a time"),
    (triggered_twice, "no prepared exchange"),
    (triggered_as_another_kind, "of the other kind"),
    (triggered_as_the_first_kind, "of the other kind"),
    (triggered_by_nothing, "no prepared exchange"),
    (triggered_by_a_collective, "no prepared exchange"),
    (triggered_in_a_loop, "in different loops"),
]


@EXECUTORS
@pytest.mark.parametrize(("calls", "words"), ORDERS, ids=[calls.__name__ for calls, _ in ORDERS])
def test_an_exchange_is_prepared_and_triggered_once_each(calls, words, run):
    def kernel(a):
        calls(a)
        return copied(a)

    with pytest.raises(CollectiveOrderError, match=words) as caught:
        run(kernel, 1, np.ones((8, 16), np.float32))
    assert caught.value.span is not None


@EXECUTORS
def test_one_exchange_after_the_other_also_in_a_loop(run):
    def kernel(a, given):
        source, target, rows = copied(a), copied(a), copied(given)

        def body(_):
            ncc.all_to_all_v_trigger(ncc.all_to_all_v_prepare([source], [target], TWO, rows))
            ncc.all_gather_v_trigger(ncc.all_gather_v_prepare([source], [target], TWO, rows))

        nl.fori_loop(0, 3, body)
        return copied(target)

    sources = [np.full(4, rank, np.float32) for rank in range(2)]
    given = np.array([[2, 2], [0, 0], [0, 0]], np.uint32)
    for result in run(kernel, 2, sources, given):
        np.testing.assert_array_equal(result, [0, 0, 1, 1])
