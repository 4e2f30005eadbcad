"""Machine code for one instruction: its statements, one after the other, in a routine."""

from __future__ import annotations

from llvmlite import ir

from nki.backend.cpu import gemm, printing
from nki.backend.cpu.assign import assign
from nki.backend.cpu.folds import fold
from nki.backend.cpu.nodes import Aliases, Fold, Gemm, Show, lower
from nki.backend.cpu.routine import I64, Routine
from nki.ir.dynamic import by_rows
from nki.ir.inst import Inst


def emit_routine(module: ir.Module, name: str, inst: Inst, aliases: Aliases, lanes: int) -> int:
    """Add the function ``name`` to ``module``: what ``inst`` does, with vectors of ``lanes`` floats.

    Gives the bytes of scratch memory that it needs. An instruction with an index for each row becomes a loop over them.
    """
    lowering = lower(next(by_rows(inst)), aliases)
    routine = Routine(module, name, lowering, inst, lanes)
    with routine.rows():
        for statement in lowering.statements:
            if isinstance(statement, Gemm):
                _gemm(routine, statement)
            elif isinstance(statement, Fold):
                fold(routine, statement)
            elif isinstance(statement, Show):
                number = printing.number(statement.prefix, statement.shape, statement.place.dtype)
                routine.call(printing.address(), [routine.start(statement.place), ir.Constant(I64, number)])
            else:
                assign(routine, statement)
    routine.b.ret_void()
    return lowering.scratch


def _gemm(r: Routine, s: Gemm) -> None:
    """The matrix product is one tuned routine, which the NumPy executor calls too."""
    places = (s.place, s.left, s.right)
    starts = [r.start(place) for place in places]
    strides = [ir.Constant(I64, place.row_step if place.rows > 1 else place.columns) for place in places]
    numbers = [s.left.columns, s.right.columns, s.left.rows, int(s.accumulate)]
    matrices = [value for pair in zip(starts, strides, strict=True) for value in pair]
    r.call(gemm.address(), [*matrices, *(ir.Constant(I64, n) for n in numbers)])
