"""``nki.prove``: are two kernels the same function over the real numbers, for all inputs of these shapes?"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from nki.base.errors import NkiError
from nki.base.proof_errors import DifferentSignaturesError
from nki.compilation.launch_errors import strip_frames
from nki.proofs.field import FIELDS, UnluckyError
from nki.proofs.reals import Reals
from nki.proofs.sides import Array, Input, KernelSide, kernel_side
from nki.proofs.symbols import Symbols, UndecidedError
from nki.target.model import Target

GOAL: Final = 1e-9
"""Rounds are added until the probability of a wrong "equal" is at most this."""
MOST_ROUNDS: Final = 12
_REDRAWN: Final = 20
"""Unlucky rounds in a row, after which the proof gives up."""
_DRAWS: Final = 3
"""Draws of integer inputs that decide what is computed."""


@dataclass(frozen=True)
class Place:
    """An element of an output."""

    output: int
    index: tuple[int, ...]

    def __str__(self) -> str:
        return f"output {self.output}[{', '.join(map(str, self.index))}]"


@dataclass(frozen=True)
class Verdict:
    """What is known of two kernels.

    ``bound``: the probability, at most, that kernels that are different are called equal; 1 unless they are.
    ``reason``: what stands in the way of a decision, or what was seen. ``place``: the first element that differs over
    the fields. ``assumptions``: what holds for the inputs that the proof is about. ``constants``: numbers of the
    kernels that are read as others that round to them.
    """

    verdict: Literal["equal", "different", "undecided"]
    old: str
    new: str
    bound: float
    rounds: int
    reason: str
    witness: Any = None
    place: Place | None = None
    assumptions: tuple[str, ...] = ()
    constants: tuple[str, ...] = ()
    seconds: float = 0.0

    def __bool__(self) -> bool:
        raise TypeError("a verdict has three values: compare `.verdict` with 'equal', 'different' or 'undecided'")


def prove(
    old: Callable[..., Any],
    new: Callable[..., Any],
    *,
    target: Target | None = None,
    seed: int | None = None,
    goal: float = GOAL,
) -> Callable[..., Verdict]:
    """``nki.prove(old, new)(*specs)``: see the module. ``specs``: arrays, or shapes with dtypes, and constants.

    ``seed``: of the random numbers, None for fresh ones. ``goal``: see :data:`GOAL`.
    """

    def proved(*args: Any, **kwargs: Any) -> Verdict:
        try:
            started = time.perf_counter()
            sides = [kernel_side(each, args, kwargs, target) for each in (old, new)]
            _check_signatures(sides[0], sides[1])
            entropy = np.random.SeedSequence(seed)
            return _Proof(sides[0], sides[1], entropy, goal, started).verdict()
        except NkiError as error:
            __tracebackhide__ = True
            raise strip_frames(error)  # noqa: B904  # its cause is settled

    return proved


def _check_signatures(old: KernelSide, new: KernelSide) -> None:
    for word, ours, theirs in (
        ("input", [each.shape for each in old.inputs], [each.shape for each in new.inputs]),
        ("output", old.outputs, new.outputs),
    ):
        if len(ours) != len(theirs):
            raise DifferentSignaturesError(
                f"{old.name} has {len(ours)} {word}s, and {new.name} has {len(theirs)}",
                fix=f"compare kernels with the same {word}s",
            )
        for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            if one != other:
                raise DifferentSignaturesError(
                    f"{word} {number} of {old.name} has the shape {one}, and of {new.name} {other}",
                    fix=f"compare kernels with the same {word}s",
                )


class _Proof:
    """Rounds of one proof."""

    def __init__(
        self, old: KernelSide, new: KernelSide, entropy: np.random.SeedSequence, goal: float, started: float
    ) -> None:
        self.sides = (old, new)
        self.goal = goal
        self.started = started
        self.keys = [int(word) for word in entropy.generate_state(MOST_ROUNDS * _REDRAWN, np.uint64)]
        self.bound, self.rounds, self.ties = 1.0, 0, True
        self.assumptions: set[str] = set()
        self.constants: dict[float, str] = {}
        self.unknown: set[str] = set()

    def verdict(self) -> Verdict:
        try:
            place = self._rounds()
            if place is not None and "> 0" in self.unknown:
                self.ties, self.bound, self.rounds = False, 1.0, 0
                self.assumptions.add("no two real numbers that are compared are equal")
                place = self._rounds()
        except UndecidedError as error:
            return self._undecided(_sentence(error))
        if place is None:
            return self._found("equal", f"equal in {self.rounds} random fields")
        differ = "they differ over the reals as far as the identities of docs/proofs.md go"
        such = f", and these functions are unknown to it: {', '.join(sorted(self.unknown))}" if self.unknown else ""
        return self._undecided(f"{differ}{such}", place)

    def _rounds(self) -> Place | None:
        """Rounds until the goal is reached; the first element that differs, if one does."""
        keys = iter(self.keys)
        while self.bound > self.goal and self.rounds < MOST_ROUNDS:
            for _ in range(_REDRAWN):
                try:
                    place, bound = self._round(next(keys))
                    break
                except UnluckyError:
                    continue
            else:
                raise UndecidedError("something is divided by 0 for all inputs")
            if place is not None:
                return place
            self.bound *= bound
            self.rounds += 1
        if self.bound > self.goal:
            raise UndecidedError(f"after {self.rounds} rounds the bound is still {self.bound:.1e}")
        return None

    def _round(self, key: int) -> tuple[Place | None, float]:
        field = FIELDS[self.rounds % len(FIELDS)]
        results: list[list[Symbols]] = []
        bound = 0.0
        for side in self.sides:
            reals = Reals(field, key, ties=self.ties)
            inputs = [_variables(reals, number, each) for number, each in enumerate(side.inputs)]
            results.append(side.evaluate(inputs, reals))
            self.assumptions |= reals.assumptions
            self.constants |= {value: f"{value:.7g} as {closed}" for value, closed in reals.readings.items()}
            self.unknown |= reals.unknown.keys()
            bound = max([bound, *(_error(each, reals) for each in results[-1])])
        for number, (one, other) in enumerate(zip(*results, strict=True)):
            if (index := _first_difference(one, other)) is not None:
                return Place(number, index), bound
        return None, min(bound, 1.0)

    def _found(
        self, verdict: Literal["equal", "different", "undecided"], reason: str, place: Place | None = None
    ) -> Verdict:
        bound = self.bound if verdict == "equal" else 1.0
        seconds = time.perf_counter() - self.started
        names = [side.name for side in self.sides]
        constants = tuple(self.constants[value] for value in sorted(self.constants))
        return Verdict(
            verdict, names[0], names[1], bound, self.rounds, reason, None, place,
            tuple(sorted(self.assumptions)), constants, seconds,
        )  # fmt: skip

    def _undecided(self, reason: str, place: Place | None = None) -> Verdict:
        return self._found("undecided", reason, place)


def _variables(reals: Reals, number: int, each: Input) -> Symbols:
    return reals.variables(f"input {number}", each.shape, each.dtype.is_integer)


def _first_difference(one: Symbols, other: Symbols) -> tuple[int, ...] | None:
    """The index of the first element that is not the same number. Raises :class:`UndecidedError`."""
    pairs = [(one.residues, other.residues), (one.exponents, other.exponents)]
    both = [(a, b) for a, b in pairs if a is not None and b is not None]
    if not both:
        raise UndecidedError("one side ends with exp, and the other one with log: they have no part in common")
    differ = np.zeros(one.shape, np.bool_)
    for a, b in both:
        differ |= a != b
    signs = [np.zeros(each.shape, np.int8) if each.infinities is None else each.infinities for each in (one, other)]
    if any((each < -1).any() for each in signs):
        raise UndecidedError("a constant that is read as minus infinity is in a result")
    differ |= signs[0] != signs[1]
    if one.kept is not None or other.kept is not None:
        kept = [np.uint64(1) if each.kept is None else each.kept for each in (one, other)]
        differ |= kept[0] != kept[1]
    return tuple(int(place) for place in np.argwhere(differ)[0]) if differ.any() else None


def _error(value: Symbols, reals: Reals) -> float:
    """The probability, at most, that an element that is another function has the same value (``docs/proofs.md``)."""
    field, size = reals.field, value.size
    degree = max(size.numerator + size.denominator, 1)
    arguments = max(reals.argument_degree, 1)
    collision = max(arguments / field.p, arguments**2 / field.n)
    parts = 1.0
    if value.residues is not None:
        parts *= min(1.0, 2 * degree / field.p)
    if value.exponents is not None:
        parts *= min(1.0, (2 * degree) ** 2 / field.n)
    return parts + 2 * size.unknown * collision


def _sentence(error: UndecidedError) -> str:
    inst = getattr(error, "inst", None)
    where = f" ({inst.mnemonic}, line {inst.span.line})" if inst is not None and getattr(inst, "span", None) else ""
    return f"{error}{where}"


__all__ = ["GOAL", "Place", "Verdict", "prove"]
