"""The tensors of a program as they would be without rounding, and the errors of what they hold."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nki.backend.numpy.memory import Memory
from nki.ir.types import Access, Tensor
from nki.rounding.tracked import Doubles, Errors, Source


@dataclass(slots=True)
class Shadow:
    """A tensor in float64, dense: its exact elements, and their errors by source."""

    exact: Doubles
    errors: dict[Source, Doubles] = field(default_factory=dict[Source, Doubles])
    last: frozenset[Source] = frozenset()


class ShadowMemory:
    """The shadows of those tensors that hold anything but exact numbers."""

    def __init__(self) -> None:
        self._shadows: dict[Tensor, Shadow] = {}

    def of(self, tensor: Tensor) -> Shadow | None:
        """The shadow of ``tensor``; None if what it holds is exact."""
        return self._shadows.get(tensor)

    def forget(self, tensor: Tensor) -> None:
        """Take what ``tensor`` holds for exact."""
        self._shadows.pop(tensor, None)

    def load(self, source: Access, rows: int) -> tuple[Doubles, Errors, frozenset[Source]] | None:
        """Copies of what stands for ``source``, as so many rows."""
        shadow = self._shadows.get(source.tensor)
        if shadow is None or source.dtype is not source.tensor.dtype:
            return None
        exact = _window(shadow.exact, source).reshape(rows, -1).copy()
        errors: Errors = {}
        for number, block in shadow.errors.items():
            part = _window(block, source)
            if part.any():
                errors[number] = part.reshape(rows, -1).copy()
        return exact, errors, shadow.last

    def store(
        self, target: Access, memory: Memory, exact: Doubles | None, errors: Errors, last: frozenset[Source]
    ) -> None:
        """Note what stands for ``target``, which ``memory`` has already; ``exact``: None for what it has."""
        tensor = target.tensor
        shadow = self._shadows.get(tensor)
        if target.dtype is not tensor.dtype:
            if shadow is not None:
                self._refresh(shadow, target, memory)
            return
        if shadow is None:
            if exact is None:
                return
            with np.errstate(all="ignore"):
                shadow = Shadow(memory.array(tensor).reshape(-1).astype(np.float64))
            self._shadows[tensor] = shadow
        whole = target.size == tensor.elements
        window = _window(shadow.exact, target)
        window[...] = memory.window(target) if exact is None else _shaped(exact, target)
        for source in shadow.errors.keys() - errors.keys():
            _window(shadow.errors[source], target)[...] = 0.0
        for source, error in errors.items():
            if source not in shadow.errors:
                shadow.errors[source] = np.zeros(tensor.elements)
            _window(shadow.errors[source], target)[...] = _shaped(error, target)
        shadow.last = last if whole else shadow.last | last

    def refresh(self, target: Access, memory: Memory) -> None:
        """Take what ``target`` holds for exact."""
        shadow = self._shadows.get(target.tensor)
        if shadow is not None:
            self._refresh(shadow, target, memory)

    @staticmethod
    def _refresh(shadow: Shadow, target: Access, memory: Memory) -> None:
        # The target may have another width than the tensor's elements, or another type: whatever bytes it touches.
        tensor = target.tensor
        if target.dtype.itemsize != tensor.dtype.itemsize:
            with np.errstate(all="ignore"):
                shadow.exact[...] = memory.array(tensor).reshape(-1)
            shadow.errors.clear()
            return
        same = Access(tensor, target.offset, target.shape, target.strides, tensor.dtype)
        with np.errstate(all="ignore"):
            _window(shadow.exact, same)[...] = memory.window(same)
        for block in shadow.errors.values():
            _window(block, same)[...] = 0.0


def _window(block: Doubles, access: Access) -> NDArray[Any]:
    size = block.itemsize
    return np.ndarray(access.shape, np.float64, block, access.offset * size, tuple(s * size for s in access.strides))


def _shaped(array: Doubles, target: Access) -> Doubles:
    shape = (target.partitions, target.free_elements)
    whole = array if array.size == target.size else np.broadcast_to(array, shape)
    return whole.reshape(target.shape)
