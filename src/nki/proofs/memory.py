"""Contents of tensors in a proof: known numbers as bytes, all others as residues and exponents."""

from __future__ import annotations

import functools
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nki.backend.numpy.memory import Array, Memory
from nki.backend.numpy.placed_memory import PlacedMemory
from nki.base.dtype_conversion import to_float32
from nki.base.element_types import DType
from nki.ir.program import Program
from nki.ir.types import Access
from nki.proofs.arithmetic import Arithmetic
from nki.proofs.symbols import KNOWN_SIZE, MINUS, PLUS, Size, Symbols, UndecidedError
from nki.shadows.memory import ShadowMemory, Words

_KNOWN: Final = np.uint32(0xFFFFFFFF)
"""In place of a residue: the element is a known number."""
_NONE: Final = np.uint32(0xFFFFFFFE)
"""In place of a residue or of an exponent: there is none."""
_INFINITIES: Final = {MINUS: 0xFFFFFFFD, PLUS: 0xFFFFFFFB}


class Facts(NamedTuple):
    """Knowledge about an element: see :class:`Symbols`; ``power`` is the size of its power."""

    size: Size
    is_whole: bool
    sign: int
    level: float
    power: Size


class SymbolMemory(ShadowMemory):
    """A memory with numbers that are not known; a tensor without any has bytes only."""

    FILLS = {  # noqa: RUF012
        "residue": _KNOWN, "exponent": _KNOWN, "facts": np.uint32(0), "kept": np.uint32(1), "power": _NONE,
    }  # fmt: skip
    """``facts``: the number of the element's facts. ``kept``: the residue of the truth that it is finite. ``power``:
    the residue of its power.
    """

    def __init__(self) -> None:
        super().__init__()
        self._facts: list[Facts] = []
        self._numbers: dict[Facts, int] = {}

    def share(self, other: Memory) -> None:
        super().share(other)
        assert isinstance(other, SymbolMemory)
        self._facts, self._numbers = other._facts, other._numbers

    def begin(self, program: Program, inputs: Sequence[Symbols | Array]) -> None:
        """Take the inputs of ``program``: an array is known; what the program changes is a copy."""
        for tensor, value in zip(program.inputs, inputs, strict=True):
            if isinstance(value, Symbols):
                self.store(Access.whole(tensor), value)
            else:
                self.bind(tensor, value)
                if tensor in program.outputs:
                    self.own(tensor)

    def window(self, access: Access) -> Array:
        """A writable view of known elements. Raises :class:`UndecidedError` if some are not known."""
        if self.is_symbolic(access):
            raise UndecidedError(
                f"the value of {access.tensor.name!r} decides what is computed, and depends on the inputs"
            )
        return self.known_window(access)

    def known_window(self, access: Access) -> Array:
        """A writable view of elements; of such that are not known it means nothing."""
        return super().window(access)

    def is_symbolic(self, access: Access) -> bool:
        """True if an element of ``access`` is not known. Raises :class:`UndecidedError` if bytes are parts of such."""
        if self.is_bare(access):
            return False
        if self.is_torn(access):
            name, own = access.tensor.name, access.tensor.dtype
            if self.home(access.tensor) is not access.tensor:
                raise UndecidedError(f"{name!r} is read where other numbers were stored over a part of it")
            stored = f"{name!r} of {own} holds numbers that depend on the inputs"
            raise UndecidedError(f"{stored}, and is read as {access.dtype}")
        return True

    def load(self, access: Access, arithmetic: Arithmetic) -> Symbols:
        """The elements of ``access``, in its shape; some are not known."""
        self._check(access)
        residues, exponents = self.words(access, "residue").copy(), self.words(access, "exponent").copy()
        known = residues == _KNOWN
        infinities = np.zeros(residues.shape, np.int8)
        for sign, word in _INFINITIES.items():
            infinities[residues == word] = sign
        is_infinite = (infinities != 0) | known
        parts = [np.where(is_infinite, np.uint32(0), part) for part in (residues, exponents)]
        lacks = [part == _NONE for part in parts]
        places = self.words(access, "facts")
        numbers: list[int] = np.flatnonzero(np.bincount(places[~known])).tolist()
        facts = [self._facts[number] for number in numbers]
        levels = None
        if any(each.level for each in facts):
            levels = np.where(known, 0.0, np.array([each.level for each in self._facts])[places])
        kept = np.where(known, np.uint32(1), self.words(access, "kept"))
        value = Symbols(
            None if lacks[0].any() else parts[0].astype(np.uint64),
            None if lacks[1].any() and not lacks[0].any() else parts[1].astype(np.uint64),
            infinities if infinities.any() else None,
            all(each.is_whole for each in facts),
            functools.reduce(Size.joined, (each.size for each in facts)),
            None if (kept == 1).all() else kept.astype(np.uint64),
            min(each.sign for each in facts),
            levels,
            self._power(access, known, facts),
        )
        if lacks[0].any() and lacks[1].any():
            value = self._filled(value, parts, lacks, arithmetic)
        if known.any():
            known_numbers = numbers_of(self.known_window(access), access.dtype, known)
            value = arithmetic.choose(known, arithmetic.constant(known_numbers), value)
        return value

    def _power(self, access: Access, known: NDArray[np.bool_], facts: list[Facts]) -> Symbols | None:
        """The stored power; None if some elements have none."""
        words = self.words(access, "power")
        if known.any() or (words == _NONE).any():
            return None
        return Symbols(words.astype(np.uint64), None, size=functools.reduce(Size.joined, (f.power for f in facts)))

    def _filled(
        self, value: Symbols, parts: list[Words], lacks: list[NDArray[np.bool_]], arithmetic: Arithmetic
    ) -> Symbols:
        """Residues for elements that have exponents only, beside elements that have residues only."""
        exponents = parts[1].astype(np.uint64)
        of_exponents = arithmetic.with_residues(Symbols(None, exponents)).residues
        assert of_exponents is not None
        return replace(value, residues=np.where(lacks[0], of_exponents, parts[0].astype(np.uint64)), exponents=None)

    def _check(self, access: Access) -> None:
        own, dtype = access.tensor.dtype, access.dtype
        if own is not dtype and not (own.is_integer and dtype.is_integer):
            raise UndecidedError(f"numbers of {access.tensor.name!r}, stored as {own}, are read as patterns of {dtype}")

    def note_known(self, access: Access) -> None:
        """Known numbers are about to be stored to ``access``."""
        if self.home(access.tensor) is not access.tensor or self.is_symbolic(access):
            self.clear(access)

    def store(self, access: Access, value: Symbols) -> None:
        """Store a value of the shape of ``access``."""
        self._check(access)
        if self.home(access.tensor) is access.tensor and self.as_stored(access) is None:
            raise UndecidedError(
                f"numbers that depend on the inputs are stored to {access.tensor.name!r} of {access.tensor.dtype} as "
                f"{access.dtype}"
            )
        self.make(access.tensor, self.FILLS)
        residues, exponents = (
            _NONE if part is None else part.astype(np.uint32) for part in (value.residues, value.exponents)
        )
        if value.infinities is not None:
            for sign, word in _INFINITIES.items():
                residues = np.where(value.infinities == sign, np.uint32(word), residues)
        words: dict[Hashable, Any] = {
            "residue": residues,
            "exponent": exponents,
            "facts": self._numbers_of(value),
            "kept": 1 if value.kept is None else value.kept,
            "power": _NONE if value.power is None else value.power.present,
        }
        self.set_words(access, words)

    def _numbers_of(self, value: Symbols) -> int | Words:
        """The number of the facts of each element."""
        power = KNOWN_SIZE if value.power is None else value.power.size
        facts = Facts(value.size, value.is_whole, value.sign, 0.0, power)
        if value.levels is None:
            return self._number(facts)
        levels, places = np.unique(value.levels, return_inverse=True)
        numbers = np.array([self._number(facts._replace(level=float(level))) for level in levels], np.uint32)
        return numbers[places].reshape(value.shape)

    def _number(self, facts: Facts) -> int:
        number = self._numbers.setdefault(facts, len(self._facts))
        if number == len(self._facts):
            self._facts.append(facts)
        return number


class PlacedSymbols(PlacedMemory, SymbolMemory):
    """The same in the bytes of SBUF and PSUM, which tiles share: for programs after ``allocate``."""


def numbers_of(array: Array, dtype: DType, chosen: NDArray[np.bool_] | None = None) -> Array:
    """Known elements as integers or as float32; 0 where they are not ``chosen``."""
    numbers = array if dtype.is_integer else to_float32(array, dtype)
    return numbers if chosen is None else np.where(chosen, numbers, np.zeros((), numbers.dtype))


__all__ = ["PlacedSymbols", "SymbolMemory", "numbers_of"]
