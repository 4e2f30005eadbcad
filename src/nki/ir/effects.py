"""Effects of an instruction: what passes and executors ask beyond its operands, its semantics and its cost.

Every declaration carries one :class:`Effects`; the defaults describe an instruction that reads its inputs and writes
its outputs. An effect that depends on the arguments is a function of the instruction. No pass, executor or simulator
asks for a mnemonic, a class or an attribute by name instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nki.base.element_types import DType
from nki.ir.declaration import combining
from nki.ir.types import Access

# Plain dataclasses: slots, comparisons and representations would each be compiled at every `import nki`.
EngineState = Callable[[str, DType, int, int, int], Access]
"""The builder's register files: (name, dtype, lanes, words a lane, first lane) to the operand that shows them."""


@dataclass(frozen=True, eq=False, repr=False)
class Barrier:
    """Cores that wait for each other before any of them goes on with ``data``."""

    cores: tuple[int, ...]
    data: Access
    argument: str
    """The argument that names the cores, as errors show it."""

    @property
    def subject(self) -> str:
        """The tensor, as deadlock errors show it."""
        return f"'{self.data.name}'"


@dataclass(frozen=True, eq=False, repr=False)
class Exchange:
    """``src`` goes to core ``to`` while ``dst`` comes from core ``source``, through one pipe."""

    src: Access
    dst: Access
    to: int
    source: int
    pipe: int
    argument: str
    """The argument that names the other core, as errors show it."""

    @property
    def subject(self) -> str:
        """Peer and pipe, as deadlock errors show them."""
        return f"{self.argument}, pipe_id={self.pipe}"


@dataclass(frozen=True, eq=False, repr=False)
class Collective:
    """Ranks that meet: each of ``groups`` for itself; without groups the instruction asks for its rank alone."""

    groups: tuple[tuple[int, ...], ...] = ()
    agreed: tuple[object, ...] = ()
    """The arguments that all ranks of a group must pass alike, beside the shapes and dtypes of the operands."""
    per_core: bool = False
    """The operands are memory of one core, and each core exchanges its own; else one exchange serves all cores."""
    inactive: bool = False
    """A rank that no group names takes no part; else it is an error."""
    places: tuple[tuple[int, ...], ...] = ()
    """Without a meeting, groups that must name this rank: the instruction asks for its place in them."""

    @property
    def subject(self) -> str:
        """The groups, as errors show them."""
        return ", ".join(str(list(group)) for group in self.groups or self.places)

    def group_of(self, rank: int) -> tuple[int, ...]:
        """The group of ``rank``; () if it is in none."""
        return next((group for group in self.groups or self.places if rank in group), ())

    def acts_on(self, core: int) -> bool:
        """True if ``core`` itself reads and writes the operands: each its own memory, the first one what all share."""
        return core == 0 or self.per_core or not self.groups


class Copy(NamedTuple):
    """The elements of ``src`` move to ``dst`` in row-major order, uninterpreted where both dtypes are equal."""

    dst: Access
    src: Access


@dataclass(frozen=True, eq=False, repr=False)
class Predicate:
    """``dst`` is written only where an element of ``operand`` is not 0 (``inverted``: is 0)."""

    dst: Access
    operand: Access
    inverted: bool

    def mask(self, contents: NDArray[Any]) -> NDArray[np.bool_]:
        """The places of ``dst`` that are written, given the contents of ``operand``."""
        elements = contents.reshape(self.dst.shape)
        return (elements == 0) if self.inverted else (elements != 0)


@dataclass(frozen=True, eq=False, repr=False)
class Update:
    """A chain of binary operators from one operand to the result.

    ``steps`` are the operators in order, by name (None: no operator), each with True where the value that comes from
    the operand is the right argument.
    """

    operand: Access
    steps: tuple[tuple[str | None, bool], ...]


@dataclass(frozen=True, eq=False, repr=False)
class Contents:
    """The contents that the reference asks of ``operand``.

    ``wrong`` takes its numbers, (partitions, elements), and says in words where they differ; "": nowhere. Others are an
    error of ``rule``, or with "" a warning, for the instruction does something all the same.
    """

    operand: Access
    wrong: Callable[[NDArray[Any]], str]
    text: str
    fix: str
    rule: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class Accumulation:
    """Addition to what the destination in PSUM holds.

    ``flag`` is the field that says so: True adds, False overwrites, None leaves it to the compiler. ``moves`` is true
    of an instruction that moves data through the array and therefore never adds.
    """

    flag: str
    moves: Callable[[Any], bool] = lambda _: False


@dataclass(frozen=True, eq=False, repr=False)
class ImplicitOperand:
    """Engine state that callers do not pass: ``supply`` gives the operand of field ``name`` when a call is recorded."""

    name: str
    supply: Callable[[Any, EngineState], Access | None]


@dataclass(frozen=True, eq=False, repr=False)
class Effects:
    """All effects of one declaration."""

    barrier: Callable[[Any], Barrier] | None = None
    exchange: Callable[[Any], Exchange] | None = None
    collective: Callable[[Any], Collective] | None = None
    prints: bool = False
    accumulation: Accumulation | None = None
    predicate: Callable[[Any], Predicate] | None = None
    updates: Callable[[Any], tuple[Update, ...]] | None = None
    """The operands from which chains of operators lead to the result: updates in place may commute."""
    contents: Callable[[Any], tuple[Contents, ...]] | None = None
    """The operands that must have certain contents by the reference. Of a form, all instructions have some, or none."""
    copy: Callable[[Any], Copy] | None = None
    transpose: Callable[[Any], Copy] | None = None
    """The elements of ``src`` move to ``dst`` uninterpreted, partitions and elements exchanged."""
    combining: combining.Combining = combining.NONE
    """The work of other instructions that this one, or one like it, could do as well."""
    implicit: ImplicitOperand | None = None
    skips: Callable[[Any], bool] | None = None
    """Set where a run-time index may be allowed to lead out of bounds; true: such rows are skipped."""
    partial: Callable[[Any], bool] | None = None
    """True: some places of the outputs keep what they held."""
    layout: Callable[[Any], bool] | None = None
    """True: the semantics can address the operands as they are laid out. A transform that gives an operand other
    strides, or another memory, asks. None: the semantics take any strides."""
    streamed: tuple[str, ...] = ()
    """The operands that an engine reads element by element as it writes the first output: that may take the bytes of
    one of them."""
    stationary: str = ""
    """The operand that stays in the array of the Tensor engine until another one is loaded."""
    moving: str = ""
    """The operand that streams through the array against the stationary one: a matrix of partitions by elements."""
    scalar_registers: tuple[str, ...] = ()
    """The operands that are scalar registers."""
    row_indexed: bool = False
    """An operand may have a run-time index for each row: the instruction then runs row by row."""
    row_dims: Mapping[str, int] = field(default_factory=dict[str, int])
    """The dimension of an operand that runs over those rows, where it is not the first."""
    element_indexed: tuple[str, ...] = ()
    """The operands that may have elements chosen by run-time offsets (:mod:`nki.ir.indirection.gather_offsets`)."""
    external: bool = field(init=False)
    """The instruction acts on more than tensors: it prints, or meets other cores or ranks."""
    uses_registers: bool = field(init=False)
    """An operand may be in registers."""

    def __post_init__(self) -> None:
        meets = (self.barrier, self.exchange, self.collective)
        external = self.prints or any(effect is not None for effect in meets)
        object.__setattr__(self, "external", external)
        object.__setattr__(self, "uses_registers", self.implicit is not None or bool(self.scalar_registers))


NONE = Effects()
"""The instruction reads its inputs and writes its outputs, nothing else."""
