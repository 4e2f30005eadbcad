"""Renaming: statements on other tensors of the same shapes, through the same windows."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from nki.ir.instruction import Inst
from nki.ir.loop import Statement, changed, touched
from nki.ir.program import CoreProgram
from nki.ir.types import Access, Dynamic, Tensor


def renamed(statement: Statement, tensors: Mapping[Tensor, Tensor]) -> Statement:
    """``statement`` with each key of ``tensors`` replaced by its value, in its run-time indices too."""
    if isinstance(statement, Inst):
        return renamed_instruction(statement, tensors)
    return replace(statement, body=changed(statement.body, lambda inst: [renamed_instruction(inst, tensors)]))


def renamed_instruction(inst: Inst, tensors: Mapping[Tensor, Tensor]) -> Inst:
    """``inst`` with each key of ``tensors`` replaced by its value; ``inst`` itself where it uses none."""
    changes: dict[int, Access] = {}
    for number, access in enumerate(inst.accesses()):
        source = None if access.dynamic is None else access.dynamic.source
        if access.tensor not in tensors and (source is None or source.tensor not in tensors):
            continue
        dynamic = access.dynamic
        if dynamic is not None and source is not None and source.tensor in tensors:
            dynamic = Dynamic(same_window(tensors[source.tensor], source), dynamic.step, dynamic.kind)
        tensor = tensors.get(access.tensor, access.tensor)
        changes[number] = Access(tensor, access.offset, access.shape, access.strides, access.dtype, dynamic)
    return inst.with_operands(changes) if changes else inst


def in_place_of(old: Inst, new: Inst) -> Inst:
    """``new``, which is ``old`` on other tiles, with the identity of ``old``."""
    return new.with_schedule(_identity=old.identity())


def in_other_tiles(core: CoreProgram, tiles: Mapping[Tensor, Tensor], without: Collection[int] = ()) -> CoreProgram:
    """``core`` with each key of ``tiles`` replaced by its value, and without the statements of some numbers."""
    body: list[Statement] = []
    for number, statement in enumerate(core.body):
        if number not in without:
            names = {access.tensor: tiles[access.tensor] for access in touched(statement) if access.tensor in tiles}
            body.append(renamed(statement, names) if names else statement)
    return replace(core.with_body(body), tensors=tuple(tensor for tensor in core.tensors if tensor not in tiles))


def same_window(tensor: Tensor, access: Access) -> Access:
    """The window of ``access``, which has no run-time index, in another tensor of the same shape."""
    return Access(tensor, access.offset, access.shape, access.strides, access.dtype)
