"""Methods that are made of declarations, against the fields of sampled instructions; the memory of copies."""

from __future__ import annotations

import random
import sys

import pytest

from nki import target as targets
from nki.ir.instruction import REGISTRY, Inst
from nki.ir.sample import Draw
from nki.ir.types import Access, Role
from tests.support import instruction_bench

NAMES = sorted(REGISTRY)


def samples(name: str) -> list[Inst]:
    draw = Draw(random.Random(name), targets.GENERATIONS[-1])
    return [instruction_bench.sample(REGISTRY[name], draw) for _ in range(20)]


def expected(inst: Inst, *roles: Role) -> list[Access]:
    values = [getattr(inst, f.name) for f in inst.fields if f.role in roles]
    flat = [each for value in values for each in (value if isinstance(value, tuple) else (value,))]
    return [value for value in flat if isinstance(value, Access)]


def same(one: list[Access], two: list[Access]) -> bool:
    return list(map(id, one)) == list(map(id, two))


@pytest.mark.parametrize("name", NAMES)
def test_operands_are_those_of_the_fields(name: str) -> None:
    for inst in samples(name):
        assert same(inst.accesses(), expected(inst, *Role))
        inst.key()  # from now on the instruction has the form's lists
        uses = inst.uses()
        assert same(inst.accesses(), expected(inst, *Role))
        assert same(inst.writes(), expected(inst, Role.OUT, Role.INOUT))
        assert same(inst.read_operands(), expected(inst, Role.IN, Role.INOUT))
        assert {*map(id, inst.changes())} == {*map(id, expected(inst, Role.OUT, Role.INOUT, Role.ORDER))}
        assert same([access for access, _, _ in uses], inst.accesses())
        assert same([access for access, reads, _ in uses if reads], inst.read_operands())
        assert same([access for access, _, writes in uses if writes], inst.writes())


@pytest.mark.parametrize("name", NAMES)
def test_fields_and_numbers_are_those_of_each_instruction_of_a_form(name: str) -> None:
    for inst in samples(name):
        inst.key()
        for _ in range(2):  # noted by the form, then taken from there
            assert same([access for _, access in inst.operands()], expected(inst, *Role))
            for f, access in inst.operands():
                value = getattr(inst, f.name)
                assert value is access or access in value
            values = [getattr(inst, f.name) for f in inst.fields if f.immediate]
            assert inst.immediates() == [value for value in values if isinstance(value, int | float)]


@pytest.mark.parametrize("name", NAMES)
def test_changed_copies_have_the_form_of_their_arguments(name: str) -> None:
    for inst in samples(name):
        for number, access in enumerate(inst.accesses()):
            wider = Access(
                access.tensor, access.offset, access.shape, (*access.strides[:-1], 7), access.dtype, access.dynamic
            )
            for _ in range(2):  # found, then found again
                changed = inst.with_operands({number: wider})
                assert changed.form.signature == changed.signature() != inst.signature()
                assert changed.accesses()[number] is wider
                assert changed.with_operands({number: access}).accesses() == inst.accesses()
                assert inst.with_operands({number: access}).form.signature == inst.signature()
        if inst.effects.accumulation is not None:
            for adds in (True, False, True):
                assert inst.with_accumulation(adds).form.signature == inst.with_accumulation(adds).signature()


@pytest.mark.parametrize("name", NAMES)
def test_a_scheduled_copy_shares_the_names_of_its_attributes(name: str) -> None:
    inst = samples(name)[0]
    inst.key(), inst.identity()
    copy = inst.with_schedule(queue="vector", waits=(("tensor", 1),))
    alone = dict(vars(copy))  # which shares nothing
    # CPython counts the values alone of a dictionary with shared names: 0.38 to 0.71 of all.
    assert sys.getsizeof(vars(copy)) < 0.75 * sys.getsizeof(alone)
    if inst.accesses():
        changed = inst.with_operands({0: inst.accesses()[0]})
        assert sys.getsizeof(vars(changed)) < 0.7 * sys.getsizeof(alone)
        assert changed.verified_for is None and changed.identity() != inst.identity()
