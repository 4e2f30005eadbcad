"""Propagation of undefined bytes through an instruction, found by running it again with other bytes in their place.

A kernel may compute on memory that it never filled, as long as no result depends on it: lanes that a transposition only
carries along, elements beyond the end of a list. So bytes of a result are undefined exactly where they change with the
undefined bytes that were read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from nki.base.convert import from_float32, to_float32
from nki.base.dtype import DType
from nki.ir.instruction import Inst
from nki.ir.types import Access

_FILLINGS: Final = (0x00, 0x3C, 0x7B, 0xC5)
"""Bytes to try: as floats they make zeros, small, huge and negative numbers."""

Mask = NDArray[np.bool_]


class Memory(Protocol):
    """Contents of tensors."""

    def window(self, access: Access) -> NDArray[Any]:
        """A writable view of the elements of ``access``."""
        ...


class Executor(Protocol):
    """The executor that runs the kernel."""

    @property
    def memory(self) -> Memory:
        """Contents of its memories."""
        ...

    def contents(self, inst: Inst, access: Access) -> NDArray[Any]:
        """Contents of an operand of ``inst``, in its shape."""
        ...

    def rerun(self, inst: Inst) -> None:
        """Run ``inst`` without the observer."""
        ...


class Trial:
    """An instruction that has read undefined bytes, before it writes."""

    def __init__(self, executor: Executor, inst: Inst) -> None:
        self._executor = executor
        self._inst = inst
        self._sources: list[tuple[Access, Mask]] = []
        self._results: list[tuple[Access, NDArray[Any]]] = []

    def reads(self, access: Access, undefined: Mask) -> None:
        """The ``undefined`` elements of ``access``, in its shape, are read."""
        self._sources.append((access, undefined))

    def writes(self, access: Access) -> None:
        """``access`` is about to be written."""
        self._results.append((access, self._words(access).copy()))

    def undefined(self) -> list[tuple[Access, Mask]]:
        """The results, and their elements that depend on undefined bytes; memory stays as the first run left it."""
        first = [self._words(access).copy() for access, _ in self._results]
        changed = [np.zeros(words.shape, np.bool_) for words in first]
        self._restore()
        held = [self._words(access).copy() for access, _ in self._sources]
        for filling in self._fillings(held) if self._results else ():
            self._restore()
            for (access, undefined), words, other in zip(self._sources, held, filling, strict=True):
                self._words(access)[...] = np.where(undefined, other, words)
            self._executor.rerun(self._inst)
            for (access, _), words, differs in zip(self._results, first, changed, strict=True):
                differs |= self._words(access) != words
        for (access, _), words in zip(self._sources, held, strict=True):
            self._words(access)[...] = words
        for (access, _), words in zip(self._results, first, strict=True):
            self._words(access)[...] = words
        return [(access, differs) for (access, _), differs in zip(self._results, changed, strict=True)]

    def _fillings(self, held: Sequence[NDArray[Any]]) -> Iterator[list[Any]]:
        """Lists of values for the undefined elements of each source, which holds the words ``held``.

        Besides constant bytes these are values that a comparison may look for: immediates of the instruction, contents
        of its other operands, and defined elements of the source itself.
        """
        for byte in _FILLINGS:
            yield [np.frombuffer(bytes([byte]) * words.itemsize, words.dtype)[0] for words in held]
        pairs = list(zip(self._sources, held, strict=True))
        yield [words[~undefined].flat[0] if not undefined.all() else words for (_, undefined), words in pairs]
        for number in dict.fromkeys(self._inst.immediates()):
            yield [
                _as_words(np.full((1,) * access.ndim, number, np.float32), access.dtype) for access, _ in self._sources
            ]
        for other in self._inst.reads():
            if other.dynamic is None and not other.dtype.is_packed:
                values = to_float32(self._executor.memory.window(other), other.dtype)
                yield [_as_words(_fit(values, access), access.dtype) for access, _ in self._sources]

    def _restore(self) -> None:
        for access, words in reversed(self._results):
            self._words(access)[...] = words

    def _words(self, access: Access) -> NDArray[Any]:
        return self._executor.memory.window(access).view(f"u{access.dtype.itemsize}")


def _as_words(values: NDArray[np.float32], dtype: DType) -> NDArray[Any]:
    """Numbers as words of ``dtype``; zeros for a packed dtype."""
    if dtype.is_packed:
        return np.zeros((1,) * values.ndim, f"u{dtype.itemsize}")
    return np.ascontiguousarray(from_float32(values, dtype)).view(f"u{dtype.itemsize}")


def _fit(values: NDArray[np.float32], access: Access) -> NDArray[np.float32]:
    """Values of another operand, broadcast to ``access``: element by element, by partition, or else the first."""
    if values.size == access.size:
        return values.reshape(access.shape)
    if values.size == values.shape[0] == access.shape[0]:
        return values.reshape(-1, *[1] * (access.ndim - 1))
    return values.reshape(-1)[:1].reshape((1,) * access.ndim)
