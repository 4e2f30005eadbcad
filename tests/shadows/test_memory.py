"""Shadow memories against an oracle that knows of each byte what was stored there last.

Tiles lie over each other in SBUF and PSUM, are read in other dtypes and widths, through steps and views that overlap,
and are written in parts, now with a number and now with something that has a shadow.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nki import target as targets
from nki.base.element_types import DType, bfloat16, float32, int32, uint8, uint16, uint32
from nki.ir.types import Access, Buffer, Tensor
from nki.proofs.ball import Ball
from nki.proofs.ball_memory import Balls
from nki.proofs.field import FIELDS
from nki.proofs.memory import PlacedSymbols, SymbolMemory
from nki.proofs.reals import Reals
from nki.proofs.symbols import MINUS, PLUS, Size, Symbols, UndecidedError
from nki.rounding.error_memory import ErrorMemory
from nki.rounding.tracked import Kind, Source
from nki.target.fact_rows import Fact
from tests.analysis.byte_model import Byte, elements_of, views

Array = np.ndarray[Any, Any]
DTYPES = (float32, float32, int32, uint32, bfloat16, uint16, uint8)
TARGET = targets.find("trn2").with_facts(
    {f"{buffer}_partition_bytes": Fact(48, "bytes", "tiles") for buffer in ("sbuf", "psum")}
)
ON_CHIP = [
    Tensor("a", (2, 3), float32, Buffer.sbuf, (0, 0)),
    Tensor("b", (2, 4), bfloat16, Buffer.sbuf, (0, 2)),
    Tensor("c", (2, 2), int32, Buffer.sbuf, (1, 4)),
    Tensor("d", (2, 8), uint8, Buffer.sbuf, (0, 3)),
    Tensor("e", (2, 2), float32, Buffer.psum, (0, 0)),
    Tensor("f", (2, 2), uint32, Buffer.psum, (0, 4)),
]
IN_HBM = [
    Tensor("g", (2, 3), float32, Buffer.hbm),
    Tensor("h", (2, 4), bfloat16, Buffer.hbm),
    Tensor("i", (2, 2), int32, Buffer.hbm),
    Tensor("j", (2, 4), uint8, Buffer.hbm),
]


@st.composite
def places(draw: Any, tensors: list[Tensor]) -> Access:
    """A window, more often than not in the dtype of its tensor."""
    tensor = draw(st.sampled_from(tensors))
    return draw(views(tensor, (tensor.dtype, tensor.dtype, tensor.dtype, *DTYPES)))


def is_apart(access: Access) -> bool:
    """True if no two elements share a byte, so that a store is the same in any order."""
    touched = [byte for element in elements_of(access) for byte in element]
    return len(set(touched)) == len(touched)


def small_numbers(data: Any, access: Access) -> Array:
    words = data.draw(st.lists(st.integers(0, 9), min_size=access.size, max_size=access.size))
    return np.array(words).reshape(access.shape).astype(access.dtype.dtype)


@dataclass
class Part:
    """One byte of an element with a shadow: the store, the element in it, its width, and which byte."""

    store: int
    element: int
    width: int
    byte: int


@dataclass
class Oracle:
    """What each byte is: a number, or a part of an element."""

    bytes: dict[Byte, int | Part] = field(default_factory=dict[Byte, int | Part])

    def at(self, access: Access) -> list[list[int | Part]]:
        return [[self.bytes[byte] for byte in element] for element in elements_of(access)]

    def store_numbers(self, access: Access, numbers: Array) -> None:
        patterns = np.ascontiguousarray(numbers).reshape(-1, 1).view(np.uint8)
        for element, pattern in zip(elements_of(access), patterns.tolist(), strict=True):
            self.bytes.update(zip(element, pattern, strict=True))

    def store_parts(self, access: Access, store: int) -> None:
        width = access.dtype.itemsize
        for number, element in enumerate(elements_of(access)):
            self.bytes.update({byte: Part(store, number, width, n) for n, byte in enumerate(element)})


def is_known(element: list[int | Part]) -> bool:
    return not any(isinstance(byte, Part) for byte in element)


def is_torn(element: list[int | Part]) -> bool:
    first = element[0]
    if is_known(element):
        return False
    if not isinstance(first, Part):
        return True
    return element != [Part(first.store, first.element, len(element), n) for n in range(len(element))]


def may_name(access: Access) -> bool:
    """True if residues can be of the numbers that the window holds: its dtype is the tensor's, or both are integers."""
    own = access.tensor.dtype
    return own is access.dtype or (own.is_integer and access.dtype.is_integer)


class Symbolic:
    """A symbolic memory and its oracle."""

    def __init__(self, memory: SymbolMemory, tensors: list[Tensor]) -> None:
        self.memory, self.oracle, self.reals = memory, Oracle(), Reals(FIELDS[0], 1)
        self.stored: list[Symbols] = []
        for tensor in tensors:
            zeros = np.zeros(tensor.shape, tensor.dtype.dtype)
            self.memory.window(Access.whole(tensor))[...] = zeros
            self.oracle.store_numbers(Access.whole(tensor), zeros)

    def value(self, data: Any, shape: tuple[int, ...]) -> Symbols:
        """A value with a residue for each element that no other one has, and other parts by chance."""
        size, number = int(np.prod(shape)), len(self.stored)
        residues = (10_000 * (number + 1) + np.arange(size)).astype(np.uint64).reshape(shape)
        signs = kept = None
        if data.draw(st.booleans()):
            drawn = data.draw(st.lists(st.sampled_from((0, 0, MINUS, PLUS)), min_size=size, max_size=size))
            signs = np.array(drawn, np.int8).reshape(shape)
            residues[signs != 0] = 0
        if data.draw(st.booleans()):
            kept = (residues % 3).astype(np.uint64)
        whole = data.draw(st.booleans())
        return Symbols(residues, residues + np.uint64(5_000), signs, whole, Size(number + 2), kept)

    def store(self, data: Any, access: Access) -> None:
        value = self.value(data, access.shape)
        own_block = access.tensor.address is None
        if not may_name(access) or (own_block and access.dtype.itemsize != access.tensor.dtype.itemsize):
            with pytest.raises(UndecidedError):
                self.memory.store(access, value)
            return
        self.memory.store(access, value)
        self.oracle.store_parts(access, len(self.stored))
        self.stored.append(value)

    def store_numbers(self, data: Any, access: Access) -> None:
        numbers = small_numbers(data, access)
        before = self.oracle.at(access)
        narrow = access.dtype.itemsize != access.tensor.dtype.itemsize
        if access.tensor.address is None and narrow and not self.untouched(access):
            with pytest.raises(UndecidedError):
                self.memory.note_known(access)
            assert self.oracle.at(access) == before
            return
        self.memory.note_known(access)
        self.memory.window(access)[...] = numbers
        self.oracle.store_numbers(access, numbers)

    def untouched(self, access: Access) -> bool:
        return all(map(is_known, self.oracle.at(access)))

    def check(self, access: Access) -> None:
        """What a reader sees is what was stored."""
        elements = self.oracle.at(access)
        if all(map(is_known, elements)):
            assert not self.memory.is_symbolic(access)
            held = np.ascontiguousarray(self.memory.window(access)).reshape(-1, 1).view(np.uint8)
            assert held.tolist() == elements
            return
        with pytest.raises(UndecidedError):
            self.memory.window(access)
        if any(map(is_torn, elements)) or not may_name(access):
            with pytest.raises(UndecidedError):
                self.read(access)
            return
        self.compare(self.read(access), elements, access.dtype)

    def read(self, access: Access) -> Symbols:
        """As executors read."""
        assert self.memory.is_symbolic(access)
        return self.memory.load(access, self.reals)

    def compare(self, found: Symbols, elements: list[list[int | Part]], dtype: DType) -> None:
        parts = (found.residues, found.exponents, found.signs, found.kept)
        rows = [np.ones(found.shape, np.uint64) if part is None else part for part in parts]
        expected = [self.expected(element, dtype) for element in elements]
        for row, column in zip(rows, zip(*(each[0] for each in expected), strict=True), strict=True):
            assert row.reshape(-1).tolist() == list(column)
        assert found.is_whole == all(each[1] for each in expected)
        assert found.size == Size(*map(max, zip(*(each[2] for each in expected), strict=True)))

    def expected(self, element: list[int | Part], dtype: DType) -> tuple[tuple[int, ...], bool, Size]:
        """Residue, exponent, infinity and truth of an element, and its facts."""
        first = element[0]
        if isinstance(first, Part):
            value, at = self.stored[first.store], first.element
        else:
            number = np.array(element, np.uint8).view(dtype.plain)
            value, at = self.reals.constant(number if dtype.is_integer else number.astype(np.float32)), 0
        parts = (value.residues, value.exponents, value.signs, value.kept)
        numbers = [1 if part is None else int(part.reshape(-1)[at]) for part in parts]
        if numbers[2]:
            numbers[0] = numbers[1] = 0
        return tuple(numbers), value.is_whole, value.size


def steps(data: Any, subject: Any, tensors: list[Tensor]) -> None:
    """A few stores, mostly to the same tile and its neighbours; after each, questions about all tiles and a part."""
    few = data.draw(st.lists(st.sampled_from(tensors), min_size=1, max_size=3, unique=True))
    for _ in range(data.draw(st.integers(2, 8))):
        access = data.draw(places(few).filter(is_apart))
        (subject.store if data.draw(st.booleans()) else subject.store_numbers)(data, access)
        for tensor in few:
            subject.check(Access.whole(tensor))
        subject.check(data.draw(places(few)))


@given(st.data())
def test_symbols_in_blocks_are_what_was_stored(data: Any) -> None:
    steps(data, Symbolic(SymbolMemory(), IN_HBM), IN_HBM)


@given(st.data())
def test_symbols_in_shared_bytes_are_what_was_stored(data: Any) -> None:
    steps(data, Symbolic(PlacedSymbols(TARGET, {}), ON_CHIP), ON_CHIP)


def test_another_core_shares_tensors_in_hbm_and_no_tile() -> None:
    tile, tensor = ON_CHIP[0], IN_HBM[0]
    one = PlacedSymbols(TARGET, {})
    other = one.other_core(TARGET, {})
    for each in (tile, tensor):
        one.store(Access.whole(each), Symbols(np.ones(each.shape, np.uint64), None))
    assert one.is_symbolic(Access.whole(tile))
    assert not other.is_symbolic(Access.whole(tile))
    assert other.load(Access.whole(tensor), Reals(FIELDS[0], 1)).residues is not None


# Balls and errors: one shadow for each element of the tensor's own dtype.


def own_elements(tensor: Tensor, access: Access) -> list[list[int]]:
    """For each element of ``access`` the numbers of the elements of ``tensor`` that have a byte of it."""
    size = tensor.dtype.itemsize
    owner = {byte: n for n, element in enumerate(elements_of(Access.whole(tensor))) for byte in element}
    assert len(owner) == tensor.elements * size
    return [sorted({owner[byte] for byte in element}) for element in elements_of(access)]


class Enclosed:
    """A memory of balls and its oracle: centre and radius of each element of each tensor."""

    def __init__(self, tensors: list[Tensor]) -> None:
        self.memory = Balls()
        self.balls = {tensor: [(0.0, np.inf)] * tensor.elements for tensor in tensors}

    def write(self, access: Access, numbers: Array, radius: float, shift: float = 0.0) -> None:
        """Store ``numbers``, which would be larger by ``shift`` without rounding."""
        tensor, balls = access.tensor, self.balls[access.tensor]
        self.memory.window(access)[...] = numbers
        self.memory.write(access, Ball(numbers.astype(np.float64) + shift, np.full(access.shape, radius)))
        flat = numbers.reshape(-1).astype(np.float64) + shift
        for number, owners in zip(flat, own_elements(tensor, access), strict=True):
            for owner in owners:
                if access.dtype is tensor.dtype:
                    balls[owner] = float(number), radius
                elif access.dtype.itemsize == tensor.dtype.itemsize and radius == shift == 0:
                    balls[owner] = self.held(tensor, owner), 0.0
                else:
                    balls[owner] = 0.0, np.inf

    def held(self, tensor: Tensor, owner: int) -> float:
        return float(self.memory.array(tensor).reshape(-1)[owner])

    def store(self, data: Any, access: Access) -> None:
        self.write(access, small_numbers(data, access), *data.draw(st.sampled_from([(0.5,), (0.0, 0.25)])))

    def store_numbers(self, data: Any, access: Access) -> None:
        self.write(access, small_numbers(data, access), 0.0)

    def check(self, access: Access) -> None:
        tensor, own = access.tensor, own_elements(access.tensor, access)
        exact = [all(self.is_exact(tensor, owner) for owner in owners) for owners in own]
        found = self.memory.read(access)
        if access.dtype is tensor.dtype:
            expected = [self.balls[tensor][owner] for [owner] in own]
            assert found.radius.reshape(-1).tolist() == [radius for _, radius in expected]
            known = np.isfinite(found.radius).reshape(-1)
            centres = np.array([centre for centre, _ in expected])
            assert np.array_equal(found.centre.reshape(-1)[known], centres[known])
        else:
            if access.dtype.itemsize != tensor.dtype.itemsize:
                exact = [all(exact)] * len(exact)
            numbers = self.memory.window(access).astype(np.float64)
            is_number = ~np.isnan(numbers.reshape(-1))
            assert ((found.radius.reshape(-1) == 0) == (exact & is_number)).all()
            assert np.array_equal(found.centre[found.radius == 0], numbers[found.radius == 0])
        assert self.memory.is_exact(access) == all(exact)

    def is_exact(self, tensor: Tensor, owner: int) -> bool:
        centre, radius = self.balls[tensor][owner]
        return radius == 0 and centre == self.held(tensor, owner)


@given(st.data())
def test_balls_are_what_was_stored(data: Any) -> None:
    steps(data, Enclosed(IN_HBM), IN_HBM)


class Erring:
    """A memory of errors and its oracle: of each element what it would be, and its errors."""

    def __init__(self, tensors: list[Tensor]) -> None:
        self.memory = ErrorMemory()
        self.exact = {tensor: np.zeros(tensor.elements) for tensor in tensors}
        self.errors: dict[Tensor, list[dict[Source, float]]] = {
            tensor: [{} for _ in range(tensor.elements)] for tensor in tensors
        }
        for tensor in tensors:
            self.memory.array(tensor)[...] = 0

    def store(self, data: Any, access: Access) -> None:
        source = Source(data.draw(st.integers(0, 2)), Kind.cast)
        self.write(access, small_numbers(data, access), {source: 0.25})

    def store_numbers(self, data: Any, access: Access) -> None:
        self.write(access, small_numbers(data, access), {})

    def write(self, access: Access, numbers: Array, errors: dict[Source, float]) -> None:
        self.memory.window(access)[...] = numbers
        exact = numbers.astype(np.float64) - sum(errors.values()) if errors else None
        full = {source: np.full(access.shape, error) for source, error in errors.items()}
        self.memory.store(access, exact, full, frozenset())
        tensor, held = access.tensor, self.memory.array(access.tensor).reshape(-1)
        for owner in {owner for owners in own_elements(tensor, access) for owner in owners}:
            follows = access.dtype is tensor.dtype
            self.errors[tensor][owner] = dict(errors) if follows else {}
            self.exact[tensor][owner] = float(held[owner]) - (sum(errors.values()) if follows else 0.0)

    def check(self, access: Access) -> None:
        tensor = access.tensor
        found = self.memory.load(access, access.shape[0])
        if access.dtype is not tensor.dtype:
            assert found is None
            return
        owners = [owner for [owner] in own_elements(tensor, access)]
        if found is None:
            assert not any(self.errors[tensor][owner] for owner in owners)
            return
        exact, errors, _ = found
        assert np.array_equal(exact.reshape(-1), self.exact[tensor][owners], equal_nan=True)
        for source in {source for owner in owners for source in self.errors[tensor][owner]} | errors.keys():
            expected = [self.errors[tensor][owner].get(source, 0.0) for owner in owners]
            assert errors[source].reshape(-1).tolist() == expected


@given(st.data())
def test_errors_are_what_was_stored(data: Any) -> None:
    steps(data, Erring(IN_HBM), IN_HBM)
