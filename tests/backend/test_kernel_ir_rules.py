"""Rules of the kernel IR, each on a few statements: what it makes of them, and what it leaves as it is.

That bits stay is tested with random programs (test_small_programs.py); golden texts of the corpus are in tests/kernels.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import nki.isa as nisa
import nki.language as nl
from nki.backend.cpu.kernel_ir.accesses import aliases
from nki.backend.cpu.kernel_ir.kernel_printer import show_loops, show_statement
from nki.backend.cpu.kernel_ir.lower import RULES, lower
from nki.backend.cpu.kernel_ir.nodes import SCRATCH, Aliases, Assign, Expr, LoopStatement, MemRef, Reduce
from nki.backend.cpu.kernel_ir.nodes import load_of as load
from nki.base import element_types as dt
from nki.ir.layout import DENSE
from tests.support.kernel_parts import column, like, returned
from tests.support.native_programs import compiled

ALIKE: Aliases = ((0, 1, True),)
APART: Aliases = ((0, 1, False),)


def place(base: int, offset: int = 0, rows: int = 16, columns: int = 32, dtype: Any = dt.float32) -> MemRef:
    return MemRef(base, offset, rows, columns, ((1, columns),), dtype)


def of(kind: Any, op: str, *args: Expr) -> Expr:
    """An expression of the size of its first argument."""
    return Expr(kind, dt.float32, args[0].rows, args[0].columns, args, op)


def doubled(memref: MemRef) -> Expr:
    value = load(memref)
    return of("alu", "add", value, value)


def total(value: Expr, target: MemRef | None = None, op: str = "add") -> Reduce:
    return Reduce(target or place(SCRATCH, 8192, value.rows, 1), value, op, 1, False)


def shown(statements: list[LoopStatement]) -> list[str]:
    return [show_statement(statement) for statement in statements]


S, T = place(SCRATCH), place(0)
PART = place(SCRATCH, 0, 16, 8)
COLUMNS = place(SCRATCH, 8192, 1)


def copied(*between: LoopStatement, source: MemRef | None = None) -> list[LoopStatement]:
    """``s = 2 x; between; %0 = s``."""
    return [Assign(S, doubled(source or place(1))), *between, Assign(T, load(S))]


def summed(value: Expr, *others: LoopStatement, source: MemRef = S, op: str = "add") -> list[LoopStatement]:
    """``s = value; t = reduce s``, and others."""
    return [Assign(S, value), total(load(source), op=op), *others]


def half(offset: int, columns: int, step: int = 2, base: int = 1, result: int = 128) -> Reduce:
    source = MemRef(base, 4 * offset, 32, 100, ((step, columns),), dt.float32)
    target = MemRef(SCRATCH, result, 32, 1, ((1, 1),), dt.float32)
    return Reduce(target, load(source), "add", 1, False)


EVEN, ODD = half(0, 50, result=0), half(1, 50)
MEAN = load(EVEN.target)
POWER = of("act", "exp", load(place(1)))
NARROW = Expr("cast", dt.bfloat16, 16, 32, (load(S),))

CHANGED: dict[str, tuple[list[LoopStatement], Aliases, int]] = {
    "results where they are wanted": (copied(Reduce(COLUMNS, load(S), "add", 1, True)), (), 2),
    "results in place": (copied(), ALIKE, 1),
    "a sum of squares alone": (summed(doubled(place(1))), (), 1),
    "a function and its sum": ([Assign(T, POWER), total(load(T))], (), 1),
    "a function, its sum, and a conversion": ([*summed(POWER), Assign(place(0, dtype=dt.bfloat16), NARROW)], (), 1),
    "others read what is summed": (summed(doubled(place(1)), Assign(place(0, columns=8), load(PART))), (), 2),
    "others read what is converted": (
        [*summed(POWER), Assign(place(0, dtype=dt.bfloat16), NARROW), Assign(place(2, columns=8), load(PART))], (), 2,
    ),
    "halves of a row": ([EVEN, ODD], (), 1),
    "halves of an odd row": ([EVEN, half(1, 49)], (), 1),
}  # fmt: skip
"""Statements, which overlap as told, and how many the rules leave."""
STAYS: dict[str, tuple[list[LoopStatement], Aliases]] = {
    "the operand shares bytes, elsewhere": (copied(), APART),
    "the operand is read in another order": (copied(source=MemRef(1, 0, 16, 1, ((16, 32),), dt.float32)), ALIKE),
    "the operand is read between": (copied(total(load(place(1)))), ALIKE),
    "the target is read between": (copied(total(load(T))), ()),
    "the target is written between": (copied(Assign(place(0, 64, 1, 4), load(place(2, 0, 1, 4)))), ()),
    "a part of the tile is read": (copied(total(load(PART))), ()),
    "the tile is written twice": (copied(Assign(place(SCRATCH, 0, 1, 4), load(place(2, 0, 1, 4)))), ()),
    "a maximum": ([Assign(T, doubled(place(1))), total(load(T), op="maximum")], ()),
    "a sum of a part": (summed(doubled(place(1)), source=PART), ()),
    "no whole group of rows": (
        [Assign(place(0, 0, 8), of("act", "exp", load(place(1, 0, 8)))), total(load(place(0, 0, 8)))], (),
    ),
    "a maximum of a function": ([Assign(T, POWER), total(load(T), op="maximum")], ()),
    "a function of what is written elsewhere": (
        [Assign(T, of("act", "exp", load(place(0, 4)))), total(load(T))], (),
    ),
    "a gap": ([EVEN, half(2, 50)], ()),
    "a shorter row": ([EVEN, half(1, 48)], ()),
    "another step": ([EVEN, half(1, 50, 3)], ()),
    "other memory": ([EVEN, half(1, 50, base=2)], ()),
    "another operator": ([EVEN, replace(ODD, op="multiply")], ()),
    "groups": ([EVEN, replace(ODD, groups=5)], ()),
    "a start": ([EVEN, replace(ODD, init=Expr("value", dt.float32, 1, 1, value=0.0))], ()),
    "a result of the other half": (
        [EVEN, replace(ODD, value=Expr("alu", dt.float32, 32, 50, (ODD.value, MEAN), "subtract"))], (),
    ),
}  # fmt: skip


def rewritten(statements: list[LoopStatement], overlaps: Aliases) -> list[LoopStatement]:
    """The statements after all rules."""
    after = copy.deepcopy(statements, {id(each): each for each in (DENSE, *dt.ALL)})
    for rule in RULES:
        after = rule(after, overlaps)
    return after


@pytest.mark.parametrize("name", CHANGED)
def test_rules_leave_fewer_statements(name: str) -> None:
    statements, overlaps, count = CHANGED[name]
    assert len(rewritten(statements, overlaps)) == count < len(statements)


@pytest.mark.parametrize("name", STAYS)
def test_rules_leave_statements_as_they_are(name: str) -> None:
    statements, overlaps = STAYS[name]
    assert shown(rewritten(statements, overlaps)) == shown(statements)


def test_a_result_is_read_where_it_is() -> None:
    assert shown(rewritten(copied(Reduce(COLUMNS, load(S), "add", 1, True)), ())) == [
        "%0 float32[16 x 32] = add(%1 float32[16 x 32], %1 float32[16 x 32])",
        "%s+8192 float32[1 x 32] = reduce add over partitions of %0 float32[16 x 32]",
    ]


def test_a_choice_by_two_comparisons_multiplies_nothing() -> None:
    x, number = load(place(1)), Expr("value", dt.float32, 1, 1, value=0.5)
    less, equal = of("alu", "less", x, number), of("alu", "equal", x, number)
    products = of("alu", "multiply", less, equal), of("alu", "add", less, equal), of("alu", "multiply", less, x)
    chosen = [of("select", "", product, x, number) for product in products]
    assert shown(rewritten([Assign(T, value) for value in chosen], ())) == [
        "%0 float32[16 x 32] = select(less(%1 float32[16 x 32], 0.5:float32), "
        "select(equal(%1 float32[16 x 32], 0.5:float32), %1 float32[16 x 32], 0.5:float32), 0.5:float32)",
        *shown([Assign(T, value) for value in chosen[1:]]),
    ]


# Instructions


def powers(x):
    tile, total = nl.load(x), column(x)
    power = like(tile, nl.bfloat16)
    nisa.activation_reduce(power, nl.exp, tile, nl.add, total)
    return returned(power), returned(total)


def statistics(x):
    six = nl.ndarray((x.shape[0], 6), dtype=nl.float32, buffer=nl.sbuf)
    nisa.bn_stats(six, nl.load(x))
    return returned(six)


@pytest.mark.parametrize(("kernel", "rows", "loops"), [(powers, 128, 1), (powers, 100, 0), (statistics, 128, 2)])
def test_statements_of_an_instruction_share_loops(kernel: Any, rows: int, loops: int) -> None:
    insts = compiled(kernel, np.zeros((rows, 64), np.float32)).instructions()
    (inst,) = (inst for inst in insts if inst.mnemonic in ("activation_reduce", "bn_stats"))
    assert show_loops(lower(inst, aliases(inst))).count("for ") == loops
