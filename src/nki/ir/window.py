"""What a window must keep to, so that code which trusts it touches its tensor and nothing else.

Windows made by indexing keep to it by construction. One that was read from text or from an artifact may say anything.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from nki.base.errors import WindowError
from nki.ir.inst import Inst
from nki.ir.types import Access, Buffer

FIX = "compare with the output of `nki dump`"
Reach = tuple[int, int, int]
"""By how many elements a window reaches below and beyond its first element, and beyond it within a partition."""


def check_windows(inst: Inst, known: dict[tuple[Any, ...], Reach]) -> None:
    """Raise :class:`WindowError` unless every operand stays inside its tensor.

    ``known`` grows: what depends on a window's form alone is checked once for each form.
    """
    state = getattr(inst, "state", ("",))[0]
    for f, access in inst.operands():
        if (access.buffer is Buffer.register) is not (f.name == state):
            raise _error(access, f"is in {access.buffer.value}, which {inst.mnemonic} does not take for {f.name}")
        _check(access, known)


def _check(access: Access, known: dict[tuple[Any, ...], Reach]) -> None:
    tensor = access.tensor
    form = access.signature
    if access.dtype is not tensor.dtype:
        form = (*form, tensor.free_size, tensor.dtype.name)
    reach = known.get(form)
    if reach is None:
        reach = known[form] = _reach(access)
    below, beyond, within = reach
    if access.offset + below < 0 or (access.offset + beyond + 1) * access.dtype.itemsize > tensor.nbytes:
        raise _error(access, f"leaves the tensor, which has {tensor.elements} elements")
    if tensor.buffer.on_chip and access.offset % access.partition_step + within >= access.partition_step:
        raise _error(access, f"leaves its partition, which has {access.partition_step} elements")


def _reach(access: Access) -> Reach:
    """What :data:`Reach` says, after the checks that depend on the window's form alone."""
    tensor, shape, strides = access.tensor, access.shape, access.strides
    if not shape or min(shape) < 1:
        raise _error(access, "has a dimension without elements")
    free = list(zip(shape, strides, strict=True))
    if tensor.buffer.on_chip:
        if len(shape) < 2:
            raise _error(access, "has one dimension; on chip there are at least (partitions, elements)")
        size = tensor.free_size * tensor.dtype.itemsize
        if size % access.dtype.itemsize:
            raise _error(access, f"sees partitions of {size} bytes as {access.dtype}")
        count, step = free.pop(0)
        if count > 1 and (step < 0 or step % access.partition_step):
            raise _error(access, f"moves by {step} elements from partition to partition of {access.partition_step}")
        if any(s < 0 for _, s in free):
            raise _error(access, "goes backwards within a partition")
    within = sum((n - 1) * s for n, s in free)
    return access.first() - access.offset, access.last() - access.offset, within


def byte_window(mask: NDArray[np.bool_], access: Access) -> NDArray[np.bool_]:
    """The entries of ``mask``, one for each byte of the tensor, that belong to the bytes which ``access`` sees."""
    size = access.dtype.itemsize
    steps = (*(s * size for s in access.strides), 1)
    return as_strided(mask[access.offset * size :], (*access.shape, size), steps)


def _error(access: Access, what: str) -> WindowError:
    shown = f"{list(access.shape)} with steps {list(access.strides)} at {access.offset}"
    return WindowError(f"the window {shown} of '{access.name}' {access.tensor.shape} {what}", fix=FIX)
