"""Results computed where they are wanted: no tile in scratch memory that is only copied to an operand afterwards.

``s = f(x); t = reduce(s); dst = s`` becomes ``dst = f(x); t = reduce(dst)``, if nothing in between reads or writes what
``dst`` shares memory with, except ``f`` itself, element by element.
"""

from __future__ import annotations

from dataclasses import replace

from nki.backend.cpu.kernel_ir.nodes import SCRATCH, Aliases, Assign, Expr, LoopStatement, MemRef, Reduce, loads


def store_directly(statements: list[LoopStatement], aliases: Aliases) -> list[LoopStatement]:
    """``statements`` without the copies of tiles from scratch memory that can be computed in place."""
    for number, statement in enumerate(statements):
        if isinstance(statement, Assign) and (start := _definition(statements, number, aliases)) is not None:
            source = statement.value.memref
            assert source is not None
            for other in statements[start:]:
                _replace(other, source, statement.target)
            return store_directly([*statements[:number], *statements[number + 1 :]], aliases)
    return statements


def _definition(statements: list[LoopStatement], number: int, aliases: Aliases) -> int | None:
    """The number of the statement that computes what statement ``number`` copies, if it can compute it in place."""
    copy = statements[number]
    assert isinstance(copy, Assign)
    source, target = copy.value.memref, copy.target
    if copy.value.kind != "load" or source is None or source.base != SCRATCH or target.base == SCRATCH:
        return None
    same_shape = (source.rows, source.dims) == (target.rows, target.dims) and source.dtype is target.dtype
    if not same_shape or not target.dense_rows or source.rows == 1 or not all(map(_is_plain, statements)):
        return None
    writers = [n for n, s in enumerate(statements) if _target(s).overlaps(source)]
    if len(writers) != 1 or writers[0] >= number:
        return None
    definition = statements[writers[0]]
    if not isinstance(definition, Assign) or definition.target != source:
        return None
    uses = [memref for s in statements for memref in _reads(s) if memref.overlaps(source)]
    if any(memref != source for memref in uses):
        return None
    shared = {target.base} | {read for written, read, _ in aliases if written == target.base}
    shared |= {written for written, read, _ in aliases if read == target.base}
    if any(memref.base in shared and not _lockstep(memref, target, aliases) for memref in _reads(definition)):
        return None
    between = statements[writers[0] + 1 : number]
    if any(memref.base in shared for s in between for memref in (_target(s), *_reads(s))):
        return None
    return writers[0]


def _is_plain(statement: LoopStatement) -> bool:
    """True of the statements whose operands :func:`_reads` and :func:`_target` tell."""
    return isinstance(statement, Assign | Reduce)


def _target(statement: LoopStatement) -> MemRef:
    assert isinstance(statement, Assign | Reduce)
    return statement.target


def _expressions(statement: LoopStatement) -> list[Expr]:
    """The expressions of an assignment or a reduction."""
    assert isinstance(statement, Assign | Reduce)
    init = statement.init if isinstance(statement, Reduce) else None
    return [statement.value] if init is None else [statement.value, init]


def _reads(statement: LoopStatement) -> list[MemRef]:
    return [load.memref for expr in _expressions(statement) for load in loads(expr) if load.memref is not None]


def _replace(statement: LoopStatement, old: MemRef, new: MemRef) -> None:
    """Let ``statement`` read and write ``new`` instead of ``old``."""
    assert isinstance(statement, Assign | Reduce)
    if statement.target == old:
        statement.target = replace(new)
    for expr in _expressions(statement):
        for load in loads(expr):
            if load.memref == old:
                load.memref = replace(new)


def _lockstep(memref: MemRef, target: MemRef, aliases: Aliases) -> bool:
    """True if ``memref`` is read element by element in the order in which ``target`` is written, at the same places."""
    layout = (target.offset, target.rows, target.row_step, target.dims, target.dtype.itemsize)
    same = layout == (memref.offset, memref.rows, memref.row_step, memref.dims, memref.dtype.itemsize)
    return same and (memref.base == target.base or (target.base, memref.base, True) in aliases)
