"""Validation can fail: each test breaks what a stage has made, and the comparison of sound stages finds it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from nki import target as targets
from nki.backend.cpu.kernel_ir import lower
from nki.backend.cpu.kernel_ir.nodes import Assign, Fused, Reduce
from nki.compilation.executable import NATIVE_STAGES
from nki.ir.instruction import Inst
from nki.ir.program import Program
from nki.ir.types import Buffer
from nki.passes.renaming import renamed
from tests.kernels.case import CASES
from tests.proofs import test_native_stages as native
from tests.proofs import test_stages
from tests.proofs.test_stages import REFERENCE, complaint, field_of, programs
from tests.support.compiled_anew import anew
from tests.support.interleaved_run import waits, without

KERNEL = "softmax"
Change = Callable[[Program], Program]


@pytest.fixture
def after(monkeypatch: pytest.MonkeyPatch) -> dict[str, Program]:
    return programs(CASES[KERNEL], monkeypatch)


def with_body(program: Program, body: Any) -> Program:
    return program.with_cores([program.core.with_body(body)])


def needs(one: Inst, two: Inst) -> bool:
    """True if ``two`` reads all that ``one`` writes."""
    return any(access.same_place(read) for access in one.writes() for read in two.reads())


def swapped(program: Program) -> Program:
    """The last instruction that needs the one before it runs first."""
    body = list(program.core.body)
    number = max(n for n in range(1, len(body)) if needs(body[n - 1], body[n]))
    body[number - 1 : number + 1] = body[number], body[number - 1]
    return with_body(program, body)


def without_a_copy(program: Program) -> Program:
    """The first load is left out."""
    body = list(program.core.body)
    number = next(n for n, inst in enumerate(body) if inst.as_copy() is not None)
    return with_body(program, [*body[:number], *body[number + 1 :]])


def in_another_tile(program: Program) -> Program:
    """The last reader of a tile reads another one of its form."""
    body = list(program.core.body)
    for number in reversed(range(len(body))):
        for read in body[number].reads():
            for other in program.core.tensors:
                alike = (other.shape, other.dtype, other.buffer) == (
                    read.tensor.shape, read.tensor.dtype, read.tensor.buffer,
                )  # fmt: skip
                if other is not read.tensor and alike and other.buffer is Buffer.sbuf:
                    body[number] = renamed(body[number], {read.tensor: other})
                    return with_body(program, body)
    raise AssertionError("no tile is like another one")


def at_one_address(program: Program) -> Program:
    """A tile lies where another one lies that is written before it and read after it."""
    core = program.core
    for number, inst in enumerate(core.body):
        before = {access.tensor for each in core.body[:number] for access in each.writes()}
        after = {access.tensor for each in core.body[number + 1 :] for access in each.reads()}
        for tile in (access.tensor for access in inst.writes()):
            alive = [t for t in core.placement if t in before & after and t.buffer is tile.buffer and t is not tile]
            if tile in core.placement and alive:
                return program.with_cores([core.with_placement({**core.placement, tile: core.placement[alive[0]]})])
    raise AssertionError("no two tiles live at one time")


FAULTS: dict[str, tuple[str, Change]] = {
    "order swaps": ("order", swapped),
    "order drops a copy": ("order", without_a_copy),
    "a renaming": ("order", in_another_tile),
    "allocate overlaps": ("allocate", at_one_address),
    "allocate moves": ("allocate", swapped),
    "schedule swaps": ("schedule", swapped),
    "schedule drops a copy": ("schedule", without_a_copy),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_stage_is_found(fault: str, after: dict[str, Program]) -> None:
    stage, change = FAULTS[fault]
    field = field_of(KERNEL)
    expected = field.outputs(after[REFERENCE])
    assert not complaint(stage, after[stage], field, expected)
    assert complaint(stage, change(after[stage]), field, expected)


def test_a_missing_wait_is_found(after: dict[str, Program], monkeypatch: pytest.MonkeyPatch) -> None:
    field, program = field_of(KERNEL), after["sync"]
    expected = field.outputs(after[REFERENCE])
    monkeypatch.setattr(test_stages, "ORDERS", 40)
    assert list(waits(program))
    for inst, wait in waits(program):
        assert complaint("sync", without(program, inst, wait), field, expected), f"{inst} needs {wait}"


@pytest.mark.parametrize("change", [swapped, without_a_copy, in_another_tile])
@pytest.mark.parametrize("stage", ["lower_sendrecv", "fold_transposes", "share_loads"])
def test_a_broken_native_stage_is_found(stage: str, change: Change, after: dict[str, Program]) -> None:
    field, program = field_of(KERNEL), after["allocate"]
    expected = field.outputs(after[REFERENCE])
    for each in NATIVE_STAGES[: NATIVE_STAGES.names.index(stage) + 1]:
        if each.name != "copy_elimination":
            program = each.run(program, targets.find(program.target))
    assert not native.complaint(program, field, expected)
    assert native.complaint(change(program), field, expected)


def without_sums(statements: list[Any], aliases: Any) -> list[Any]:
    """A rule that adds up what the first argument of an expression is."""
    del aliases
    return [
        replace(each, value=each.value.args[0]) if isinstance(each, Assign) and len(each.value.args) == 2 else each
        for each in statements
    ]


def to_maxima(statements: list[Any], aliases: Any) -> list[Any]:
    """A rule that makes a maximum of each sum."""
    del aliases

    def part(each: Any) -> Any:
        if isinstance(each, Fused):
            return replace(each, sums=tuple(map(part, each.sums)))
        return replace(each, op="maximum") if isinstance(each, Reduce) else each

    return list(map(part, statements))


@pytest.mark.parametrize("rule", [without_sums, to_maxima])
def test_a_broken_rule_is_found(rule: Any, after: dict[str, Program], monkeypatch: pytest.MonkeyPatch) -> None:
    field, program = field_of(KERNEL), after["allocate"]
    expected = field.outputs(after[REFERENCE])
    anew(monkeypatch)
    monkeypatch.setattr(lower, "RULES", (*lower.RULES, rule))
    assert native.complaint(program, field, expected)
