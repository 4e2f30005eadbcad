"""Bounds checks of accesses, so that executors touch their tensors and nothing else.

Accesses to whole tensors, and slices of them, are in bounds by construction (``Access.inside``). Accesses read from
text or from an artifact may not be.
"""

from __future__ import annotations

from typing import Any, TypeVar, cast

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from nki.base.errors import WindowError
from nki.ir.effects import Effects
from nki.ir.indirection.gather_offsets import INDICES
from nki.ir.instruction import Inst
from nki.ir.loop import is_scalar_register
from nki.ir.types import MOST_DIMENSIONS, MOST_ELEMENTS, Access, Buffer, IndexKind, is_row_indexed
from nki.target.memory_spaces import OFFSET_GROUP

T = TypeVar("T", bound=np.generic)
FIX = "compare with the output of `nki dump`"
_Reach = tuple[int, int, int, int, bool]
"""Number of elements that an access reaches below and beyond its first element, and beyond it within a partition; the
elements of a partition, 0 in HBM; True in a register."""


class WindowChecker:
    """Checks that operands stay inside their tensors, unless ``Access.inside`` says so, and notes it there."""

    def __init__(self) -> None:
        self._reaches: dict[tuple[Any, ...], _Reach] = {}
        """Of each access without its place: what :func:`_reach` finds, after the checks that depend on that alone."""

    def check(self, inst: Inst) -> None:
        """Raise :class:`WindowError` unless every operand stays inside its tensor."""
        registers = inst.effects.uses_registers
        values = inst.__dict__
        for name in inst.operand_names:
            value = values[name]
            if value.__class__ is Access and value.inside:
                continue
            if isinstance(value, Access) and value.dynamic is None:
                if self._check(value):
                    registers = True
                else:
                    value.inside = True
                continue
            for access in cast("tuple[Access, ...]", value) if isinstance(value, tuple) else (value,):
                if not isinstance(access, Access):  # for the types to refuse
                    continue
                in_register = self._check(access)
                registers = registers or in_register
                if access.dynamic is not None:
                    self._check(access.dynamic.source)
                    check_dynamic(access, inst)
                elif not in_register:
                    access.inside = True
        if registers:  # most instructions have none
            _check_registers(inst, inst.effects)

    def _check(self, access: Access) -> bool:
        """Raise unless ``access`` stays inside its tensor; True if that is a register."""
        tensor = access.tensor
        form = access.signature
        if access.dtype is not tensor.dtype:
            form = (*form, tensor.free_size, tensor.dtype.name)
        reach = self._reaches.get(form)
        if reach is None:
            reach = self._reaches[form] = _reach(access)
        below, beyond, within, step, in_register = reach
        offset = access.offset
        if offset + below < 0 or (offset + beyond + 1) * access.dtype.itemsize > tensor.nbytes:
            raise _error(access, f"leaves the tensor, which has {tensor.elements} elements")
        if step and offset % step + within >= step:
            raise _error(access, f"leaves its partition, which has {access.partition_step} elements")
        return in_register


def _check_registers(inst: Inst, effects: Effects) -> None:
    """Raise unless exactly those operands are in registers that the instruction takes from there."""
    for f, access in inst.operands():
        scalar = f.name in effects.scalar_registers and is_scalar_register(access)
        takes = scalar or (effects.implicit is not None and f.name == effects.implicit.name)
        if (access.buffer is Buffer.register) is not takes:
            raise _error(access, f"is in {access.buffer.value}, which {inst.mnemonic} does not take for {f.name}")


def check_dynamic(access: Access, inst: Inst) -> None:
    """Raise unless ``inst`` can follow the run-time index of ``access``."""
    dynamic = access.dynamic
    assert dynamic is not None
    source, rows = dynamic.source, dynamic.kind is IndexKind.rows
    if not source.dtype.is_integer or source.dynamic is not None or not _reaches(source, access):
        raise _error(source, "is no run-time index: that is one integer, or a column of them")
    if source.buffer is not Buffer.sbuf and not is_scalar_register(source):
        raise _error(source, "is a run-time index outside sbuf and the registers")
    if dynamic.kind is IndexKind.elements:
        _check_lists(access)
        return
    line = source.ndim == 2 or source.free_elements == 1
    enough = line and source.size >= access.shape[0] if rows else source.size == 1
    if not enough or dynamic.step < 1:
        raise _error(access, f"takes {source.size} run-time indices in steps of {dynamic.step}")
    if rows and not (inst.effects.row_indexed and access.buffer.is_hbm):
        raise _error(access, f"has an index for each row, which {inst.mnemonic} does not follow there")


def _reaches(source: Access, access: Access) -> bool:
    """True if the index is as wide as an address takes it: a scalar of 64 bits in HBM, else 32 bits."""
    return source.dtype.itemsize <= 4 or (is_scalar_register(source) and access.buffer.is_hbm)


def _check_lists(access: Access) -> None:
    """Raise unless ``access`` is a tile of two dimensions with an index that has a list for each group."""
    dynamic = access.dynamic
    assert dynamic is not None
    source = dynamic.source
    if not access.buffer.on_chip or access.buffer is Buffer.register or access.ndim != 2 or access.strides[1]:
        raise _error(access, "has elements that offsets choose, and is no tile of two dimensions, the second in step 0")
    if source.buffer is not Buffer.sbuf or source.ndim != 2 or source.dtype not in INDICES:
        raise _error(source, f"holds no offsets: those are a tile of {' or '.join(map(str, INDICES))} in sbuf")
    if source.shape[0] != access.shape[0] or access.shape[0] % OFFSET_GROUP or dynamic.step < 1:
        raise _error(access, f"has offsets in {source.shape[0]} partitions, in steps of {dynamic.step} elements")


def _reach(access: Access) -> _Reach:
    """The reach of an access, after the checks that depend on its signature alone."""
    tensor, shape, strides = access.tensor, access.shape, access.strides
    if is_row_indexed(access):
        strides = (0, *strides[1:])
    if not shape or min(shape) < 1:
        raise _error(access, "has a dimension without elements")
    if len(shape) > MOST_DIMENSIONS or len(strides) != len(shape):
        raise _error(access, f"has {len(shape)} dimensions; a window has at most {MOST_DIMENSIONS}")
    if access.size > MOST_ELEMENTS or any(abs(step) > MOST_ELEMENTS for step in strides):
        raise _error(access, f"has more elements, or longer steps, than {MOST_ELEMENTS}")
    free = list(zip(shape, strides, strict=True))
    if tensor.buffer.on_chip:
        if len(shape) < 2:
            raise _error(access, "has one dimension; on chip there are at least (partitions, elements)")
        size = tensor.bytes_per_partition
        if size % access.dtype.itemsize:
            raise _error(access, f"sees partitions of {size} bytes as {access.dtype}")
        count, step = free.pop(0)
        if count > 1 and (step < 0 or step % access.partition_step):
            raise _error(access, f"moves by {step} elements from partition to partition of {access.partition_step}")
        if any(s < 0 for _, s in free):
            raise _error(access, "goes backwards within a partition")
    within = sum((n - 1) * s for n, s in free)  # 0 where offsets choose elements: their step is 0
    ends = [(n - 1) * step for n, step in zip(shape, strides, strict=True)]
    step = access.partition_step if tensor.buffer.on_chip else 0
    below, beyond = sum(min(e, 0) for e in ends), sum(max(e, 0) for e in ends)
    return below, beyond, within, step, tensor.buffer is Buffer.register


def byte_window(mask: NDArray[T], access: Access) -> NDArray[T]:
    """View of ``mask``, which has an entry for each byte of the tensor, with the entries of the bytes of ``access``."""
    size = access.dtype.itemsize
    steps = (*(s * size for s in access.strides), 1)
    return as_strided(mask[access.offset * size :], (*access.shape, size), steps)


def _error(access: Access, what: str) -> WindowError:
    shown = f"{list(access.shape)} with steps {list(access.strides)} at {access.offset}"
    return WindowError(f"the window {shown} of '{access.name}' {access.tensor.shape} {what}", fix=FIX)
