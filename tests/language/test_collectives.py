"""``nki.collectives`` among one, two and four ranks, on one core and two, in both executors; what is refused.

Random programs against oracles are in tests/collectives.
"""

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
from nki.collectives import ReplicaGroup, rg_partition_op
from nki.ir.instruction_handle import NkiInstruction
from tests.support.rank_launches import EXECUTORS, copied, empty

RANKS = pytest.mark.parametrize("ranks", [1, 2, 4])
CORES = pytest.mark.parametrize("cores", [1, 2])
RNG = np.random.default_rng(5)
# Sums of them are exact, whatever their order.
A = [RNG.integers(-99, 99, (8, 16)).astype(np.float32) for _ in range(4)]
B = [RNG.integers(-99, 99, (8, 16)).astype(np.float32) for _ in range(4)]
ONE = ReplicaGroup([[0]])

# The parameters of the NKI reference, in its order; "=" marks those with a default value.
_BY_COUNT = "srcs dsts replica_group metadata_tensor recv_counts_known= has_rdispls= priority= name="
DOCUMENTED = {
    "all_reduce": "srcs dsts replica_group op priority= name=",
    "all_gather": "srcs dsts replica_group collective_dim priority= name=",
    "all_gather_v": _BY_COUNT,
    "all_gather_v_prepare": _BY_COUNT,
    "all_gather_v_trigger": "prepare_instr name=",
    "reduce_scatter": "srcs dsts replica_group collective_dim op priority= name=",
    "all_to_all": "srcs dsts replica_group collective_dim priority= name=",
    "all_to_all_v": _BY_COUNT,
    "all_to_all_v_prepare": _BY_COUNT,
    "all_to_all_v_trigger": "prepare_instr name=",
    "collective_permute": "srcs dsts source_target_pairs priority= name=",
    "collective_permute_implicit": "srcs_by_channel dsts_by_channel replica_group channel_ids= priority= name=",
    "collective_permute_implicit_reduce": "srcs0_by_channel srcs1_by_channel dsts_by_channel replica_group op "
    "channel_ids= priority= name=",
    "collective_permute_implicit_current_processing_rank_id": "iteration_id replica_group channel_id= name=",
    "rank_id": "name=",
}


def test_signatures_are_those_of_the_reference():
    assert sorted(ncc.__all__) == sorted([*DOCUMENTED, "ReplicaGroup", "rg_partition_op"]) and nki.collectives is ncc
    for name, parameters in DOCUMENTED.items():
        signature = inspect.signature(getattr(ncc, name))
        shown = [p.name + ("" if p.default is p.empty else "=") for p in signature.parameters.values()]
        assert " ".join(shown) == parameters


def everyone(ranks):
    return ReplicaGroup([list(range(ranks))])


def equal(got, *wants):
    """The results of each rank, which has several."""
    for rank, results in enumerate(got):
        several = results if isinstance(results, tuple) else (results,)
        for result, want in zip(several, wants, strict=True):
            np.testing.assert_array_equal(result, want[rank])


# All ranks, several tensors

REDUCED = {nl.add: np.add, nl.minimum: np.minimum, nl.maximum: np.maximum}


@EXECUTORS
@RANKS
@CORES
@pytest.mark.parametrize("op", REDUCED, ids=str)
def test_all_reduce(op, ranks, cores, run):
    def kernel(a, b):
        sources, targets = [copied(a), copied(b)], [empty(*a.shape), empty(*b.shape)]
        ncc.all_reduce(sources, targets, everyone(ranks), op)
        return tuple([copied(t) for t in targets])

    got = run(kernel, ranks, A[:ranks], B[:ranks], cores=cores)
    equal(got, *([REDUCED[op].reduce(x[:ranks])] * ranks for x in (A, B)))


@EXECUTORS
@RANKS
@CORES
def test_gather_scatter_and_transposition(ranks, cores, run):
    group, parts = everyone(ranks), 8 // ranks

    def kernel(a):
        source = copied(a)
        gathered, part, exchanged = empty(8 * ranks, 16), empty(parts, 16), empty(8, 16)
        ncc.all_gather([source], [gathered], group, 0)
        ncc.reduce_scatter([source], [part], group, 0, nl.add, name="scatter")
        ncc.all_to_all([source], [exchanged], group, 0)
        return copied(gathered), copied(part), copied(exchanged)

    got, total = run(kernel, ranks, A[:ranks], cores=cores), sum(A[:ranks])
    rows = [slice(rank * parts, (rank + 1) * parts) for rank in range(ranks)]
    equal(
        got,
        [np.concatenate(A[:ranks])] * ranks,
        [total[row] for row in rows],
        [np.concatenate([a[row] for a in A[:ranks]]) for row in rows],
    )


@EXECUTORS
@RANKS
@CORES
def test_tiles(ranks, cores, run):
    group = everyone(ranks)

    def kernel(a):
        tile = nl.load(a)
        reduced, part = nl.ndarray((8, 16), a.dtype), nl.ndarray((8 // ranks, 16), a.dtype)
        wide, tall = nl.ndarray((8, 16 * ranks), a.dtype), nl.ndarray((8 * ranks, 16), a.dtype)
        ncc.all_reduce([tile], [reduced], group, nl.add)
        ncc.all_gather((tile,), (wide,), group, 1)
        ncc.all_gather((tile,), (tall,), group, 0)
        ncc.reduce_scatter([tile], [part], group, 0, nl.maximum)
        return copied(reduced), copied(wide), copied(tall), copied(part)

    got, most = run(kernel, ranks, A[:ranks], cores=cores), np.maximum.reduce(A[:ranks])
    rows = np.split(most, ranks)
    wide, tall = (np.concatenate(A[:ranks], axis) for axis in (1, 0))
    equal(got, [sum(A[:ranks])] * ranks, [wide] * ranks, [tall] * ranks, rows)


@EXECUTORS
def test_each_core_exchanges_its_own_memory(run):
    def kernel(a):
        core = nl.program_id(0)
        out = nl.ndarray((2, 8, 16), a.dtype, buffer=nl.shared_hbm)
        own, total = nl.load(a[core]), nl.ndarray((8, 16), a.dtype)
        ncc.all_reduce([own], [total], everyone(2), nl.add)
        nl.store(out[core], total)
        return out

    stacked = [np.stack([A[0], B[0]]), np.stack([A[1], B[1]])]
    equal(run(kernel, 2, stacked, cores=2), [stacked[0] + stacked[1]] * 2)


@EXECUTORS
def test_groups_are_apart_and_have_an_order(run):
    """The place of a rank in its list decides which part it gets."""
    group = ReplicaGroup([[2, 0], [1, 3]])

    def kernel(a):
        source, reduced, gathered, part = copied(a), empty(8, 16), empty(16, 16), empty(4, 16)
        ncc.all_reduce([source], [reduced], group, nl.add)
        ncc.all_gather([source], [gathered], group, 0)
        ncc.reduce_scatter([source], [part], group, 0, nl.add)
        return copied(reduced), copied(gathered), copied(part)

    even, odd = A[2] + A[0], A[1] + A[3]
    first, second = np.concatenate([A[2], A[0]]), np.concatenate([A[1], A[3]])
    wants = [even, odd, even, odd], [first, second, first, second], [even[4:], odd[:4], even[:4], odd[4:]]
    equal(run(kernel, 4, A), *wants)


@EXECUTORS
def test_floats_are_rounded_once(run):
    """256 + 1 + 1 + 1 is 259: of bfloat16 260, and 256 if each step were rounded."""
    values = [np.full((2, 4), value, nl.bfloat16) for value in (256, 1, 1, 1)]

    def kernel(a):
        total = empty(2, 4, dtype=a.dtype)
        ncc.all_reduce([copied(a)], [total], everyone(4), nl.add)
        return copied(total)

    equal(run(kernel, 4, values), [np.full((2, 4), 260, nl.bfloat16)] * 4)


@EXECUTORS
def test_integers_are_exact(run):
    values = [np.full((2, 4), 2**24 + rank, np.int32) for rank in range(4)]

    def kernel(a):
        total = empty(2, 4, dtype=a.dtype)
        ncc.all_reduce([copied(a)], [total], everyone(4), nl.add)
        return copied(total)

    equal(run(kernel, 4, values), [np.full((2, 4), 2**26 + 6, np.int32)] * 4)


# Steps between neighbours


@EXECUTORS
@RANKS
@CORES
def test_a_ring_in_two_channels(ranks, cores, run):
    def kernel(a, b):
        c, d = empty(*a.shape), empty(*b.shape)
        ncc.collective_permute_implicit([[copied(a)], [copied(b)]], [[c], [d]], everyone(ranks), channel_ids=[0, 1])
        return copied(c), copied(d)

    equal(run(kernel, ranks, A[:ranks], B[:ranks], cores=cores), *(x[ranks - 1 :] + x[: ranks - 1] for x in (
        A[:ranks], B[:ranks]
    )))  # fmt: skip


@EXECUTORS
def test_channels_are_slices_of_one_tile(run):
    def kernel(a):
        sent, got = nl.load(a), nl.ndarray(a.shape, a.dtype)
        halves = [[[tile[:, :8]], [tile[:, 8:]]] for tile in (sent, got)]
        ncc.collective_permute_implicit(*halves, everyone(2), channel_ids=[0, 1])
        return copied(got)

    equal(run(kernel, 2, A[:2]), [A[1], A[0]])


@EXECUTORS
@RANKS
@pytest.mark.parametrize("op", REDUCED, ids=str)
@pytest.mark.parametrize("on_chip", [False, True])
def test_a_ring_reduces_its_own(op, ranks, on_chip, run):
    def kernel(a, b):
        both = nl.ndarray(a.shape, a.dtype) if on_chip else empty(*a.shape)
        left, right = (nl.load(x) if on_chip else copied(x) for x in (a, b))
        ncc.collective_permute_implicit_reduce([[left]], [[right]], [[both]], everyone(ranks), op)
        return copied(both)

    want = [REDUCED[op](a, b) for a, b in zip(A[:ranks], B[:ranks], strict=True)]
    equal(run(kernel, ranks, A[:ranks], B[:ranks]), np.roll(want, 1, axis=0))


@EXECUTORS
def test_pairs(run):
    """A rank that receives nothing keeps what it has; one in no pair takes no part."""

    def kernel(a, b):
        c = copied(b)
        ncc.collective_permute([copied(a)], [c], [(0, 2), (2, 1)])
        return copied(c)

    equal(run(kernel, 4, A, B), [B[0], A[2], A[0], B[3]])


@EXECUTORS
def test_the_rank_is_a_register(run):
    group = ReplicaGroup([[3, 1, 0], [2, 4, 5]])

    def kernel(a):
        numbers = nl.ndarray((1, 5), nl.int32)
        nisa.register_store(numbers[:, 0:1], ncc.rank_id(name="me"))
        for step in range(4):
            owner = ncc.collective_permute_implicit_current_processing_rank_id(step, group)
            nisa.register_store(numbers[:, step + 1 : step + 2], owner)
        row = empty(1, 16)
        nisa.dma_copy(row, a.select(0, ncc.rank_id()))
        return copied(numbers), row

    got = run(kernel, 6, A[0])
    # Its own, then its predecessors.
    owners = [[0, 1, 3, 0], [1, 3, 0, 1], [2, 5, 4, 2], [3, 0, 1, 3], [4, 2, 5, 4], [5, 4, 2, 5]]
    equal(got, [[[rank, *owners[rank]]] for rank in range(6)], [A[0][rank : rank + 1] for rank in range(6)])


@EXECUTORS
def test_the_step_of_a_ring_is_a_register(run):
    def kernel(a):
        numbers = nl.ndarray((1, 4), nl.int32)

        def body(step):
            owner = ncc.collective_permute_implicit_current_processing_rank_id(step, everyone(2))
            nisa.register_store(numbers[:, nl.ds(step, 1)], owner)

        nl.fori_loop(0, 4, body)
        return copied(numbers)

    equal(run(kernel, 2, A[0]), [[[0, 1, 0, 1]], [[1, 0, 1, 0]]])


@EXECUTORS
def test_what_a_ring_brings_is_what_the_register_names(run):
    """As in ring attention: each rank adds what comes by at the place of its owner."""

    def kernel(a):
        buffers = [copied(a), empty(*a.shape)]
        out = nl.ndarray((4, 8, 16), a.dtype, buffer=nl.shared_hbm)
        for step in range(4):
            owner = ncc.collective_permute_implicit_current_processing_rank_id(step, everyone(4))
            nisa.dma_copy(out.select(0, owner), buffers[step % 2])
            if step < 3:
                ncc.collective_permute_implicit([[buffers[step % 2]]], [[buffers[1 - step % 2]]], everyone(4))
        return out

    equal(run(kernel, 4, A), [np.stack(A)] * 4)


@EXECUTORS
def test_a_collective_returns_its_instruction(run):
    def kernel(a):
        source, target = copied(a), empty(*a.shape)
        assert isinstance(ncc.all_reduce([source], [target], everyone(2), nl.add), NkiInstruction)
        assert isinstance(ring([[source]], [[target]], everyone(2)), NkiInstruction)
        return copied(target)

    equal(run(kernel, 2, A[:2]), [A[1], A[0]])


# Groups


def test_groups():
    assert ReplicaGroup([[0, 1], [2, 3]]) == ReplicaGroup(((0, 1), (2, 3))) != ONE
    assert repr(ONE) == "ReplicaGroup(replica_groups=((0,),))"
    for wrong in ([], [[]], [[0], [0]], [[0, 0]], [[-1]], [[True]], [["0"]], [0], "0", None):
        with pytest.raises(ArgumentError):
            ReplicaGroup(wrong)


@pytest.mark.parametrize(
    ("op", "operand", "want"),
    [
        ("div", 4, [[0, 1, 2, 3], [4, 5, 6, 7]]),
        ("mod", 4, [[0, 4], [1, 5], [2, 6], [3, 7]]),
        ("bitwise_and", 0, [[0, 1, 2, 3, 4, 5, 6, 7]]),
        ("bitwise_and", 6, [[0, 1], [2, 3], [4, 5], [6, 7]]),
    ],
)
def test_groups_by_an_operator(op, operand, want):
    assert ReplicaGroup.from_partition_op(8, rg_partition_op[op], operand) == ReplicaGroup(want)


@pytest.mark.parametrize(
    "wrong",
    [(0, rg_partition_op.div, 4), (8, "div", 4), (8, rg_partition_op.mod, 0), (8, rg_partition_op.bitwise_and, -1),
     (8.0, rg_partition_op.div, 4), (8, rg_partition_op.div, True)],
)  # fmt: skip
def test_groups_by_an_operator_need_numbers(wrong):
    with pytest.raises(ArgumentError, match="from_partition_op"):
        ReplicaGroup.from_partition_op(*wrong)


# What is wrong


def tiles(a, count, exchange, *rest):
    loaded = [nl.load(a) for _ in range(count)]
    exchange(loaded, loaded, *rest)


def sized(*shape, dtype=nl.uint32):
    return nl.ndarray(shape, dtype, buffer=nl.shared_hbm)


ring, step_owner = ncc.collective_permute_implicit, ncc.collective_permute_implicit_current_processing_rank_id
ring_reduce = ncc.collective_permute_implicit_reduce
TWO = ReplicaGroup([[0, 1]])
WRONG = [
    (SeveralRanksError, "name 2 ranks", lambda a, o: ncc.all_reduce([a], [o], TWO, nl.add)),
    (SeveralRanksError, "name 2 ranks", lambda a, o: ncc.all_gather([a], [sized(16, 16, dtype=nl.float32)], TWO, 0)),
    (SeveralRanksError, "name 2 ranks", lambda a, o: ncc.all_to_all([a], [o], TWO, 0)),
    (SeveralRanksError, "name 2 ranks", lambda a, o: ring([[a]], [[o]], TWO)),
    (SeveralRanksError, "name 2 ranks", lambda a, o: step_owner(0, TWO)),
    (SeveralRanksError, "name 2 ranks", lambda a, o: ncc.collective_permute([a], [o], [(0, 1), (1, 0)])),
    (SeveralRanksError, "name 2 ranks", lambda a, o: ncc.all_reduce([a], [o], ReplicaGroup([[1]]), nl.add)),
    (ArgumentError, "no ReplicaGroup", lambda a, o: ncc.all_reduce([a], [o], [[0]], nl.add)),
    (ArgumentError, "differ in size", lambda a, o: ncc.all_reduce([a], [o], ReplicaGroup([[0], [1, 2]]), nl.add)),
    (OperatorError, "reduces nothing", lambda a, o: ncc.all_reduce([a], [o], ONE, nl.multiply)),
    (ArgumentError, "must be an operator", lambda a, o: ncc.reduce_scatter([a], [o], ONE, 0, "add")),
    (OperatorError, "reduces nothing", lambda a, o: ring_reduce([[a]], [[a]], [[o]], ONE, nl.multiply)),
    (ArgumentError, "collective_dim=1", lambda a, o: ncc.all_gather([a], [o], ONE, 1)),
    (ArgumentError, "collective_dim=1", lambda a, o: ncc.all_to_all([a], [o], ONE, 1)),
    (ArgumentError, "no list", lambda a, o: ncc.all_reduce(a, o, ONE, nl.add)),
    (ArgumentError, "no list of tensors", lambda a, o: ncc.all_reduce([], [], ONE, nl.add)),
    (ArgumentError, "as many destinations", lambda a, o: ncc.all_reduce([a, a], [o], ONE, nl.add)),
    (ArgumentError, "one tensor, in HBM", lambda a, o: ncc.collective_permute([a, a], [o, o], [(0, 0)])),
    (ArgumentError, "one tensor, in HBM", lambda a, o: tiles(a, 1, ncc.collective_permute, [(0, 0)])),
    (ArgumentError, "several tensors at once", lambda a, o: tiles(a, 2, ncc.all_reduce, ONE, nl.add)),
    (ArgumentError, "not pairs", lambda a, o: ncc.collective_permute([a], [o], [(0, 0, 0)])),
    (ArgumentError, "not pairs", lambda a, o: ncc.collective_permute([a], [o], [])),
    (ArgumentError, "source of one pair", lambda a, o: ncc.collective_permute([a], [o], [(0, 1), (0, 2)])),
    (ArgumentError, "channels", lambda a, o: ring([[a]], [[o]], ONE, [1])),
    (ArgumentError, "channels", lambda a, o: ring([[a], [a]], [[o]], ONE)),
    (ArgumentError, "channels", lambda a, o: ring([[a]] * 5, [[o]] * 5, ONE, [0, 1, 2, 3, 4])),
    (ArgumentError, "several tensors", lambda a, o: ring([[a, a]], [[o, o]], ONE)),
    (ArgumentError, "channel_id=4", lambda a, o: step_owner(0, ONE, 4)),
    (ArgumentError, "step", lambda a, o: step_owner("0", ONE)),
    (ArgumentError, "priority=9", lambda a, o: ncc.all_reduce([a], [o], ONE, nl.add, priority=9)),
    (MemoryRegionError, "must be in HBM", lambda a, o: ncc.all_reduce([nl.load(a)], [o], ONE, nl.add)),
    (MemoryRegionError, "must be in HBM", lambda a, o: tiles(a, 1, ncc.all_to_all, ONE, 0)),
    (ShapeError, "2 dimensions", lambda a, o: tiles(a.reshape((8, 4, 4)), 1, ncc.all_gather, ONE, 0)),
    (ShapeError, "as long as its source", lambda a, o: ncc.all_gather([a], [sized(16, 16, dtype=nl.float32)], ONE, 0)),
    (DTypeError, "uint32", lambda a, o: ncc.all_gather([a], [sized(8, 16)], ONE, 0)),
]  # fmt: skip


@EXECUTORS
@pytest.mark.parametrize(("error", "words", "call"), WRONG, ids=[f"{n}" for n in range(len(WRONG))])
def test_what_is_wrong_is_said(error, words, call, run):
    def kernel(a):
        source, target = copied(a), copied(a)
        call(source, target)
        return copied(target)

    alone = nki.jit if run.__name__ == "native" else nki.simulate
    with pytest.raises(NkiError) as caught:
        alone(kernel)(A[0])
    assert type(caught.value) is error and words in str(caught.value), str(caught.value)


def an_argument(a):
    target = empty(*a.shape)
    ncc.all_reduce([a], [target], ONE, nl.add)
    return copied(target)


def a_result(a):
    target = empty(*a.shape)
    ncc.all_reduce([copied(a)], [target], ONE, nl.add)
    return target


@EXECUTORS
@pytest.mark.parametrize(("kernel", "words"), [(an_argument, "argument of the kernel"), (a_result, "is returned")])
def test_arguments_and_results_are_no_operands(kernel, words, run):
    with pytest.raises(MemoryRegionError, match=words) as caught:
        run(kernel, 1, A[0])
    assert "nisa.dma_copy" in caught.value.fix


@pytest.mark.parametrize(
    "call",
    [
        lambda a, o: ncc.all_reduce([a], [o], ONE, nl.add, priority=1),
        lambda a, o: ring_reduce([[a]], [[a]], [[o]], ONE, nl.add, priority=1),
    ],
)
def test_priorities_are_of_gen4(call, monkeypatch):
    def kernel(a):
        target = empty(*a.shape)
        call(copied(a), target)
        return copied(target)

    assert nki.simulate(kernel)(A[0]).shape == A[0].shape
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn2")
    with pytest.raises(GenerationError, match="priority"):
        nki.simulate(kernel)(A[0])
