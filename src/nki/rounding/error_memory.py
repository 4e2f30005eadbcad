"""The tensors of a program with what they would be without rounding, and the errors of what they hold."""

from __future__ import annotations

import numpy as np

from nki.backend.numpy.memory import Array
from nki.ir.types import Access, Tensor
from nki.rounding.tracked import Doubles, Errors, Source
from nki.shadows.memory import ShadowMemory

_EXACT = "exact"
_ZERO = np.float64(0)


class ErrorMemory(ShadowMemory):
    """A memory with planes in float64: of the exact elements, and of their errors by source; a tensor that holds
    nothing but exact numbers has none.
    """

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[Tensor, frozenset[Source]] = {}
        """The casts behind which the elements were only moved."""

    def drop(self, tensor: Tensor) -> None:
        """Take what ``tensor`` holds for exact."""
        super().drop(tensor)
        self._last.pop(tensor, None)

    def _sources(self, tensor: Tensor) -> list[Source]:
        return [name for name in self.planes(tensor) if isinstance(name, Source)]

    def load(self, source: Access, rows: int) -> tuple[Doubles, Errors, frozenset[Source]] | None:
        """Copies of what stands for ``source``, as so many rows; None if it is exact, or read as another dtype."""
        if not self.planes(source.tensor) or source.dtype is not source.tensor.dtype:
            return None
        exact = self.words(source, _EXACT).reshape(rows, -1).copy()
        errors: Errors = {}
        for number in self._sources(source.tensor):
            part = self.words(source, number)
            if part.any():
                errors[number] = part.reshape(rows, -1).copy()
        return exact, errors, self._last[source.tensor]

    def store(self, target: Access, exact: Array | None, errors: Errors, last: frozenset[Source]) -> None:
        """Note what stands for ``target``, which is stored, all in its shape; ``exact``: None for what it holds."""
        tensor = target.tensor
        if target.dtype is not tensor.dtype:
            self.refresh(target)
            return
        if not self.planes(tensor):
            if exact is None:
                return
            self.make(tensor, {_EXACT: _ZERO})
            whole = Access.whole(tensor)
            with np.errstate(all="ignore"):
                self.words(whole, _EXACT)[...] = self.window(whole)
        everything = target.size == tensor.elements
        self._last[tensor] = last if everything else self._last.get(tensor, frozenset()) | last
        self.make(tensor, dict.fromkeys(errors, _ZERO))
        words = {source: errors.get(source, 0.0) for source in self._sources(tensor)}
        self.set_words(target, {_EXACT: self.window(target) if exact is None else exact, **words})

    def refresh(self, target: Access) -> None:
        """Take what ``target`` holds, in whatever dtype it was stored, for exact."""
        planes, sources = self.planes(target.tensor), self._sources(target.tensor)
        if not planes:
            return
        stored = self.as_stored(target)
        with np.errstate(all="ignore"):
            if stored is not None:
                self.set_words(stored, {**dict.fromkeys(sources, 0.0), _EXACT: self.window(stored)})
                return
            touched = self.touched(target)
            for source in sources:
                planes[source][touched] = 0.0
            planes[_EXACT][touched] = self.array(target.tensor).reshape(-1)[touched]


__all__ = ["ErrorMemory"]
