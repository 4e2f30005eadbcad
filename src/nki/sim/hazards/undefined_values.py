"""What an instruction makes of bytes that nobody has written: found by running it again with others in their place.

A kernel may compute on memory that it never filled, as long as nothing comes of it: lanes that a transposition only
carries along, elements beyond the end of a list. So bytes of a result are undefined just where they change with the
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

Places = NDArray[np.bool_]


class Contents(Protocol):
    """What memories hold."""

    def window(self, access: Access) -> NDArray[Any]:
        """A writable view of what ``access`` addresses."""
        ...


class Machine(Protocol):
    """Where instructions run."""

    @property
    def memory(self) -> Contents:
        """What its memories hold."""
        ...

    def contents(self, inst: Inst, access: Access) -> NDArray[Any]:
        """What an operand of ``inst`` holds, in its shape."""
        ...

    def again(self, inst: Inst) -> None:
        """Run ``inst``, unwatched."""
        ...


class Trial:
    """An instruction, before it writes, that has read undefined bytes."""

    def __init__(self, machine: Machine, inst: Inst) -> None:
        self._machine = machine
        self._inst = inst
        self._sources: list[tuple[Access, Places]] = []
        self._results: list[tuple[Access, NDArray[Any]]] = []

    def reads(self, access: Access, undefined: Places) -> None:
        """``undefined`` places of ``access``, in its shape, are read."""
        self._sources.append((access, undefined))

    def writes(self, access: Access) -> None:
        """``access`` is about to be written."""
        self._results.append((access, self._words(access).copy()))

    def undefined(self) -> list[tuple[Access, Places]]:
        """What was written, and which places of it depend on undefined bytes; memory stays as the first run left it."""
        first = [self._words(access).copy() for access, _ in self._results]
        changed = [np.zeros(words.shape, np.bool_) for words in first]
        self._restore()
        held = [self._words(access).copy() for access, _ in self._sources]
        for fresh in self._fillings(held) if self._results else ():
            self._restore()
            for (access, undefined), words, filling in zip(self._sources, held, fresh, strict=True):
                self._words(access)[...] = np.where(undefined, filling, words)
            self._machine.again(self._inst)
            for (access, _), words, places in zip(self._results, first, changed, strict=True):
                places |= self._words(access) != words
        for (access, _), words in zip(self._sources, held, strict=True):
            self._words(access)[...] = words
        for (access, _), words in zip(self._results, first, strict=True):
            self._words(access)[...] = words
        return [(access, places) for (access, _), places in zip(self._results, changed, strict=True)]

    def _fillings(self, held: Sequence[NDArray[Any]]) -> Iterator[list[Any]]:
        """For each source, which holds ``held`` words, others to put in the undefined places; several such lists.

        Besides bytes of all kinds these are what a comparison may look for: numbers that the instruction is given, what
        its other operands hold, and what the source itself holds where it is defined.
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
                values = to_float32(self._machine.memory.window(other), other.dtype)
                yield [_as_words(_fitted(values, access), access.dtype) for access, _ in self._sources]

    def _restore(self) -> None:
        for access, words in reversed(self._results):
            self._words(access)[...] = words

    def _words(self, access: Access) -> NDArray[Any]:
        return self._machine.memory.window(access).view(f"u{access.dtype.itemsize}")


def _as_words(values: NDArray[np.float32], dtype: DType) -> NDArray[Any]:
    """Numbers as words of ``dtype``; zeros for a packed one, which holds none."""
    if dtype.is_packed:
        return np.zeros((1,) * values.ndim, f"u{dtype.itemsize}")
    return np.ascontiguousarray(from_float32(values, dtype)).view(f"u{dtype.itemsize}")


def _fitted(values: NDArray[np.float32], access: Access) -> NDArray[np.float32]:
    """The numbers of another operand for each element of ``access``: its own, one a partition, or else the first."""
    if values.size == access.size:
        return values.reshape(access.shape)
    if values.size == values.shape[0] == access.shape[0]:
        return values.reshape(-1, *[1] * (access.ndim - 1))
    return values.reshape(-1)[:1].reshape((1,) * access.ndim)
