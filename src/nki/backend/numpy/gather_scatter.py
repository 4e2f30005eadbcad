"""Instructions on indirect views: gather, compute on dense tiles, scatter (see nki.ir.indirection.gather_offsets)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from nki.ir.access_bounds import byte_window
from nki.ir.execution_observer import ExecutionObserver
from nki.ir.indirection.gather_offsets import Offsets, dense_temporaries, indirect_operands, room
from nki.ir.instruction import Inst
from nki.ir.types import Access, Tensor

Array = NDArray[Any]
Mask = NDArray[np.bool_]


class Contents(Protocol):
    """The contents of a memory."""

    def window(self, access: Access) -> Array:
        """A writable view of the elements of ``access``."""
        ...

    def forget(self, tensor: Tensor) -> None:
        """Free ``tensor``, which is not used any more."""
        ...


class _Watched(ExecutionObserver):
    """Tells another observer which elements of an operand are read and written through its dense tile."""

    def __init__(
        self, observer: ExecutionObserver, operands: dict[Tensor, tuple[Access, Offsets]], masks: dict[Tensor, Mask]
    ):
        self._observer = observer
        self._operands = operands
        self._masks = masks

    def reads(self, access: Access) -> None:
        for window in self._windows(access):
            self._observer.reads(window)

    def writes(self, access: Access) -> None:
        for window in self._windows(access, self._masks.get(access.tensor)):
            self._observer.writes(window)

    def _windows(self, access: Access, mask: Mask | None = None) -> list[Access]:
        operand = self._operands.get(access.tensor)
        if operand is None:
            return [access]
        view, offsets = operand
        touched = np.zeros(access.tensor.nbytes, np.bool_)
        byte_window(touched, access)[...] = True
        places = np.asarray(touched.reshape(*view.shape, -1).any(axis=-1))
        rows, columns = np.nonzero(places if mask is None else places & mask)
        if not len(rows):
            return []
        elements = offsets[rows // _group(view, offsets), columns]
        whole = room(view, int(elements.max()) + 1)
        named = np.zeros(whole.shape, np.bool_)
        named[rows, elements] = True
        return list(_boxes(whole, named))


def _boxes(whole: Access, named: Mask) -> Iterator[Access]:
    """Windows that together are the ``named`` elements: neighbours in the partitions that have the same ones."""
    (step, pitch), size = whole.strides, len(named)
    tops = [0, *(np.flatnonzero((named[1:] != named[:-1]).any(axis=1)) + 1).tolist()]
    for top, below in zip(tops, [*tops[1:], size], strict=True):
        edges = np.flatnonzero(np.diff(named[top], prepend=False, append=False)).tolist()
        for start, stop in zip(edges[::2], edges[1::2], strict=True):
            offset = whole.offset + top * step + start * pitch
            yield Access(whole.tensor, offset, (below - top, stop - start), whole.strides, whole.dtype)


def gathered(memory: Contents, view: Access, offsets: Offsets) -> Array:
    """The elements of ``view``, in its shape."""
    rows = np.arange(view.shape[0])[:, None]
    return memory.window(room(view, int(offsets.max()) + 1))[rows, np.repeat(offsets, _group(view, offsets), axis=0)]


def _group(view: Access, offsets: Offsets) -> int:
    return view.shape[0] // len(offsets)


def _scatter(memory: Contents, view: Access, offsets: Offsets, values: Array, mask: Mask | None) -> None:
    """Write ``values`` (where ``mask`` is set) one offset after the other: the last of equal ones stays."""
    target = memory.window(room(view, int(offsets.max()) + 1))
    group = _group(view, offsets)
    for number, group_offsets in enumerate(offsets):
        part = slice(number * group, (number + 1) * group)
        for column, offset in enumerate(group_offsets.tolist()):
            if mask is None:
                target[part, offset] = values[part, column]
            else:
                np.copyto(target[part, offset], values[part, column], where=mask[part, column])


def execute_indirect(inst: Inst, executor: Any) -> None:
    """Run the semantics of ``inst``, with its other indices resolved, on an executor with a memory."""
    views = {number: (a, executor.offsets(inst, a)) for number, _, a in indirect_operands(inst)}
    if not views:
        inst.semantics(executor)
        return
    memory: Contents = executor.memory
    compute, dense = dense_temporaries(inst)
    read, written = inst.reads(), inst.writes()
    for number, (view, offsets) in views.items():
        if any(view is a for a in read):
            memory.window(dense[number])[...] = gathered(memory, view, offsets)
    masks = _masks(memory, compute)
    observer = executor.observer
    if observer is not None:
        operands = {dense[number].tensor: view for number, view in views.items()}
        executor.observer = _Watched(observer, operands, masks)
    try:
        compute.semantics(executor)
    finally:
        executor.observer = observer
    for number, (view, offsets) in views.items():
        tile = dense[number]
        if any(view is a for a in written):
            _scatter(memory, view, offsets, memory.window(tile), masks.get(tile.tensor))
        memory.forget(tile.tensor)


def _masks(memory: Contents, compute: Inst) -> dict[Tensor, Mask]:
    """The elements of a dense tile to scatter, where that is not all: a predicate leaves the others as they are."""
    predicate = compute.write_predicate()
    return {} if predicate is None else {predicate.dst.tensor: predicate.mask(memory.window(predicate.operand))}
