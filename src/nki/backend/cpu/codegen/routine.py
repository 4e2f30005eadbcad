"""Machine code for one instruction: its statements, one after the other, in a routine."""

from __future__ import annotations

from llvmlite import ir

from nki.backend.cpu.codegen.elementwise import assign
from nki.backend.cpu.codegen.function import I64, Routine
from nki.backend.cpu.codegen.indexed_store import put
from nki.backend.cpu.codegen.reduce import fold
from nki.backend.cpu.codegen.rowwise import by_row
from nki.backend.cpu.codegen.scan import scan
from nki.backend.cpu.loop_ir.lower import Aliases, lower
from nki.backend.cpu.loop_ir.nodes import Assign, ByRow, Find, Fold, Gemm, Place, Put, Scan, Show, Statement, Top8
from nki.backend.cpu.runtime import print_callback
from nki.ir.instruction import Inst
from nki.ir.runtime_index import by_rows
from nki.numerics import matmul_entry, top8


def emit_routine(module: ir.Module, name: str, inst: Inst, aliases: Aliases, lanes: int) -> int:
    """Add the function ``name`` to ``module``: what ``inst`` does, with vectors of ``lanes`` floats.

    Gives the bytes of scratch memory that it needs. An instruction with an index for each row becomes a loop over them.
    """
    lowering = lower(next(by_rows(inst)), aliases)
    routine = Routine(module, name, lowering, inst, lanes)
    with routine.rows():
        for statement in lowering.statements:
            _emit(routine, statement)
    routine.b.ret_void()
    return lowering.scratch


def _emit(r: Routine, statement: Statement) -> None:
    match statement:
        case Assign():
            assign(r, statement)
        case Fold():
            fold(r, statement)
        case Scan():
            scan(r, statement)
        case Put():
            put(r, statement)
        case ByRow():
            by_row(r, statement)
        case Show(place, prefix, shape):
            r.call(
                print_callback.address(),
                [r.start(place), ir.Constant(I64, print_callback.number(prefix, shape, place.dtype))],
            )
        case Gemm(place, left, right, accumulate):
            # The matrix product is one tuned routine, which the NumPy executor calls too.
            numbers = (left.columns, right.columns, left.rows, int(accumulate))
            _call(r, matmul_entry.address(), (place, left, right), numbers)
        case Top8(place, source):
            _call(r, top8.top8_address(), (place, source), (source.rows, source.columns))
        case Find(place, source, wanted, last_first):
            _call(r, top8.find_address(), (place, source, wanted), (source.rows, source.columns, int(last_first)))


def _call(r: Routine, routine: int, places: tuple[Place, ...], numbers: tuple[int, ...]) -> None:
    """Call a compiled routine that takes matrices, each an address and a step from row to row, and then numbers."""
    steps = [place.row_step if place.rows > 1 else place.columns for place in places]
    matrices = [v for place, step in zip(places, steps, strict=True) for v in (r.start(place), ir.Constant(I64, step))]
    r.call(routine, [*matrices, *(ir.Constant(I64, n) for n in numbers)])
