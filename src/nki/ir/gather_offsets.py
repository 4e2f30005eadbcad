"""Tensor indirection: elements of a tile that run-time offsets choose, with a list of offsets for each group.

Offset i of a group of G partitions stands in partition i % G of that group's part of the index tile, element i // G.
G is 32 where the Tensor engine runs the instruction, else 16; the number of partitions is a multiple of it. An offset
counts elements of the view's partitions, as an unsigned number. (NKI reference, NkiTensor.indirect; where that is
silent, docs/language.md says what is done here.)

What an instruction means on such operands is the same for all executors: gather what it reads into dense tiles, which
stand in for the operands; run it on these; scatter what it wrote, one offset after the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from nki.base.dtype import int32, uint16, uint32
from nki.ir.instruction import Inst
from nki.ir.types import Access, Reach, Tensor, by_elements

GROUP: Final = 16
"""Partitions that share a list; :func:`group_of` knows the exception."""
TENSOR_GROUP: Final = 32
INDICES: Final = (uint16, uint32, int32)
"""What offsets may be: what the instructions take that gather by a list (local_gather, nc_n_gather), and int32."""

Offsets = NDArray[np.int64]
"""(groups, offsets of each)."""


def group_of(inst: Inst) -> int:
    """How many partitions share a list where ``inst`` runs."""
    return TENSOR_GROUP if inst.on_tensor_engine else GROUP


def capacity(access: Access, group: int) -> int:
    """How many offsets the index of ``access`` holds for each group."""
    assert access.dynamic is not None
    return group * access.dynamic.source.shape[1]


def chosen(inst: Inst) -> list[tuple[int, Any, Access]]:
    """The operands whose elements are chosen: number, field and window."""
    return [(number, f, a) for number, (f, a) in enumerate(inst.operands()) if by_elements(a)]


def looked_up(inst: Inst) -> Iterator[Access]:
    """The windows in which ``inst`` finds its run-time indices: of lists only as much as they are long."""
    for access in inst.accesses():
        dynamic = access.dynamic
        if dynamic is None or dynamic.reach is not Reach.elements:
            yield from () if dynamic is None else (dynamic.source,)
            continue
        source, group = dynamic.source, group_of(inst)
        whole, rest = divmod(access.shape[1], group)
        if whole:
            yield Access(source.tensor, source.offset, (source.shape[0], whole), source.strides, source.dtype)
        for first in range(0, source.shape[0] if rest else 0, group):
            offset = source.offset + first * source.strides[0] + whole * source.strides[1]
            yield Access(source.tensor, offset, (rest, 1), source.strides, source.dtype)


def lists(contents: NDArray[Any], group: int, count: int) -> Offsets:
    """The first ``count`` offsets of each group, from the contents of the index tile."""
    groups = contents.astype(np.int64).reshape(-1, group, contents.shape[1])
    return np.asarray(groups.transpose(0, 2, 1).reshape(len(groups), -1)[:, :count] % (1 << 32))


def room(access: Access, count: int) -> Access:
    """The first ``count`` elements that offsets of ``access`` can choose, in every partition."""
    assert access.dynamic is not None
    strides = (access.strides[0], access.dynamic.step)
    return Access(access.tensor, access.offset, (access.shape[0], count), strides, access.dtype)


def stand_ins(inst: Inst) -> tuple[Inst, dict[int, Access]]:
    """``inst`` with dense tiles in place of the operands whose elements are chosen; and these, by operand."""
    made = {
        number: Access.whole(Tensor(a.name, a.shape, a.dtype, a.buffer)) for number, _, a in chosen(inst)
    }  # fmt: skip
    return inst.with_operands(made), made


__all__ = [
    "GROUP",
    "INDICES",
    "TENSOR_GROUP",
    "Offsets",
    "capacity",
    "chosen",
    "group_of",
    "lists",
    "looked_up",
    "room",
    "stand_ins",
]
