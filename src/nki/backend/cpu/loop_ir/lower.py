"""The statements of one instruction, in an order and with copies such that reads see what was there before."""

from __future__ import annotations

from nki.backend.cpu.loop_ir.nodes import (
    SCRATCH,
    Assign,
    ByRow,
    Find,
    Fold,
    Gemm,
    Lowering,
    Param,
    Place,
    Put,
    Scan,
    Show,
    Statement,
    Top8,
    loads,
)
from nki.ir.instruction import Inst
from nki.ir.types import Access, Tensor


def template(inst: Inst) -> Inst:
    """``inst`` with operands numbered and based at their first byte, and run-time numbers replaced by parameters."""
    numbered = {
        i: Access(Tensor(str(i), a.tensor.shape, a.tensor.dtype, a.buffer), 0, a.shape, a.strides, a.dtype)
        for i, a in enumerate(inst.accesses())
    }
    made = inst.with_operands(numbered)
    values = made.__dict__
    names = [f.name for f in inst.fields if f.immediate and isinstance(values[f.name], int | float)]
    values.update({name: Param(index) for index, name in enumerate(names)})
    return made


Aliases = tuple[tuple[int, int, bool], ...]
"""(written operand, read operand, whether both are the same window) for operands that share memory."""


def lower(inst: Inst, aliases: Aliases) -> Lowering:
    """The statements of ``inst``, whose operands overlap as ``aliases`` says; reads see what was there before."""
    copied = frozenset(read for _, read, same in aliases if not same)
    while True:
        lowering = Lowering(copied)
        template(inst).semantics(lowering)
        late = _read_too_late(lowering.statements, aliases)
        if not late - copied:
            lowering.statements = [s for s in lowering.statements if not _changes_nothing(s, aliases)]
            return lowering
        copied |= late


def _changes_nothing(statement: Statement, aliases: Aliases) -> bool:
    """Whether a tile is copied to where it already is."""
    if not isinstance(statement, Assign) or statement.node.kind != "load" or statement.node.place is None:
        return False
    target, source = statement.place, statement.node.place
    return _lockstep(target, source) and (target.base, source.base, True) in aliases


def _read_too_late(statements: list[Statement], aliases: Aliases) -> frozenset[int]:
    """Operands that a statement reads although an earlier one, or itself in another order, has written them."""
    late: set[int] = set()
    written: set[int] = set()
    for statement in statements:
        if isinstance(statement, Show):
            continue
        target = statement.place
        for place, in_order in _reads(statement):
            if place.base == SCRATCH:
                continue
            shared = {w for w, r, _ in aliases if r == place.base} | {place.base}
            if shared & written:
                late.add(place.base)
            if target.base in shared and not (in_order and _lockstep(target, place)):
                late.add(place.base)
        written.add(target.base)
    return frozenset(late)


def _reads(statement: Statement) -> list[tuple[Place, bool]]:
    """What a statement reads, and whether element by element, in the order in which it writes."""
    match statement:
        case Assign():
            return [(n.place, n.kind == "load") for n in loads(statement.node) if n.place is not None]
        case Fold():
            places = [n.place for part in (statement.node, statement.start) if part for n in loads(part)]
        case Gemm():
            places = [statement.left, statement.right]
        case Scan():
            places = [*statement.sources, statement.start]
        case Top8() | ByRow():
            places = [statement.source]
        case Find():
            places = [statement.source, statement.wanted]
        case Put():
            places = [statement.numbers, statement.value]
        case Show():
            places = [statement.place]
    return [(place, False) for place in places if place is not None]


def _lockstep(target: Place, source: Place) -> bool:
    one = (target.start, target.rows, target.row_step, target.dims, target.dtype.itemsize)
    return one == (source.start, source.rows, source.row_step, source.dims, source.dtype.itemsize)
