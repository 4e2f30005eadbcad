"""Stages ``order`` and ``schedule`` that break their specification: their ``check`` fails, one test per rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki import target as targets
from nki.compilation import pipeline
from nki.ir.instruction import Inst
from nki.ir.loop import Statement
from nki.ir.program import CoreProgram, Program
from nki.ir.text import parser, printer
from nki.jit import adapter_for
from nki.passes.order import Order
from nki.passes.schedule import Schedule
from nki.target.model import Target

X = np.linspace(-1, 1, 64 * 32, dtype=np.float32).reshape(64, 32)
Body = list[Statement]


@nki.jit
def kernel(x):
    """A loop between two chains; in each, neighbours depend on each other by RAW, WAR or WAW."""
    one, two, three = (nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf) for _ in range(3))
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(one, x)  # 0
    nisa.memset(three, 1.0)  # 1
    nisa.tensor_scalar(two, one, op0=nl.add, operand0=1.0)  # 2: reads what 0 writes
    nisa.memset(one, 2.0)  # 3: overwrites what 2 reads
    nisa.memset(one, 3.0)  # 4: overwrites what 3 writes

    def step(_):
        nisa.tensor_tensor(two, two, one, op=nl.add)
        nisa.tensor_tensor(three, two, one, op=nl.multiply)

    nl.fori_loop(0, 3, step)  # 5
    nisa.dma_copy(out, three)  # 6
    return out


def swapped(one: int, two: int) -> Callable[[Body], Body]:
    def change(body: Body) -> Body:
        body[one], body[two] = body[two], body[one]
        return body

    return change


def inside(change: Callable[[Body], Body]) -> Callable[[Body], Body]:
    """The change, in the body of the loop."""

    def changed(body: Body) -> Body:
        loop: Any = body[5]
        return [*body[:5], replace(loop, body=tuple(change(list(loop.body)))), *body[6:]]

    return changed


def moved_out(body: Body) -> Body:
    loop: Any = body[5]
    return [*body[:5], replace(loop, body=loop.body[:1]), loop.body[1], *body[6:]]


def queued(number: int, queue: str) -> Callable[[Body], Body]:
    def change(body: Body) -> Body:
        inst = body[number]
        assert isinstance(inst, Inst)
        return [*body[:number], inst.with_schedule(queue=queue), *body[number + 1 :]]

    return change


@dataclass(frozen=True)
class BrokenOrder(Order):
    """Stage ``order``, with a change of its result."""

    change: Callable[[Body], Body] = list

    def concerns(self, program: Program) -> bool:  # the stage itself leaves programs without edges alone
        return True

    def transform(self, core: CoreProgram, program: Program, target: Target) -> CoreProgram:
        return core.with_body(self.change(list(super().transform(core, program, target).body)))


@dataclass(frozen=True)
class BrokenSchedule(Schedule):
    """Stage ``schedule`` in program order, with a change of its result."""

    reorder: bool | None = False
    change: Callable[[Body], Body] = list

    def transform(self, core: CoreProgram, program: Program, target: Target) -> CoreProgram:
        return core.with_body(self.change(list(super().transform(core, program, target).body)))


def compiled(stage: Order | Schedule) -> Program:
    arguments = (X,)
    specs = kernel.specs(kernel.bind(arguments, {}), adapter_for(arguments, {}))
    stages = pipeline.STAGES.with_stage(stage)
    return pipeline.compile(kernel.func, specs, targets.find("trn2"), stop=stage.name, stages=stages)


BROKEN_ORDERS = {
    "RAW": (swapped(0, 2), "overtook"),
    "WAR": (swapped(2, 3), "overtook"),
    "WAW": (swapped(3, 4), "overtook"),
    "before a loop that overwrites it": (swapped(1, 6), "overtook"),
    "in a loop": (inside(swapped(0, 1)), "overtook"),
    "out of its loop": (moved_out, "another loop"),
    "dropped": (lambda body: body[:3] + body[4:], "dropped"),
    "dropped in a loop": (inside(lambda body: body[:1]), "dropped"),
    "duplicated": (lambda body: [body[0], *body], "repeated"),
    "one for another": (lambda body: [body[0], *body[2:4], body[3], *body[4:]], "dropped"),
    "new": (lambda body: [body[0].replace(), *body[1:]], "dropped"),  # type: ignore[union-attr]
}
BROKEN_QUEUES = {
    "no queue": queued(1, ""),
    "no such queue": queued(1, "nobody"),
    "another engine's": queued(2, "tensor"),
    "no ring": queued(0, "vector"),
    "a ring too many": queued(0, "dma.999"),
}


@pytest.mark.parametrize("rule", BROKEN_ORDERS)
@pytest.mark.parametrize("stage", [BrokenOrder, BrokenSchedule])
def test_a_broken_order_is_found(stage, rule):
    change, words = BROKEN_ORDERS[rule]
    with pytest.raises(AssertionError, match=words):
        compiled(stage(change=change))


@pytest.mark.parametrize("queue", BROKEN_QUEUES)
def test_an_illegal_queue_is_found(queue, monkeypatch):
    monkeypatch.setenv("OPEN_NKI_CHECK_STAGES", "0")  # this part of the check always runs
    with pytest.raises(AssertionError, match="queues that cannot run them"):
        compiled(BrokenSchedule(change=BROKEN_QUEUES[queue]))


@pytest.mark.parametrize(
    "rule", [rule for rule, (_, words) in BROKEN_ORDERS.items() if words in ("dropped", "repeated")]
)
@pytest.mark.parametrize("stage", [BrokenOrder, BrokenSchedule])
def test_lost_and_repeated_instructions_are_always_found(stage, rule, monkeypatch):
    monkeypatch.setenv("OPEN_NKI_CHECK_STAGES", "0")
    change, words = BROKEN_ORDERS[rule]
    with pytest.raises(AssertionError, match=words):
        compiled(stage(change=change))


@pytest.mark.parametrize("stage", [BrokenOrder, BrokenSchedule])
@pytest.mark.parametrize("change", [list, swapped(0, 1), swapped(1, 2)])
def test_independent_instructions_may_change_places(stage, change):
    compiled(stage(change=change))


def test_an_edge_that_is_not_kept_is_found():
    program = compiled(Order())
    labelled = [inst.with_schedule(label="first") if i == 1 else inst for i, inst in enumerate(program.core.body)]
    labelled[2] = labelled[2].with_schedule(ordered_after=("first",))
    program = program.with_cores([program.core.with_body(labelled)])
    assert parser.parse(printer.show(program)) == program
    for stage in (BrokenOrder(change=swapped(1, 2)), BrokenSchedule(change=swapped(1, 2))):
        with pytest.raises(AssertionError, match="is before"):
            pipeline.compile(None, {}, targets.find("trn2"), start=program, stages=pipeline.STAGES.with_stage(stage))
