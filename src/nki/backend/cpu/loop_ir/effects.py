"""The memory that statements read and write."""

from __future__ import annotations

from nki.backend.cpu.loop_ir.nodes import (
    PANEL_BASE,
    Assign,
    FindIndex,
    Gemm,
    IndexedStore,
    LoopStatement,
    MemRef,
    Plain,
    Print,
    Reduce,
    RowOp,
    Scan,
    Top8,
    flat,
    loads,
)


def reads_of(statement: Plain) -> list[tuple[MemRef, bool]]:
    """The memory that a statement reads; True: element by element, in the order in which it writes."""
    match statement:
        case Assign():
            return [(load.memref, load.kind == "load") for load in loads(statement.value) if load.memref is not None]
        case Reduce():
            memrefs = [load.memref for part in (statement.value, statement.init) if part for load in loads(part)]
        case Gemm():
            memrefs = [statement.left, statement.right]
            if statement.consumer is not None:
                consumed = [load.memref for load in loads(statement.consumer) if load.memref is not None]
                memrefs += [memref for memref in consumed if memref.base != PANEL_BASE]
        case Scan():
            memrefs = [*statement.sources, statement.init]
        case Top8() | RowOp() | Print():
            memrefs = [statement.source]
        case FindIndex():
            memrefs = [statement.source, statement.wanted]
        case IndexedStore():
            memrefs = [statement.indices, statement.value]
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
