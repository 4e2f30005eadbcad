"""Propagation of undefined bytes through an instruction, found by running it again with other bytes in their place.

A kernel may compute on memory that it never filled, as long as no result depends on it: lanes that a transposition only
carries along, elements beyond the end of a list. So bytes of a result are undefined exactly where they change with the
undefined bytes that were read. One of the runs finds the second contents of the results (``undefined_bytes.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from nki.base.dtype_conversion import from_float32, to_float32
from nki.base.element_types import DType
from nki.ir.instruction import Inst
from nki.ir.types import Access
from nki.sim.hazards.undefined_bytes import Undefined

_FILLINGS: Final = (0x00, 0x6F, 0xC5)
"""Bytes to try, besides the second contents: as floats of each dtype they make zeros, large and negative numbers, and
no NaN or infinity, so that a product with zero hides them in each dtype alike.
"""
_TOLD_APART: Final = 8
"""Origins of one instruction that are told apart; results that only others change count as the first one's."""

Mask = NDArray[np.bool_]
Words = NDArray[Any]
"""Elements as unsigned integers of their size."""


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
        self._sources: list[tuple[Access, Undefined]] = []
        self._results: list[tuple[Access, Words]] = []

    def reads(self, access: Access, undefined: Undefined) -> None:
        """``access`` is read, and ``undefined`` in part."""
        self._sources.append((access, undefined))

    def writes(self, access: Access) -> None:
        """``access`` is about to be written."""
        self._results.append((access, self._words(access).copy()))

    def undefined(self) -> list[tuple[Access, Undefined]]:
        """The results and their undefined elements; memory stays as the first run left it."""
        if not self._results:
            return []
        first = [self._words(access).copy() for access, _ in self._results]
        self._restore()
        held = [self._words(access).copy() for access, _ in self._sources]
        found = self._attributed(first, held)
        for (access, _), words in zip(self._sources, held, strict=True):
            self._words(access)[...] = words
        for (access, _), words in zip(self._results, first, strict=True):
            self._words(access)[...] = words
        return [(access, undefined) for (access, _), undefined in zip(self._results, found, strict=True)]

    def _attributed(self, first: list[Words], held: list[Words]) -> list[Undefined]:
        """The undefined elements of each result, ``first`` without a filling, with their origins."""
        changed, others = self._changes(first, held)
        numbers = sorted({n for _, source in self._sources for n in np.unique(source.origins).tolist() if n})
        origins = [np.where(differs, numbers[0], 0).astype(np.int32) for differs in changed]
        if len(numbers) > 1 and any(differs.any() for differs in changed):
            for number in reversed(numbers[:_TOLD_APART]):  # an element has the first of those that change it
                alone, _ = self._changes(first, held, number)
                for result, differs in zip(origins, alone, strict=True):
                    result[differs] = number
        return [
            Undefined(result, other.view(np.uint8).reshape(*other.shape, -1))
            for result, other in zip(origins, others, strict=True)
        ]

    def _changes(self, first: list[Words], held: list[Words], number: int = 0) -> tuple[list[Mask], list[Words]]:
        """The elements of each result that a filling changes, and the results of the second contents.

        Of the undefined elements all are filled, or those that come from the origin with this ``number``.
        """
        changed = [np.zeros(words.shape, np.bool_) for words in first]
        others: list[Words] = []
        for filling in self._fillings(held):
            self._restore()
            for (access, source), words, filler in zip(self._sources, held, filling, strict=True):
                chosen = source.origins == number if number else source.elements
                self._words(access)[...] = np.where(chosen, filler, words)
            self._executor.rerun(self._inst)
            results = [self._words(access).copy() for access, _ in self._results]
            for differs, words, result in zip(changed, first, results, strict=True):
                differs |= result != words
            others = others or results
        return changed, others

    def _fillings(self, held: Sequence[NDArray[Any]]) -> Iterator[list[Any]]:
        """Lists of values for the undefined elements of each source, which holds the words ``held``.

        First their second contents; besides constant bytes these are values that a comparison may look for: immediates
        of the instruction, contents of its other operands, and defined elements of the source itself.
        """
        pairs = list(zip(self._sources, held, strict=True))
        yield [_second(access, source, words) for (access, source), words in pairs]
        for byte in _FILLINGS:
            yield [np.frombuffer(bytes([byte]) * words.itemsize, words.dtype)[0] for words in held]
        yield [words if source.elements.all() else words[~source.elements].flat[0] for (_, source), words in pairs]
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

    def _words(self, access: Access) -> Words:
        return self._executor.memory.window(access).view(f"u{access.dtype.itemsize}")


def _second(access: Access, source: Undefined, words: Words) -> Words:
    """The second contents of the undefined elements of ``access``, which holds ``words``."""
    if source.other is None:
        return words
    return np.ascontiguousarray(source.other).view(words.dtype).reshape(access.shape)


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
