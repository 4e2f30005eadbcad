"""Tensor indirection: run-time offsets choose the elements of a tile, with a list of offsets for each group.

Offset i of a group of G partitions stands in partition i % G of that group's part of the index tile, element i // G.
G is 32 where the Tensor engine runs the instruction, else 16; the number of partitions is a multiple of it. An offset
counts elements of the view's partitions, as an unsigned number. (NKI reference, NkiTensor.indirect; where that is
silent, docs/language.md says what is done here.)

All executors run an instruction on such operands in the same way: gather its inputs into dense temporaries, compute on
the temporaries, and scatter its outputs, one offset after the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from nki.base.element_types import int32, uint16, uint32
from nki.ir.instruction import Inst
from nki.ir.types import Access, IndexKind, Tensor, is_element_indexed
from nki.target.memory_spaces import OFFSET_GROUP, TENSOR_OFFSET_GROUP

INDICES: Final = (uint16, uint32, int32)
"""Dtypes of offsets: as the instructions that gather by a list take them (local_gather, nc_n_gather), and int32."""

Offsets = NDArray[np.int64]
"""(groups, offsets of each)."""


def group_of(inst: Inst) -> int:
    """Number of partitions that share a list on the engine of ``inst``."""
    return TENSOR_OFFSET_GROUP if inst.on_tensor_engine else OFFSET_GROUP


def capacity(access: Access, group: int) -> int:
    """Number of offsets that the index of ``access`` holds for each group."""
    assert access.dynamic is not None
    return group * access.dynamic.source.shape[1]


def indirect_operands(inst: Inst) -> list[tuple[int, Any, Access]]:
    """The element-indexed operands: number, field and access."""
    return [(number, f, a) for number, (f, a) in enumerate(inst.operands()) if is_element_indexed(a)]


def index_reads(inst: Inst) -> Iterator[Access]:
    """Accesses from which ``inst`` reads run-time indices; of a list of offsets, only its used length."""
    for access in inst.accesses():
        dynamic = access.dynamic
        if dynamic is None or dynamic.kind is not IndexKind.elements:
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
    """Access to the first ``count`` elements of every partition that offsets of ``access`` can choose."""
    assert access.dynamic is not None
    strides = (access.strides[0], access.dynamic.step)
    return Access(access.tensor, access.offset, (access.shape[0], count), strides, access.dtype)


def dense_temporaries(inst: Inst) -> tuple[Inst, dict[int, Access]]:
    """``inst`` on dense temporaries instead of its element-indexed operands; the temporaries, by operand number."""
    temporaries = {
        number: Access.whole(Tensor(a.name, a.shape, a.dtype, a.buffer)) for number, _, a in indirect_operands(inst)
    }  # fmt: skip
    return inst.with_operands(temporaries), temporaries


__all__ = [
    "INDICES",
    "Offsets",
    "capacity",
    "dense_temporaries",
    "group_of",
    "index_reads",
    "indirect_operands",
    "lists",
    "room",
]
