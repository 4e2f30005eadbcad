"""What an instruction makes of bytes that nobody has written: found by running it again with others in their place.

A kernel may compute on memory that it never filled, as long as nothing comes of it: lanes that a transposition only
carries along, elements beyond the end of a list. So bytes of a result are undefined just where they change with the
undefined bytes that were read.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from nki.ir.inst import Inst
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
        for filling in _FILLINGS if self._results else ():
            self._restore()
            for (access, undefined), words in zip(self._sources, held, strict=True):
                fresh = np.frombuffer(bytes([filling]) * words.itemsize, words.dtype)[0]
                self._words(access)[...] = np.where(undefined, fresh, words)
            self._machine.again(self._inst)
            for (access, _), words, places in zip(self._results, first, changed, strict=True):
                places |= self._words(access) != words
        for (access, _), words in zip(self._sources, held, strict=True):
            self._words(access)[...] = words
        for (access, _), words in zip(self._results, first, strict=True):
            self._words(access)[...] = words
        return [(access, places) for (access, _), places in zip(self._results, changed, strict=True)]

    def _restore(self) -> None:
        for access, words in reversed(self._results):
            self._words(access)[...] = words

    def _words(self, access: Access) -> NDArray[Any]:
        return self._machine.memory.window(access).view(f"u{access.dtype.itemsize}")
