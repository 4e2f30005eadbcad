"""Results are computed where they are wanted, unless somebody between would see it."""

from __future__ import annotations

import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.backend.cpu.kernel_ir.nodes import SCRATCH, Aliases, Assign, Expr, LoopStatement, MemRef, Reduce
from nki.backend.cpu.kernel_ir.printer import show_statement
from nki.backend.cpu.kernel_ir.store_directly import store_directly
from nki.base import dtype as dt
from tests.support.both_executors import both, numbers


def place(base: int, offset: int = 0, rows: int = 8, columns: int = 4) -> MemRef:
    return MemRef(base, offset, rows, columns, ((1, columns),), dt.float32)


def load(memref: MemRef) -> Expr:
    return Expr("load", memref.dtype, memref.rows, memref.columns, memref=memref)


def doubled(memref: MemRef) -> Expr:
    value = load(memref)
    return Expr("alu", dt.float32, value.rows, value.columns, (value, value), "add")


S, T = place(SCRATCH), place(0)
SUM = place(SCRATCH, 1024, 8, 1)
ALIKE: Aliases = ((0, 1, True),)
APART: Aliases = ((0, 1, False),)


def shown(statements: list[LoopStatement], aliases: Aliases = ()) -> list[str]:
    return [show_statement(statement) for statement in store_directly(statements, aliases)]


def program(*between: LoopStatement, source: MemRef | None = None) -> list[LoopStatement]:
    """``s = 2 x; between; %0 = s``."""
    return [Assign(S, doubled(source or place(1))), *between, Assign(T, load(S))]


@pytest.mark.parametrize("aliases", [(), ALIKE], ids=["apart", "in place"])
def test_the_copy_goes(aliases: Aliases) -> None:
    assert shown(program(Reduce(SUM, load(S), "add", 1, False)), aliases) == [
        "%0 float32[8 x 4] = add(%1 float32[8 x 4], %1 float32[8 x 4])",
        "%s+1024 float32[8 x 1] = reduce add over elements of %0 float32[8 x 4]",
    ]


STAYS: dict[str, tuple[list[LoopStatement], Aliases]] = {
    "the operand shares bytes, elsewhere": (program(), APART),
    "the operand is read in another order": (program(source=MemRef(1, 0, 8, 1, ((8, 4),), dt.float32)), ALIKE),
    "the operand is read between": (program(Reduce(SUM, load(place(1)), "add", 1, False)), ALIKE),
    "the target is read between": (program(Reduce(SUM, load(T), "add", 1, False)), ()),
    "the target is written between": (program(Assign(place(0, 64, 1, 4), load(place(2, 0, 1, 4)))), ()),
    "a part of the tile is read": (program(Reduce(SUM, load(place(SCRATCH, 0, 8, 2)), "add", 1, False)), ()),
    "the tile is written twice": (program(Assign(place(SCRATCH, 0, 1, 4), load(place(2, 0, 1, 4)))), ()),
}


@pytest.mark.parametrize("name", STAYS)
def test_the_copy_stays(name: str) -> None:
    statements, aliases = STAYS[name]
    before = [show_statement(statement) for statement in statements]
    assert shown(statements, aliases) == before


def blocks(x):
    """Results of more bytes than a block of partitions may have, in place and elsewhere."""
    result, sums = (nl.ndarray(s, dtype=nl.float32, buffer=nl.shared_hbm) for s in (x.shape, (x.shape[0], 2)))
    a, b = (nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf) for _ in range(2))
    total = nl.ndarray((x.shape[0], 2), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=a, src=x)
    nisa.activation_reduce(dst=b, op=nl.exp, data=a, reduce_op=nl.add, reduce_res=total[:, 0:1])
    nisa.activation_reduce(dst=b, op=nl.square, data=b, reduce_op=nl.add, reduce_res=total[:, 1:2])
    nisa.dma_copy(dst=result, src=b)
    nisa.dma_copy(dst=sums, src=total)
    return result, sums


@pytest.mark.parametrize("rows", [128, 127, 16, 3])
def test_statements_in_blocks(rows: int) -> None:
    x = numbers(rows, 1500)
    result, sums = both(blocks, x)
    np.testing.assert_allclose(result, np.exp(2 * x), rtol=1e-5)
    np.testing.assert_allclose(sums[:, 1], np.exp(2 * x).sum(1), rtol=1e-4)
    assert nki.jit(blocks)(x)[0].tobytes() == result.tobytes()
