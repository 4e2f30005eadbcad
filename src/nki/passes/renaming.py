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
    keeps_form = True
    for number, access in enumerate(inst.accesses()):
        tensor, dynamic = access.tensor, access.dynamic
        new = tensors.get(tensor, tensor)
        if dynamic is None:
            if new is tensor:
                continue
            fresh = access.in_tensor(new)
        else:
            source = dynamic.source
            place = tensors.get(source.tensor, source.tensor)
            if new is tensor and place is source.tensor:
                continue
            index = Dynamic(source.in_tensor(place), dynamic.step, dynamic.kind)
            fresh = Access(new, access.offset, access.shape, access.strides, access.dtype, index)
        changes[number] = fresh
        keeps_form = keeps_form and fresh.form is access.form
    if not changes:
        return inst
    result = inst.with_operands(changes)
    if keeps_form:
        result.share_form(inst)
    return result


def in_place_of(old: Inst, new: Inst) -> Inst:
    """``new``, which is ``old`` on other tiles and used nowhere yet, with the identity of ``old``."""
    new.share_identity(old)
    return new


def in_other_tiles(core: CoreProgram, tiles: Mapping[Tensor, Tensor], without: Collection[int] = ()) -> CoreProgram:
    """``core`` with each key of ``tiles`` replaced by its value, and without the statements of some numbers."""
    body: list[Statement] = []
    for number, statement in enumerate(core.body):
        if number not in without:
            names = {access.tensor: tiles[access.tensor] for access in touched(statement) if access.tensor in tiles}
            body.append(renamed(statement, names) if names else statement)
    return replace(core.with_body(body), tensors=tuple(tensor for tensor in core.tensors if tensor not in tiles))
