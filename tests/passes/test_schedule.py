"""Queues and their order: which engine runs what, what may overtake what, and the edges that users draw."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings

import nki
import nki.isa as nisa
import nki.language as nl
from nki import target as targets
from nki.base.errors import (
    ArgumentError,
    MissingWaitError,
    QueueError,
    ScheduleCycleError,
    ScheduleNameError,
    ScheduleScopeError,
    StructureError,
    TextError,
)
from nki.ir.program import Program
from nki.ir.text import artifact, parser, printer
from nki.passes import sync
from nki.passes.scheduling.list_scheduler import WINDOW
from tests.support.interleaved_run import by_name, compiled, in_order, makespan, onward
from tests.support.kernel_parts import copied, joined, like, product, returned

from . import programs

X = np.linspace(-1, 1, 64 * 256, dtype=np.float32).reshape(64, 256)


@nki.jit
def two_steps(x):
    """Two instructions without a dependence of data, between a load and a sum."""
    tile, inverse, more, total = (nl.ndarray(x.shape, dtype=x.dtype) for _ in range(4))
    nisa.dma_copy(tile, x, name="load")
    nisa.reciprocal(inverse, tile, name="recip")
    nisa.tensor_scalar(more, tile, op0=nl.add, operand0=1.0, engine=nisa.engine.scalar, name="plus1")
    nisa.tensor_tensor(total, inverse, more, op=nl.add, name="sum")
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, total, name="store")
    return out


def edges(kernel: Program) -> set[tuple[str, str]]:
    """(consumer, producer) by name."""
    names = {inst.label: inst.name for inst in kernel.instructions() if inst.label}
    return {(inst.name, names[label]) for inst in kernel.instructions() for label in inst.ordered_after}


@pytest.mark.parametrize("producers", ["recip", ["recip"], ("recip",)])
def test_an_edge_by_name(producers):
    kernel = two_steps.with_schedule([("plus1", producers)])
    assert edges(compiled(kernel, X)) == {("plus1", "recip")}
    assert np.array_equal(kernel(X), two_steps(X))
    assert np.array_equal(nki.simulate(kernel)(X), two_steps(X))


def test_an_edge_against_program_order_puts_its_consumer_off():
    plain, turned = compiled(two_steps, X, stop="order"), two_steps.with_schedule([("recip", "plus1")])
    assert by_name(plain)["recip"] < by_name(plain)["plus1"]
    kernel = compiled(turned, X, stop="order")
    assert by_name(kernel)["plus1"] < by_name(kernel)["recip"] < by_name(kernel)["sum"]
    assert np.array_equal(turned(X), two_steps(X))
    scheduled = compiled(turned, X)
    recip = next(i for i in scheduled.instructions() if i.name == "recip")
    plus1 = next(i for i in scheduled.instructions() if i.name == "plus1")
    less = scheduled.with_cores(
        [scheduled.core.with_body([i.with_schedule(waits=()) if i is recip else i for i in scheduled.instructions()])]
    )
    assert plus1.queue != recip.queue
    with pytest.raises(MissingWaitError):
        sync.check_waits(less)


def test_edges_add_up_and_reach_launches_on_a_grid():
    kernel = two_steps.with_schedule([("plus1", "recip")]).with_schedule([("store", ["load", "sum"])])
    assert kernel.schedule == (("plus1", ("recip",)), ("store", ("load", "sum")))
    assert kernel[1].schedule == kernel.schedule
    assert two_steps.schedule == ()
    assert edges(compiled(kernel[1], X)) == {("plus1", "recip"), ("store", "load"), ("store", "sum")}


@pytest.mark.parametrize(
    "bad", ["recip", [("plus1",)], [("plus1", 3)], [("a", "b", "c")], [("a", [])], 7, [("a", [1])]]
)
def test_a_schedule_is_a_list_of_pairs_of_names(bad):
    with pytest.raises(ArgumentError, match="no list of"):
        two_steps.with_schedule(bad)


@pytest.mark.parametrize(
    ("pairs", "error", "message"),
    [
        ([("plus2", "recip")], ScheduleNameError, "'plus2', and no instruction"),
        ([("plus1", "recipe")], ScheduleNameError, "did you mean 'recip'"),
        ([("load", "store")], ScheduleCycleError, "no order of the instructions"),
        ([("recip", "plus1"), ("plus1", "recip")], ScheduleCycleError, "is to come after"),
        ([("sum", "sum")], ScheduleCycleError, "depends on itself"),
    ],
)
def test_what_a_schedule_cannot_be(pairs, error, message):
    for run in (two_steps.with_schedule(pairs), nki.simulate(two_steps.with_schedule(pairs))):
        with pytest.raises(error, match=message):
            run(X)


@nki.jit
def three(a, b, c, ordered):
    tiles = [nl.load(source) for source in (a, b, c)]
    results = [like(tile) for tile in tiles]
    if ordered:
        with nl.no_reorder():
            exponentials(tiles, results)
    else:
        exponentials(tiles, results)
    return tuple([returned(result) for result in results])


def exponentials(tiles, results):
    """One after the other, on engines that alternate."""
    for i in range(len(tiles)):
        nisa.activation(results[i], nl.exp, tiles[i], name=f"act{i}")
        nisa.tensor_scalar(results[i], results[i], op0=nl.add, operand0=1.0, engine=nisa.engine.vector, name=f"add{i}")


def test_no_reorder_keeps_program_order_across_functions_and_engines():
    kernel = compiled(three, X, X, X, True)
    names = [f"{kind}{i}" for i in range(3) for kind in ("act", "add")]
    places = by_name(kernel)
    assert sorted(places, key=places.__getitem__) == names
    assert edges(kernel) == {(later, earlier) for earlier, later in pairwise(names)}
    assert edges(compiled(three, X, X, X, False)) == set()


def test_no_reorder_is_the_same_as_a_schedule_of_all_pairs():
    chain = [f"{kind}{i}" for i in range(3) for kind in ("act", "add")]
    drawn = three.with_schedule(list(zip(chain[1:], chain, strict=False)))
    assert edges(compiled(drawn, X, X, X, False)) == edges(compiled(three, X, X, X, True))


@nki.jit
def in_loop(x, inside, backwards):
    tile, other = nl.ndarray(x.shape, dtype=x.dtype), nl.ndarray(x.shape, dtype=x.dtype)
    first = nisa.dma_copy(tile, x, name="first")
    handles = []

    def body(i):
        one = nisa.tensor_scalar(other, tile, op0=nl.add, operand0=1.0, name="one")
        two = nisa.activation(tile, nl.square, tile, name="two")
        if inside:
            two.depends_on(one, first)
        handles.append(one)

    nl.fori_loop(0, 3, body)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    last = nisa.dma_copy(out, tile, name="last")
    if backwards:
        last.depends_on(handles[0])
    return out


def test_edges_within_a_body_and_from_before_its_loop():
    kernel = compiled(in_loop, X, True, False)
    assert edges(kernel) == {("two", "one"), ("two", "first")}
    assert np.array_equal(in_loop(X, True, False), in_loop(X, False, False))


@pytest.mark.parametrize("run", [in_loop, nki.simulate(in_loop)])
def test_no_edge_leads_out_of_a_loop(run):
    with pytest.raises(ScheduleScopeError, match="in the body of a run-time loop"):
        run(X, False, True)


def test_no_name_leads_into_a_loop():
    with pytest.raises(ScheduleScopeError):
        in_loop.with_schedule([("last", "one")])(X, False, False)
    with pytest.raises(ScheduleCycleError):  # the loop is one statement, and `last` needs its results
        in_loop.with_schedule([("one", "last")])(X, False, False)


def test_edges_live_in_text_and_artifacts():
    kernel = compiled(two_steps.with_schedule([("recip", "plus1")]), X, stop="order")
    shown = printer.show(kernel)
    assert 'name="recip" after plus1' in shown
    assert 'name="plus1" label plus1' in shown
    assert parser.parse(shown) == artifact.loads(artifact.dumps(kernel)) == kernel
    assert onward(parser.parse(shown)) == onward(kernel)


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("after plus1", "after plus2", StructureError),
        ("label plus1", "label plus1 label x", TextError),
        ("after plus1", "after", TextError),
        ("after plus1", "on vector2", TextError),
        ("after plus1", "wait vector", TextError),
        ("label plus1", 'label "a\\q"', TextError),
    ],
)
def test_edges_in_text_that_cannot_be(old, new, error):
    shown = printer.show(compiled(two_steps.with_schedule([("recip", "plus1")]), X, stop="order"))
    assert old in shown
    with pytest.raises(error):
        onward(parser.parse(shown.replace(old, new)))


def test_two_labels_of_one_name():
    shown = printer.show(compiled(two_steps, X, stop="order"))
    twice = shown.replace('name="recip"', 'name="recip" label a').replace('name="sum"', 'name="sum" label a after a')
    with pytest.raises(StructureError, match="two instructions"):
        onward(parser.parse(twice))


OPERATIONS = {
    "power": lambda new, tile: nisa.tensor_tensor(new, tile, tile, op=nl.power, name="it"),
    "square": lambda new, tile: nisa.tensor_scalar(new, tile, nl.power, 2.0, op1=nl.add, operand1=1.0, name="it"),
    "square of a difference": lambda new, tile: nisa.tensor_scalar(
        new, tile, nl.subtract, 1.0, op1=nl.power, operand1=2.0, name="it"
    ),
    "bits": lambda new, tile: nisa.tensor_tensor(new, tile, tile, op=nl.bitwise_and, name="it"),
    "add": lambda new, tile: nisa.tensor_tensor(new, tile, tile, op=nl.add, name="it"),
    "psum": lambda new, tile: nisa.tensor_copy(new, tile, engine=nisa.engine.scalar, name="it"),
    "copy": lambda new, tile: nisa.tensor_copy(new, tile, name="it"),
}


@nki.jit
def engines(x, kind):
    tile = nl.load(x)
    new = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.psum if kind == "psum" else nl.sbuf)
    OPERATIONS[kind](new, tile)
    return returned(copied(new) if kind == "psum" else new)


@pytest.mark.parametrize(
    ("kind", "dtype", "queue"),
    [
        ("power", np.float32, "gpsimd"),
        ("square", np.float32, "gpsimd"),
        ("square of a difference", np.float32, "vector"),
        ("bits", np.int32, "vector"),
        ("add", np.int32, "gpsimd"),
        ("add", np.float32, "vector"),
        ("psum", np.float32, "scalar"),
        ("copy", np.float32, "vector"),
    ],
)
def test_the_engine_is_the_one_that_means_the_same(kind, dtype, queue):
    kernel = compiled(engines, np.ones((32, 64), dtype), kind)
    assert [i.queue for i in kernel.instructions() if getattr(i, "name", None) == "it"] == [queue]


@nki.jit
def copies(x, count):
    out = nl.ndarray((count, *x.shape), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(count):
        nisa.dma_copy(out[i], copied(nl.load(x)))
    return out


def test_load_spreads_over_rings():
    kernel = compiled(copies, X, 48)
    queues = Counter(inst.queue for inst in kernel.instructions())
    assert "gpsimd" not in queues, "Vector has less work with all copies than the transfers"
    rings = [count for queue, count in queues.items() if queue.startswith("dma.")]
    assert len(rings) == targets.find(kernel.target).dma_queues_per_engine
    assert max(rings) <= 2 * min(rings)


@nki.jit
def chains(x, steps=6):
    """A long chain over two engines, and behind it in the program another one."""
    out = nl.ndarray((2, *x.shape), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(2):
        tile = nl.load(x)
        for n in range(steps):
            nisa.activation(tile, nl.square, tile, name=f"square{i}.{n}")
            nisa.reciprocal(tile, tile, name=f"recip{i}.{n}")
        nisa.dma_copy(out[i], tile)
    return out


def test_what_a_queue_would_stand_still_for_is_overtaken():
    moved, plain = compiled(chains, X), compiled(chains, X, reorder=False)
    assert [i.name for i in plain.instructions() if i.queue == "scalar"] == [
        f"square{i}.{n}" for i in (0, 1) for n in range(6)
    ]
    order = [i.name for i in moved.instructions() if i.queue == "scalar"]
    assert order[:4] == ["square0.0", "square1.0", "square0.1", "square1.1"]
    assert in_order(moved, [X]) == in_order(plain, [X])


@nki.jit
def late_chain(x):
    """What one engine has to do at once, and behind it in the program the beginning of what takes longest."""
    tile, apart = nl.load(x), nl.load(x)
    out = nl.ndarray((9, *x.shape), dtype=x.dtype, buffer=nl.shared_hbm)
    chain, *others = (nl.ndarray(x.shape, dtype=x.dtype) for _ in range(9))
    for i, other in enumerate(others):
        nisa.activation(other, nl.square, tile, name=f"other{i}")
        nisa.dma_copy(out[i], other)
    nisa.activation(chain, nl.square, apart, name="first")
    for i in range(6):
        nisa.reciprocal(chain, chain, name=f"then{i}")
    nisa.dma_copy(out[8], chain)
    return out


def test_what_most_depends_on_begins_first():
    moved, plain = compiled(late_chain, X), compiled(late_chain, X, reorder=False)
    assert [i.name for i in moved.instructions() if i.queue == "scalar"] == ["first", *(f"other{i}" for i in range(8))]
    assert makespan(moved) < 0.9 * makespan(plain)
    assert in_order(moved, [X]) == in_order(plain, [X])


@settings(max_examples=30)
@given(programs.programs)
def test_no_order_is_chosen_that_ends_later_than_program_order(steps):
    moved = compiled(programs.program, *programs.INPUTS, steps)
    plain = compiled(programs.program, *programs.INPUTS, steps, reorder=False)
    assert makespan(moved) <= makespan(plain) * (1 + 1e-9)
    assert moved == compiled(programs.program, *programs.INPUTS, steps)


@pytest.mark.parametrize("steps", [20, WINDOW])
def test_queues_look_ahead_as_far_as_the_window(steps):
    kernel = compiled(chains, X, steps)
    in_program = 2 * steps + 3  # a load, the first chain, a store, a load
    assert next(i.name for i in kernel.instructions() if i.queue == "scalar") == "square0.0"
    assert max(3, in_program - WINDOW) <= by_name(kernel)["square1.0"] <= max(8, in_program - WINDOW + 2)


def test_the_environment_can_forbid_moves(monkeypatch):
    monkeypatch.setenv("OPEN_NKI_REORDER", "0")
    assert compiled(chains, X) == compiled(chains, X, reorder=False)
    assert compiled(chains, X, reorder=True) != compiled(chains, X)


@settings(max_examples=15)
@given(programs.programs)
def test_without_moves_the_order_is_that_of_the_program(steps):
    before = compiled(programs.program, *programs.INPUTS, steps, stop="order")
    after = compiled(programs.program, *programs.INPUTS, steps, stop="schedule", reorder=False)
    assert [i.with_schedule(queue="") for i in after.instructions()] == list(before.instructions())
    assert Counter(map(repr, before.instructions())) == Counter(
        map(repr, compiled(programs.program, *programs.INPUTS, steps).instructions())
    )


def test_a_kernel_with_queues_keeps_them():
    kernel = compiled(chains, X)
    assert onward(kernel) == kernel
    shown = printer.show(compiled(two_steps, X, stop="schedule"))
    assert "on dma.0" in shown
    with pytest.raises(QueueError, match="which cannot run it"):
        onward(parser.parse(shown.replace(" on vector", " on scalar", 1)))
    with pytest.raises(QueueError, match="which cannot run it"):
        onward(parser.parse(shown.replace(" on dma.0", " on dma.16")))
    with pytest.raises(QueueError, match="has no queue"):
        onward(parser.parse(shown.replace(" on vector", "", 1)))


@nki.jit
def sums_and_copies(x):
    """Work for the Vector engine alone, and sums and copies that GpSimd could do beside it."""
    tile, total = nl.load(x), nl.ndarray(x.shape, dtype=x.dtype)
    nisa.memset(total, 0.0)
    for _ in range(8):
        nisa.tensor_tensor(total, total, joined(copied(tile), nl.add, tile), op=nl.add)
    return returned(total)


@pytest.mark.parametrize(("name", "helps"), [("trn1", False), ("trn2", True)])
def test_gpsimd_takes_copies_alone_and_only_where_it_does_not_stop_the_vector_engine(
    name: str, helps: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On trn1 the two cannot use SBUF at the same time. Sums stay on Vector, whatever it has to do."""
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", name)
    core = compiled(sums_and_copies, X)
    assert {inst.queue for inst in core.instructions() if inst.mnemonic == "tensor_tensor"} == {"vector"}
    queues = Counter(inst.queue for inst in core.instructions() if inst.mnemonic == "tensor_copy")
    assert (queues["gpsimd"] > 0) is helps


@nki.jit
def products_and_copies(x, in_psum):
    """Work for the Vector engine alone, in PSUM or SBUF, and copies of products that Scalar could do beside it."""
    tile, total = nl.load(x), nl.ndarray((64, 64), dtype=x.dtype)
    nisa.memset(total, 0.0)
    for _ in range(8):
        square = product(tile, tile)
        copy, source = copied(square), square if in_psum else tile
        nisa.tensor_tensor(total, joined(source, nl.add, copy), source, op=nl.add)
    return returned(total)


@pytest.mark.parametrize(
    ("name", "in_psum", "helps"), [("trn1", True, False), ("trn1", False, True), ("trn2", True, True)]
)
def test_scalar_takes_copies_from_psum_where_it_does_not_stop_the_vector_engine(
    name: str, in_psum: bool, helps: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On trn1 the two cannot use PSUM at the same time (architecture guide)."""
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", name)
    core = compiled(products_and_copies, np.zeros((64, 64), np.float32), in_psum)
    queues = Counter(inst.queue for inst in core.instructions() if inst.mnemonic == "tensor_copy")
    assert (queues["scalar"] > 0) is helps
