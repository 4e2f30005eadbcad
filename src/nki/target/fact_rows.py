"""Rows of the table of facts: one number about the hardware, of trn1, trn2 and trn3, each with its source.

A row names the unit, then a cell for each generation; one cell alone holds for all of them. ``docs``, ``measured`` and
``guess`` make a cell with a value of its own. ``SAME`` is the cell before it: its source covers both generations.
``as_trn2`` and its like are guesses: the value of that other generation, for want of a better one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, NoReturn, Self, TypeVar, cast, overload

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB
GENERATIONS: Final = ("trn1", "trn2", "trn3")
"""The columns."""

Kind = Literal["docs", "measured", "guess"]


@dataclass(frozen=True, slots=True)
class Fact(Generic[T_co]):
    """One number about the hardware of one generation.

    ``kind`` is ``"docs"`` (a public document states it), ``"measured"`` (a published measurement or
    profiler trace) or ``"guess"`` (not published; ``source`` says what the guess rests on). Where sources
    disagree, ``source`` names the one that lost, too. ``range``: the values that a guess may have, or between which
    measurements scatter; the one that makes kernels faster first.
    """

    value: T_co
    unit: str
    source: str
    kind: Kind = "docs"
    range: tuple[T_co, T_co] | None = None


@dataclass(frozen=True, slots=True)
class Cell(Generic[T_co]):
    """A fact; its row names the unit."""

    value: T_co
    source: str
    kind: Kind
    range: tuple[T_co, T_co] | None


@dataclass(frozen=True, slots=True)
class Same:
    """The cell of the generation before."""


SAME: Final = Same()


@dataclass(frozen=True, slots=True)
class As(Generic[T_co]):
    """The value of another generation, a guess; ``because``: no value of this one is known."""

    generation: str
    because: str
    range: tuple[T_co, T_co] | None


def docs(value: T, source: str, bounds: tuple[T, T] | None = None) -> Cell[T]:
    """A public document states the value."""
    return Cell(value, source, "docs", bounds)


def measured(value: T, source: str, bounds: tuple[T, T] | None = None) -> Cell[T]:
    """A measurement or a trace of a profiler is published."""
    return Cell(value, source, "measured", bounds)


def guess(value: T, source: str, bounds: tuple[T, T] | None = None) -> Cell[T]:
    """The value is not published."""
    return Cell(value, source, "guess", bounds)


def as_trn1(bounds: tuple[T, T] | None = None, *, because: str = "nothing published") -> As[T]:
    """The value of trn1."""
    return As("trn1", because, bounds)


def as_trn2(bounds: tuple[T, T] | None = None, *, because: str = "nothing published") -> As[T]:
    """The value of trn2."""
    return As("trn2", because, bounds)


def as_trn3(bounds: tuple[T, T] | None = None, *, because: str = "nothing published") -> As[T]:
    """The value of trn3."""
    return As("trn3", because, bounds)


class Row(Generic[T]):
    """A fact of every generation, by the name of the field that it defines; read at a target as the plain value."""

    def __init__(self, facts: Mapping[str, Fact[T]]) -> None:
        self.facts = facts

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self.name = name

    @overload
    def __get__(self, target: None, owner: type[Any]) -> Self: ...
    @overload
    def __get__(self, target: Any, owner: type[Any]) -> T: ...
    def __get__(self, target: Any, owner: type[Any]) -> Self | T:
        if target is None:
            return self
        return cast("dict[str, Fact[T]]", vars(target))[self.name].value

    def __set__(self, target: Any, value: object) -> NoReturn:
        raise AttributeError(f"{self.name} of {target} cannot change")


def row(unit: str, first: Cell[T] | As[T], *others: Cell[T] | As[T] | Same) -> Row[T]:
    """The row of the cells of trn1, trn2 and trn3, or of one for all."""
    columns: dict[str, Cell[T] | As[T]] = {}
    cell = first
    for generation, other in zip(GENERATIONS, (first, *(others or (SAME, SAME))), strict=True):
        cell = columns[generation] = cell if isinstance(other, Same) else other
    facts: dict[str, Fact[T]] = {}
    for generation, cell in columns.items():
        if isinstance(cell, Cell):
            facts[generation] = Fact(cell.value, unit, cell.source, cell.kind, cell.range)
            continue
        other = columns[cell.generation]
        while isinstance(other, As):
            other = columns[other.generation]
        source = f"the value of {cell.generation}; {cell.because}"
        facts[generation] = Fact(other.value, unit, source, "guess", cell.range)
    return Row(facts)


def rows(part: type[Any]) -> dict[str, Row[Any]]:
    """The rows of a part of the table, by name."""
    return {name: cast("Row[Any]", value) for name, value in vars(part).items() if isinstance(value, Row)}
