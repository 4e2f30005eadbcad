"""Register values: the numbers in registers that depend on nothing but constants and the iterations of loops.

Such a number is a constant plus a multiple of each loop's register; where it is another function of these, only that is
known. The values of all other registers depend on data.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, cast

from nki.analysis.access_pattern import AccessPattern
from nki.analysis.footprint import Footprint
from nki.base.element_types import DType
from nki.ir.algebra import Algebra
from nki.ir.indirection.runtime_index import largest_index
from nki.ir.instruction import Inst
from nki.ir.loop import For, Loop, instructions, loops
from nki.ir.types import Access, Buffer, IndexKind, Tensor


@dataclass(frozen=True, slots=True)
class RegisterValue:
    """``constant`` plus the register of each loop times its factor. ``terms`` None: another function of loops."""

    constant: int
    terms: tuple[tuple[Tensor, int], ...] | None = ()


OTHER_FUNCTION: Final = RegisterValue(0, None)


@dataclass(frozen=True, slots=True)
class MovingPlace:
    """The place of an access that moves with loops."""

    now: tuple[Any, ...]
    """A key: places with equal keys are the same bytes in the same iteration."""
    everywhere: AccessPattern
    """The bytes of all iterations together."""
    loops: frozenset[Tensor]
    """The registers of the loops."""


class RegisterValues(Footprint):
    """The algebra over :class:`RegisterValue`; None for all that depends on data."""

    def __init__(self) -> None:
        self.values: dict[Tensor, RegisterValue] = {}
        self._ranges: dict[Tensor, range] = {}
        """The values that the registers of loops take."""

    def execute(self, inst: Inst) -> None:
        """Compute what ``inst`` writes to registers."""
        if inst.effects.scalar_registers and any(each.buffer is Buffer.register for each in inst.writes()):
            inst.semantics(cast("Algebra[Any]", self))

    def set_to(self, register: Access, number: int) -> None:
        """``register`` holds ``number``."""
        self.values[register.tensor] = RegisterValue(number)

    def enter(self, loop: Loop) -> None:
        """The body of ``loop`` begins, for all of its iterations at once."""
        carried = [register for register in _written(loop) if register in self.values]
        for register in carried:
            self.values[register] = OTHER_FUNCTION
        if isinstance(loop, For):
            register, rounds = loop.register.tensor, self.rounds(loop)
            if rounds is not None:
                self._ranges[register] = rounds
                self.values[register] = RegisterValue(0, ((register, 1),))
            elif self.is_known(loop):
                self.values[register] = OTHER_FUNCTION

    def forget(self, loop: Loop) -> None:
        """Forget the registers that ``loop`` writes."""
        for register in _written(loop):
            self.values.pop(register, None)

    def rounds(self, loop: Loop) -> range | None:
        """The iteration values of ``loop``; None if they are not constant."""
        if not isinstance(loop, For):
            return None
        start, stop = self._bound(loop.start), self._bound(loop.stop)
        if start is None or stop is None or start.terms != () or stop.terms != ():
            return None
        return range(start.constant, stop.constant, loop.step)

    def is_known(self, loop: Loop) -> bool:
        """True if the iterations of ``loop`` depend on no data."""
        return isinstance(loop, For) and None not in (self._bound(loop.start), self._bound(loop.stop))

    def _bound(self, bound: int | Access) -> RegisterValue | None:
        return RegisterValue(bound) if isinstance(bound, int) else self.values.get(bound.tensor)

    def index(self, access: Access) -> RegisterValue | None:
        """The run-time index of ``access`` in elements; None if it depends on data."""
        dynamic = access.dynamic
        if dynamic is None or dynamic.kind is not IndexKind.whole:
            return None
        return self.values.get(dynamic.source.tensor)

    def resolved(self, inst: Inst) -> Inst:
        """``inst`` with each operand at its place if its index is constant, and inside its tensor."""
        places: dict[int, Access] = {}
        for number, access in enumerate(inst.accesses()):
            index = self.index(access)
            if index is not None and index.terms == () and 0 <= index.constant <= largest_index(access):
                assert access.dynamic is not None
                offset = access.offset + index.constant * access.dynamic.step
                places[number] = Access(access.tensor, offset, access.shape, access.strides, access.dtype)
        return inst.with_operands(places) if places else inst

    def place(self, access: Access) -> MovingPlace | None:
        """The place of an access that moves with loops; None if it is another function of them or leads outside."""
        index = self.index(access)
        if index is None or index.terms is None:
            return None
        assert access.dynamic is not None
        step, size = access.dynamic.step, access.dtype.itemsize
        first = last = index.constant
        counts: list[int] = []
        steps: list[int] = []
        for register, factor in index.terms:
            rounds = self._ranges[register]
            ends = sorted((rounds[0] * factor, rounds[-1] * factor)) if rounds else (0, 0)
            first, last = first + ends[0], last + ends[1]
            counts.append(len(rounds))
            steps.append(abs(factor * rounds.step) * step)
        if first < 0 or last > largest_index(access) or 0 in counts:
            return None
        now = (access.offset + index.constant * step, access.shape, access.strides, size, step, index.terms)
        shape, strides = (*counts, *access.shape), (*steps, *access.strides)
        everywhere = (access.offset + first * step, shape, strides, size)
        return MovingPlace(now, everywhere, frozenset(register for register, _ in index.terms))

    def load(self, source: Access | float) -> Any:
        return self.values.get(source.tensor) if isinstance(source, Access) else None

    flat = load

    def const(self, value: Any, dtype: DType) -> Any:  # noqa: ARG002  # as the algebra has it
        return RegisterValue(int(value))

    def iota(self, pattern: Any, offset: Any, multiplier: Any, partitions: int) -> Any:  # noqa: ARG002  # one element
        return RegisterValue(offset) if isinstance(offset, int) else None

    def integer(self, op: str, left: Any, right: Any, dtype: DType) -> Any:  # noqa: ARG002  # store wraps
        if left is None or right is None:
            return None
        if left.terms is None or right.terms is None:
            return OTHER_FUNCTION
        if op in ("add", "subtract"):
            return _sum(left, right, 1 if op == "add" else -1)
        if op == "multiply" and not (left.terms and right.terms):
            product, factor = (left, right.constant) if left.terms else (right, left.constant)
            return _sum(RegisterValue(0), product, factor)
        return OTHER_FUNCTION

    def store(self, target: Access, value: Any) -> None:
        if value is None:
            self.values.pop(target.tensor, None)
        elif value.terms == ():
            half = 1 << (8 * target.dtype.itemsize - 1)
            self.values[target.tensor] = RegisterValue((value.constant + half) % (2 * half) - half)
        else:
            self.values[target.tensor] = value


def _sum(left: RegisterValue, right: RegisterValue, factor: int) -> RegisterValue:
    terms = dict(left.terms or ())
    for register, times in right.terms or ():
        terms[register] = terms.get(register, 0) + factor * times
    ordered = sorted((each for each in terms.items() if each[1]), key=lambda each: id(each[0]))
    return RegisterValue(left.constant + factor * right.constant, tuple(ordered))


def _written(loop: Loop) -> Iterable[Tensor]:
    """The tensors that ``loop`` writes, registers among them."""
    for inst in instructions(loop.body):
        yield from (access.tensor for access in inst.writes())
    for each in (loop, *loops(loop.body)):
        if isinstance(each, For):
            yield each.register.tensor
