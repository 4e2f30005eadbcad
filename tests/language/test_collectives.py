"""``nki.collectives`` among one rank, in both executors; what is refused."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
from nki.base.errors import (
    ArgumentError,
    DTypeError,
    GenerationError,
    MemoryRegionError,
    NkiError,
    OperatorError,
    SeveralRanksError,
    ShapeError,
)
from nki.collectives import ReplicaGroup

RUNS = pytest.mark.parametrize("run", [nki.jit, nki.simulate], ids=["native", "eager"])
A = np.random.default_rng(5).standard_normal((8, 16)).astype(np.float32)
B = np.random.default_rng(6).standard_normal((8, 16)).astype(np.float32)
ONE = ReplicaGroup([[0]])

# The parameters of the NKI reference, in its order; "=" marks those with a default value.
DOCUMENTED = {
    "all_reduce": "srcs dsts replica_group op priority= name=",
    "all_gather": "srcs dsts replica_group collective_dim priority= name=",
    "all_gather_v": "srcs dsts replica_group metadata_tensor recv_counts_known= has_rdispls= priority= name=",
    "reduce_scatter": "srcs dsts replica_group collective_dim op priority= name=",
    "all_to_all": "srcs dsts replica_group collective_dim priority= name=",
    "all_to_all_v": "srcs dsts replica_group metadata_tensor recv_counts_known= has_rdispls= priority= name=",
    "collective_permute": "srcs dsts source_target_pairs priority= name=",
    "collective_permute_implicit": "srcs_by_channel dsts_by_channel replica_group channel_ids= priority= name=",
    "collective_permute_implicit_reduce": "srcs0_by_channel srcs1_by_channel dsts_by_channel replica_group op "
    "channel_ids= priority= name=",
    "collective_permute_implicit_current_processing_rank_id": "iteration_id replica_group channel_id= name=",
    "rank_id": "name=",
}


def test_signatures_are_those_of_the_reference():
    assert sorted(ncc.__all__) == sorted([*DOCUMENTED, "ReplicaGroup"]) and nki.collectives is ncc
    for name, parameters in DOCUMENTED.items():
        signature = inspect.signature(getattr(ncc, name))
        shown = [p.name + ("" if p.default is p.empty else "=") for p in signature.parameters.values()]
        assert " ".join(shown) == parameters


def like(x):
    return nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)


COPIES = {
    "all_reduce": lambda s, d: ncc.all_reduce(s, d, ONE, nl.add),
    "all_reduce, names": lambda s, d: ncc.all_reduce(srcs=s, dsts=d, replica_group=ONE, op=nl.maximum, priority=1),
    "all_gather": lambda s, d: ncc.all_gather(s, d, ONE, 0),
    "reduce_scatter": lambda s, d: ncc.reduce_scatter(s, d, ONE, 0, nl.minimum),
    "all_to_all": lambda s, d: ncc.all_to_all(s, d, ONE, 0, name="exchange"),
}


@RUNS
@pytest.mark.parametrize("exchange", COPIES.values(), ids=COPIES)
def test_several_tensors_in_hbm(exchange, run):
    def kernel(a, b):
        c, d = like(a), like(b)
        exchange([a, b], [c, d])
        return c, d

    c, d = run(kernel)(A, B)
    np.testing.assert_array_equal(c, A)
    np.testing.assert_array_equal(d, B)


@RUNS
def test_tiles(run):
    def kernel(a):
        tile = nl.load(a)
        reduced, gathered, part = (nl.ndarray(a.shape, a.dtype) for _ in range(3))
        ncc.all_reduce([tile], [reduced], ReplicaGroup([[0], [1]]), nl.add)
        ncc.all_gather((reduced,), (gathered,), ONE, 1)
        ncc.reduce_scatter([gathered], [part], ONE, 0, nl.add)
        out = like(a)
        nl.store(out, part)
        return out

    np.testing.assert_array_equal(run(kernel)(A), A)


@RUNS
def test_permutations(run):
    def kernel(a, b):
        c, d, e = like(a), like(a), like(b)
        ncc.collective_permute([a], [c], [(0, 0)])
        ncc.collective_permute_implicit([[a], [b]], [[d], [e]], ONE, channel_ids=[0, 1])
        return c, d, e

    for got, want in zip(run(kernel)(A, B), (A, A, B), strict=True):
        np.testing.assert_array_equal(got, want)


@RUNS
@pytest.mark.parametrize(("op", "want"), [(nl.add, np.add), (nl.minimum, np.minimum), (nl.maximum, np.maximum)])
def test_a_ring_reduces_its_own(op, want, run):
    def kernel(a, b):
        left, right, both = nl.load(a), nl.load(b), nl.ndarray(a.shape, a.dtype)
        ncc.collective_permute_implicit_reduce([[left]], [[right]], [[both]], ONE, op)
        out = like(a)
        nl.store(out, both)
        return out

    np.testing.assert_array_equal(run(kernel)(A, B), want(A, B))


@RUNS
def test_a_ring_adds_in_hbm(run):
    def kernel(a, b):
        out = like(a)
        ncc.collective_permute_implicit_reduce([[a]], [[b]], [[out]], ONE, nl.add)
        return out

    np.testing.assert_array_equal(run(kernel)(A, B), A + B)


@RUNS
def test_the_rank_is_a_register_of_0(run):
    def kernel(a):
        rank = ncc.rank_id(name="me")
        step = ncc.collective_permute_implicit_current_processing_rank_id(3, ONE)
        both = nl.ndarray((1, 2), nl.int32)
        nisa.register_store(both[:, 0:1], rank)
        nisa.register_store(both[:, 1:2], step)
        ranks = nl.ndarray((1, 2), nl.int32, buffer=nl.shared_hbm)
        nisa.dma_copy(ranks, both)
        row = like(a[0:1])
        nisa.dma_copy(row, a.select(0, rank))
        return ranks, row

    ranks, row = run(kernel)(A)
    np.testing.assert_array_equal(ranks, [[0, 0]])
    np.testing.assert_array_equal(row, A[:1])


def test_groups():
    assert ReplicaGroup([[0, 1], [2, 3]]) == ReplicaGroup(((0, 1), (2, 3))) != ONE
    assert repr(ONE) == "ReplicaGroup(replica_groups=((0,),))"
    for wrong in ([], [[]], [[0], [0]], [[0, 0]], [[-1]], [[True]], [["0"]], [0], "0", None):
        with pytest.raises(ArgumentError):
            ReplicaGroup(wrong)


def table(*shape, on=nl.hbm):
    return nl.ndarray(shape or (3, 1), nl.uint32, buffer=on)


def tiles(a, count, exchange, *rest):
    loaded = [nl.load(a) for _ in range(count)]
    exchange(loaded, loaded, *rest)


ring = ncc.collective_permute_implicit_reduce
TWO = ReplicaGroup([[0, 1]])
SBUF = nl.sbuf
WRONG = [
    (SeveralRanksError, "groups of several", lambda a, o: ncc.all_reduce([a], [o], TWO, nl.add)),
    (SeveralRanksError, "groups of several", lambda a, o: ncc.all_gather([a], [o], TWO, 0)),
    (SeveralRanksError, "groups of several", lambda a, o: ncc.reduce_scatter([a], [o], TWO, 0, nl.add)),
    (SeveralRanksError, "groups of several", lambda a, o: ncc.all_to_all([a], [o], TWO, 0)),
    (SeveralRanksError, "groups of several", lambda a, o: ncc.collective_permute_implicit([[a]], [[o]], TWO)),
    (SeveralRanksError, "pairs", lambda a, o: ncc.collective_permute([a], [o], [(0, 1), (1, 0)])),
    (SeveralRanksError, "4 ranks", lambda a, o: ncc.all_gather_v([a], [o], ONE, table())),
    (SeveralRanksError, "devices", lambda a, o: ncc.all_to_all_v([a], [o], ONE, table())),
    (SeveralRanksError, "devices", lambda a, o: ncc.all_to_all_v([a], [o], TWO, table(1, 4, 2, on=SBUF), False, True)),
    (SeveralRanksError, "devices", lambda a, o: ncc.all_to_all_v([a], [o], ONE, table(2, 1))),
    (SeveralRanksError, "devices", lambda a, o: ncc.all_to_all_v([a], [o], ONE, table(4, 1), False, False)),
    (SeveralRanksError, "4 ranks", lambda a, o: ncc.all_gather_v([a], [o], ONE, table(1, 2, 1, on=SBUF))),
    (ShapeError, r"\(n, 1\) with n from 3 to 4", lambda a, o: ncc.all_to_all_v([a], [o], ONE, table(2, 1), True)),
    (ShapeError, r"\(n, 2\) with n from 4 to 4", lambda a, o: ncc.all_to_all_v([a], [o], TWO, table(3, 2), True, True)),
    (ShapeError, r"\(n, 1\) with n from 2 to 4", lambda a, o: ncc.all_to_all_v([a], [o], ONE, table(5, 1))),
    (ShapeError, "metadata_tensor", lambda a, o: ncc.all_gather_v([a], [o], ONE, a)),
    (ArgumentError, "dsts is not one tensor", lambda a, o: ncc.all_gather_v([a], [o, o], ONE, table())),
    (ArgumentError, "flags", lambda a, o: ncc.all_gather_v([a], [o], ONE, table(), 1)),
    (ArgumentError, "no ReplicaGroup", lambda a, o: ncc.all_gather_v([a], [o], None, table())),
    (ArgumentError, "no ReplicaGroup", lambda a, o: ncc.all_reduce([a], [o], [[0]], nl.add)),
    (ArgumentError, "rank 0", lambda a, o: ncc.all_reduce([a], [o], ReplicaGroup([[1]]), nl.add)),
    (OperatorError, "reduces nothing", lambda a, o: ncc.all_reduce([a], [o], ONE, nl.multiply)),
    (OperatorError, "reduces nothing", lambda a, o: ncc.reduce_scatter([a], [o], ONE, 0, "add")),
    (OperatorError, "only adds", lambda a, o: ring([[a]], [[a]], [[o]], ONE, nl.maximum)),
    (ArgumentError, "collective_dim=1", lambda a, o: ncc.all_gather([a], [o], ONE, 1)),
    (ArgumentError, "collective_dim=1", lambda a, o: ncc.all_to_all([a], [o], ONE, 1)),
    (ArgumentError, "no list", lambda a, o: ncc.all_reduce(a, o, ONE, nl.add)),
    (ArgumentError, "not as many", lambda a, o: ncc.all_reduce([a, a], [o], ONE, nl.add)),
    (ArgumentError, "tensors at once", lambda a, o: ncc.collective_permute([a, a], [o, o], [(0, 0)])),
    (ArgumentError, "several must be in HBM", lambda a, o: tiles(a, 2, ncc.all_reduce, ONE, nl.add)),
    (ArgumentError, "not pairs", lambda a, o: ncc.collective_permute([a], [o], [(0, 0, 0)])),
    (ArgumentError, "channels", lambda a, o: ncc.collective_permute_implicit([[a]], [[o]], ONE, [1])),
    (ArgumentError, "channels", lambda a, o: ncc.collective_permute_implicit([[a], [a]], [[o]], ONE)),
    (ArgumentError, "channel_id=4", lambda a, o: ncc.collective_permute_implicit_current_processing_rank_id(0, ONE, 4)),
    (ArgumentError, "step", lambda a, o: ncc.collective_permute_implicit_current_processing_rank_id("0", ONE)),
    (ArgumentError, "priority", lambda a, o: ncc.all_reduce([a], [o], ONE, nl.add, priority=9)),
    (MemoryRegionError, "all must be in HBM", lambda a, o: ncc.all_reduce([nl.load(a)], [o], ONE, nl.add)),
    (MemoryRegionError, "all must be in HBM", lambda a, o: ncc.all_to_all([nl.load(a)], [nl.load(a)], ONE, 0)),
    (ShapeError, "2 dimensions", lambda a, o: tiles(a.reshape((8, 4, 4)), 1, ncc.all_gather, ONE, 0)),
    (ShapeError, "has the shape", lambda a, o: ncc.all_gather([a], [table(16, 16)], ONE, 0)),
    (DTypeError, "uint32", lambda a, o: ncc.all_gather([a], [table(8, 16)], ONE, 0)),
]  # fmt: skip


@pytest.mark.parametrize(("error", "words", "call"), WRONG, ids=[f"{n}" for n in range(len(WRONG))])
def test_what_is_wrong_is_said(error, words, call):
    def kernel(a):
        out = like(a)
        call(a, out)
        nisa.dma_copy(out, a)
        return out

    with pytest.raises(NkiError) as caught:
        nki.jit(kernel)(A)
    assert type(caught.value) is error and words in str(caught.value), str(caught.value)


@pytest.mark.parametrize(
    "call",
    [
        lambda a, o: ncc.all_reduce([a], [o], ONE, nl.add, priority=1),
        lambda a, o: ncc.collective_permute_implicit_reduce([[a]], [[a]], [[o]], ONE, nl.add, priority=1),
    ],
)
def test_priorities_are_of_gen4(call, monkeypatch):
    def kernel(a):
        out = like(a)
        call(a, out)
        return out

    assert nki.simulate(kernel)(A).shape == A.shape
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn2")
    with pytest.raises(GenerationError, match="priority"):
        nki.simulate(kernel)(A)


@pytest.mark.parametrize("exchange", [ncc.all_to_all_v, ncc.all_gather_v])
def test_what_one_rank_does_instead_of_an_exchange_of_sizes(exchange) -> None:
    @nki.jit
    def kernel(a):
        source = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
        target = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
        exchange([source], [target], ONE, table())
        return target

    with pytest.raises(SeveralRanksError) as caught:
        kernel.compile(np.ones((4, 8), np.float32))
    assert "`nisa.dma_copy(dst=target, src=source)`" in caught.value.fix
