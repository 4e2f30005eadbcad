"""The memory that statements read and write, and the operands of an instruction that share memory."""

from __future__ import annotations

from nki.backend.cpu.kernel_ir.nodes import (
    PANEL_BASE,
    Aliases,
    Assign,
    Call,
    LoopStatement,
    Matmul,
    MemRef,
    Plain,
    Print,
    Reduce,
    Scan,
    flat,
    loads,
)
from nki.ir.access_overlap import may_overlap
from nki.ir.instruction import Inst
from nki.ir.types import Role


def reads_of(statement: Plain) -> list[tuple[MemRef, bool]]:
    """The memory that a statement reads; True: element by element, in the order in which it writes."""
    match statement:
        case Assign():
            return [(load.memref, load.kind == "load") for load in loads(statement.value) if load.memref is not None]
        case Reduce():
            memrefs = [load.memref for part in (statement.value, statement.init) if part for load in loads(part)]
        case Matmul():
            memrefs = [statement.left, statement.right]
            if statement.epilogue is not None:
                of_epilogue = [load.memref for load in loads(statement.epilogue) if load.memref is not None]
                memrefs += [memref for memref in of_epilogue if memref.base != PANEL_BASE]
        case Scan():
            memrefs = [*statement.sources, statement.init]
        case Call():
            memrefs = list(statement.sources)
        case Print():
            memrefs = [statement.source]
    return [(memref, False) for memref in memrefs if memref is not None]


def touches(statement: LoopStatement, memref: MemRef) -> bool:
    """True if ``statement`` may read or write scratch memory of ``memref``."""
    for part in flat([statement]):
        memrefs = [read for read, _ in reads_of(part)]
        if not isinstance(part, Print):
            memrefs.append(part.target)
        if any(memref.overlaps(other) for other in memrefs):
            return True
    return False


def aliases(inst: Inst) -> Aliases:
    """The pairs of operands, one of them written, that may share memory."""
    operands = inst.operands()  # by field: one access may stand in several of them, here written and there read
    pairs: list[tuple[int, int, bool]] = []
    for w, (f, target) in enumerate(operands):
        if f.role not in (Role.OUT, Role.INOUT):
            continue
        for r, (_, source) in enumerate(operands):
            if r != w and source.tensor is target.tensor:
                same = target.same_place(source)
                if same or may_overlap(target, source):
                    pairs.append((w, r, same))
    return tuple(pairs)
