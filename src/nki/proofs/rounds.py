"""Rounds of a proof: both sides are evaluated in random fields, in one mode after the other."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from nki.base.proof_errors import DifferentSignaturesError
from nki.ir.types import TensorSpec
from nki.proofs.field import FIELDS, UnluckyError
from nki.proofs.reals import Reals
from nki.proofs.subjects import Array, Subject
from nki.proofs.symbols import Symbols, UndecidedError
from nki.proofs.verdict import Place

Flags = NDArray[np.bool_]

MOST_ROUNDS: Final = 64
_MOST_OF_BITS: Final = 400
"""Rounds with drawn signs: enough for four numbers with signs in one element."""
_LEAST_OF_ROOTS: Final = 8
"""Rounds in which an element with roots is seen, at least: a root of a square has the wrong sign in half of them."""
_UNSEEN: Final = 16
"""For one round in which an element with roots is seen there are so many in which it is not, at most."""
_REDRAWN: Final = 20
"""Unlucky rounds in a row, after which the proof gives up."""


@dataclass(frozen=True)
class Mode:
    """The knowledge that rounds use, beside the identities that always hold: see :class:`Reals`.

    ``ties``: numbers that are compared may be equal. ``splits``: exp(x + y) = exp(x) exp(y) for all x and y. ``bits``:
    signs are drawn. ``roots``: roots of what is no square are no roots, and elements with them are not compared.
    """

    ties: bool = True
    splits: bool = False
    bits: bool = False
    roots: bool = False


class Rounds:
    """Rounds for two ``subjects``; ``allowed``: the ranges of integer inputs; ``deadline``: of all rounds."""

    def __init__(
        self,
        subjects: tuple[Subject, Subject],
        allowed: Sequence[tuple[int, int] | None],
        entropy: np.random.SeedSequence,
        goal: float,
        seconds: float,
        deadline: float,
    ) -> None:
        self.subjects, self.allowed, self.goal, self.seconds = subjects, allowed, goal, seconds
        self.deadline = deadline
        self.keys = (int(word) for word in _words(entropy))
        self.mode, self.bound, self.count = Mode(), 1.0, 0
        self.known: list[Array | None] = [None for _ in subjects[0].inputs]
        self.assumptions: set[str] = set()
        self.constants: dict[float, str] = {}
        self.unknown: set[str] = set()
        self.thresholds: set[float] = set()
        self._has_split = self._has_roots = False
        self._squares = self._nothing_seen()
        """Of each side, for each root, the elements that were squares in all rounds."""

    def run(self) -> Place | None:
        """None if both sides are equal; else the first element that differs in the first mode.

        Raises :class:`UndecidedError`.
        """
        first = self._in_mode(Mode())
        if first is None:
            return None
        for mode in self._other_modes():
            try:
                if self._in_mode(mode) is None:
                    return None
            except UndecidedError:
                continue
        return first

    def _other_modes(self) -> Iterator[Mode]:
        splits = (False, True) if self._has_split else (False,)
        ties = (True, False) if "> 0" in self.unknown else (True,)
        modes = [Mode(ties=tie, splits=split) for tie in ties for split in splits]
        yield from modes[1:]
        if self._has_roots:
            yield from (replace(mode, roots=True) for mode in modes)
        if len(ties) == 2:
            yield from (replace(mode, bits=True) for mode in modes if not mode.ties)

    def _in_mode(self, mode: Mode) -> Place | None:
        """Rounds until the goal is reached; the first element that differs, if one does."""
        self.mode, self.bound, self.count, self._squares = mode, 1.0, 0, self._nothing_seen()
        deadline = time.monotonic() + self.seconds
        if mode.roots:
            return self._of_exact_roots(deadline)
        most = _MOST_OF_BITS if mode.bits else MOST_ROUNDS
        while self.bound > self.goal or (self._is_a_square_left() and self.count < MOST_ROUNDS):
            results, bound = self._lucky(None)
            if (place := _first_place(*results)) is not None:
                return place
            self.bound *= bound
            self.count += 1
            if bound**most > self.goal:  # as of numbers of too high a degree: more rounds would not help
                raise UndecidedError(f"a round misses a difference with a probability of up to {bound:.1g}")
            if mode.bits and time.monotonic() > deadline:
                raise UndecidedError("it would take too many rounds")
        self._check_squares()
        return None

    def _of_exact_roots(self, deadline: float) -> Place | None:
        """Rounds in which only elements count that depend on no root of what is no square: these are the same when
        such roots are other numbers.
        """
        seen: list[NDArray[np.int64]] | None = None
        wanted = _LEAST_OF_ROOTS
        while seen is None or min(int(each.min(initial=wanted)) for each in seen) < wanted or self._is_a_square_left():
            if self.count >= MOST_ROUNDS or time.monotonic() > deadline:
                raise UndecidedError("too many roots meet in one element")
            key = next(self.keys)
            try:
                results, bound = self._round(key, 1)
                again, _ = self._round(key, 2)
            except UnluckyError:
                continue
            finally:
                self.count += 1
            stable = [_equal(a, c) & _equal(b, d) for a, b, c, d in zip(*results, *again, strict=True)]
            for number, (one, other, counts) in enumerate(zip(*results, stable, strict=True)):
                differs = counts & ~_equal(one, other)
                if differs.any():
                    return Place(number, tuple(int(place) for place in np.argwhere(differs)[0]))
            seen = [a + b for a, b in zip(seen, stable, strict=True)] if seen else [s.astype(np.int64) for s in stable]
            bound *= _UNSEEN
            if bound >= 1:
                raise UndecidedError("a round may miss a difference")
            wanted = max(wanted, math.ceil(math.log(self.goal) / math.log(bound)))
            self.bound = bound**wanted
        self._check_squares()
        return None

    # -- one round

    def _lucky(self, root_key: int | None) -> tuple[list[list[Symbols]], float]:
        for draws in range(1, _REDRAWN + 1):
            try:
                results, bound = self._round(next(self.keys), root_key)
            except UnluckyError:
                continue
            return results, min(1.0, draws * bound)
        raise UndecidedError("something is divided by 0 for all inputs")

    def _round(self, key: int, root_key: int | None) -> tuple[list[list[Symbols]], float]:
        """The outputs of both sides in one random field; the probability that a difference is not seen."""
        field = FIELDS[self.count % len(FIELDS)]
        results: list[list[Symbols]] = []
        everything: list[Reals] = []
        mode = self.mode
        for side, subject in enumerate(self.subjects):
            reals = Reals(
                field, key, splits=mode.splits, root_key=root_key, ties=mode.ties, bits=mode.bits, side=side,
                deadline=self.deadline,
            )  # fmt: skip
            inputs = [self._input(reals, number, spec) for number, spec in enumerate(subject.inputs)]
            results.append(subject.evaluate(inputs, reals))
            self._note(reals, side)
            everything.append(reals)
        check_same("output", [each.shape for each in results[0]], [each.shape for each in results[1]], self.subjects)
        bounds = [_error(one, other, everything) for one, other in zip(*results, strict=True)]
        return results, min(max(bounds, default=0.0), 1.0)

    def _note(self, reals: Reals, side: int) -> None:
        self.assumptions |= reals.assumptions
        self.constants |= {value: f"{value:.7g} as {closed}" for value, closed in reals.readings.items()}
        self.unknown |= reals.unknown.keys()
        self.thresholds |= reals.thresholds
        self._has_split |= reals.has_split
        self._has_roots |= bool(reals.are_squares)
        before = self._squares[side] or reals.are_squares
        self._squares[side] = [one & other for one, other in zip(before, reals.are_squares, strict=True)]

    def _input(self, reals: Reals, number: int, spec: TensorSpec) -> Symbols | Array:
        """Symbols for an input, or the numbers that were drawn for it."""
        known, allowed, name = self.known[number], self.allowed[number], f"input {number}"
        if known is not None:
            return known
        return (
            reals.variables(name, spec.shape, False) if allowed is None else reals.integers(name, spec.shape, *allowed)
        )

    # -- roots of squares

    def _nothing_seen(self) -> list[list[Flags] | None]:
        return [None, None]

    def _is_a_square_left(self) -> bool:
        return any(each.any() for side in self._squares for each in side or ())

    def _check_squares(self) -> None:
        if self._is_a_square_left():
            raise UndecidedError("a root is taken of a square")


def check_same(
    word: str, ours: list[tuple[int, ...]], theirs: list[tuple[int, ...]], subjects: tuple[Subject, Subject]
) -> None:
    """Raise :class:`DifferentSignaturesError` for other numbers or shapes of inputs or outputs."""
    old, new = (subject.name for subject in subjects)
    fix = f"compare two that have the same {word}s"
    if len(ours) != len(theirs):
        raise DifferentSignaturesError(f"{old} has {len(ours)} {word}s, and {new} has {len(theirs)}", fix=fix)
    for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        if one != other:
            shapes = f"the shape {one}, and of {new} {other}"
            raise DifferentSignaturesError(f"{word} {number} of {old} has {shapes}", fix=fix)


def _words(entropy: np.random.SeedSequence) -> NDArray[Any]:
    return entropy.generate_state(4 * MOST_ROUNDS * _REDRAWN, np.uint64)


def _first_place(old: list[Symbols], new: list[Symbols]) -> Place | None:
    """The first element that is not the same number."""
    for number, (one, other) in enumerate(zip(old, new, strict=True)):
        differs = ~_equal(one, other)
        if differs.any():
            return Place(number, tuple(int(place) for place in np.argwhere(differs)[0]))
    return None


def _equal(one: Symbols, other: Symbols) -> Flags:
    """True of elements that are the same number in the parts that both have. Raises :class:`UndecidedError`."""
    pairs = [(one.residues, other.residues), (one.exponents, other.exponents)]
    both = [(a, b) for a, b in pairs if a is not None and b is not None]
    if not both:
        raise UndecidedError("one side ends with exp, and the other one with log: they have no part in common")
    same = one.signs == other.signs
    for a, b in both:
        same &= a == b
    if one.kept is not None or other.kept is not None:
        kept = [np.uint64(1) if each.kept is None else each.kept for each in (one, other)]
        same &= kept[0] == kept[1]
    return same


def _error(old: Symbols, new: Symbols, sides: Sequence[Reals]) -> float:
    """The probability, at most, that an element that is another function has the same value (``docs/proofs.md``)."""
    field, size = sides[0].field, old.size.joined(new.size)
    degree = max(size.degree, 1)
    arguments, exponents = (
        max(sides[0].arguments.joined(sides[1].arguments).degree, 1),
        max(sides[0].exponents.joined(sides[1].exponents).degree, 1),
    )
    collision = max(arguments / field.p, exponents**2 / field.n)
    parts = 1.0
    if old.residues is not None and new.residues is not None:
        parts *= min(1.0, degree / field.p)
    if old.exponents is not None and new.exponents is not None:
        parts *= min(1.0, degree**2 / field.n)
    unknown = sum(min(each.size.unknown, side.created) for each, side in zip((old, new), sides, strict=True))
    missed = parts + unknown * collision
    if not sides[0].bits:
        return missed
    drawn = 0.5 ** (old.size.truths + new.size.truths)
    return 1 - drawn * max(0.0, 1 - missed)


__all__ = ["Mode", "Rounds", "check_same"]
