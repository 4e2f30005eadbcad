"""``nki.prove``: says if two kernels are the same function over the real numbers, for all inputs of their shapes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from nki.base.errors import NkiError
from nki.base.proof_errors import DifferentSignaturesError
from nki.compilation.launch_errors import strip_frames
from nki.ir.types import TensorSpec
from nki.jit import Kernel
from nki.proofs import witness
from nki.proofs.field import FIELDS, UnluckyError
from nki.proofs.reals import Reals
from nki.proofs.subjects import Array, Subject, around, drawn, of_function, of_kernel, ranges
from nki.proofs.symbols import Symbols, UndecidedError
from nki.proofs.traced import is_tensor
from nki.proofs.verdict import Place, Verdict, Word
from nki.proofs.witness import Witness
from nki.target.model import Target

GOAL: Final = 1e-9
"""Rounds are added until the probability of a wrong "equal" is at most this."""
MOST_ROUNDS: Final = 64
_REDRAWN: Final = 20
"""Unlucky rounds in a row, after which the proof gives up."""
_DRAWS: Final = 3
"""Draws of the integer inputs that decide what is computed."""
_NO_TIES: Final = "no two real numbers that are compared are equal"


def prove(
    old: Callable[..., Any],
    new: Callable[..., Any],
    *,
    target: Target | None = None,
    seed: int | None = None,
    goal: float = GOAL,
    seconds: float = 20.0,
) -> Callable[..., Verdict]:
    """``nki.prove(old, new)(*specs)``: says if both are the same function over the real numbers, for all inputs.

    ``old`` and ``new``: kernels; one may be a function of NumPy, PyTorch or JAX. ``specs``: the arguments; tensors
    count by shape and dtype only. ``seed``: of the random numbers, None for fresh ones. ``goal``: the probability of a
    wrong "equal" at which the proof stops. ``seconds``: for the search of an input that shows a difference.

    Raises :class:`DifferentSignaturesError` for other inputs or outputs, and what compilation raises.
    """

    def proved(*args: Any, **kwargs: Any) -> Verdict:
        try:
            started = time.perf_counter()
            tensors = [each for each in (*args, *kwargs.values()) if is_tensor(each)]
            subjects = _subjects(old, new, args, kwargs, target)
            _check(
                "input", [each.shape for each in subjects[0].inputs], [e.shape for e in subjects[1].inputs], subjects
            )
            if subjects[0].outputs is not None and subjects[1].outputs is not None:
                _check("output", subjects[0].outputs, subjects[1].outputs, subjects)
            return _Proof(subjects, tensors, np.random.SeedSequence(seed), goal, started, seconds).verdict()
        except NkiError as error:
            __tracebackhide__ = True
            raise strip_frames(error)  # noqa: B904  # its cause is settled

    return proved


def _subjects(
    old: Callable[..., Any],
    new: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    target: Target | None,
) -> tuple[Subject, Subject]:
    functions = [not isinstance(each, Kernel) for each in (old, new)]
    if not any(functions):
        return of_kernel(old, args, kwargs, target), of_kernel(new, args, kwargs, target)
    if functions[1]:
        kernel = of_kernel(old, args, kwargs, target)
        return kernel, of_function(new, (*args, *kwargs.values()), kernel.inputs)
    kernel = of_kernel(new, args, kwargs, target)
    return of_function(old, (*args, *kwargs.values()), kernel.inputs), kernel


def _check(
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


class _Proof:
    """Rounds of one proof."""

    def __init__(
        self,
        subjects: tuple[Subject, Subject],
        tensors: Sequence[Any],
        entropy: np.random.SeedSequence,
        goal: float,
        started: float,
        seconds: float,
    ) -> None:
        self.subjects, self.goal, self.started, self.seconds = subjects, goal, started, seconds
        self.ranges = ranges(subjects[0].inputs, tensors)
        self.keys = iter([int(word) for word in entropy.generate_state(4 * MOST_ROUNDS * _REDRAWN, np.uint64)])
        self.bound, self.rounds = 1.0, 0
        self.ties = True
        self.known: list[Array | None] = [None for _ in subjects[0].inputs]
        self.assumptions: set[str] = set()
        self.constants: dict[float, str] = {}
        self.unknown: set[str] = set()
        self.thresholds: set[float] = set()

    def verdict(self) -> Verdict:
        try:
            place = self._all_rounds()
        except UndecidedError as error:
            tested = self._tested(error)
            return tested if tested is not None else self._searched(str(error))
        if place is None and self.ties:
            return self._found("equal", f"equal in {self.rounds} random fields")
        if place is None:
            self.assumptions.add(_NO_TIES)
            return self._at_ties()
        such = f", or know nothing of: {', '.join(sorted(self.unknown))}" if self.unknown else ""
        return self._searched(f"the identities of docs/proofs.md do not make them equal{such}", place)

    def _all_rounds(self) -> Place | None:
        """Rounds with ties, and without if comparisons may be the reason of a difference."""
        place = self._rounds()
        if place is None or "> 0" not in self.unknown:
            return place
        self.ties, self.bound, self.rounds = False, 1.0, 0
        return self._rounds()

    def _rounds(self) -> Place | None:
        """Rounds until the goal is reached; the first element that differs, if one does."""
        while self.bound > self.goal:
            place, bound = self._lucky_round()
            if place is not None:
                return place
            self.bound *= bound
            self.rounds += 1
            if (
                bound**MOST_ROUNDS > self.goal
            ):  # as for a kernel with numbers of too high a degree: more rounds would not help
                raise UndecidedError(f"a round misses a difference with a probability of up to {bound:.1g}")
        return None

    def _lucky_round(self) -> tuple[Place | None, float]:
        for draws in range(1, _REDRAWN + 1):
            try:
                place, bound = self._round(next(self.keys))
            except UnluckyError:
                continue
            return place, min(1.0, draws * bound)
        raise UndecidedError("something is divided by 0 for all inputs, or a root is taken of a square")

    def _round(self, key: int) -> tuple[Place | None, float]:
        """The first element that differs in one random field; else the probability that a difference is not seen."""
        field = FIELDS[self.rounds % len(FIELDS)]
        results: list[list[Symbols]] = []
        bound = 0.0
        for subject in self.subjects:
            reals = Reals(field, key, ties=self.ties)
            inputs = [self._input(reals, number, spec) for number, spec in enumerate(subject.inputs)]
            results.append(subject.evaluate(inputs, reals))
            self.assumptions |= reals.assumptions
            self.constants |= {value: f"{value:.7g} as {closed}" for value, closed in reals.readings.items()}
            self.unknown |= reals.unknown.keys()
            self.thresholds |= reals.thresholds
            bound = max([bound, *(_error(each, reals) for each in results[-1])])
        _check("output", [each.shape for each in results[0]], [each.shape for each in results[1]], self.subjects)
        for number, (one, other) in enumerate(zip(*results, strict=True)):
            if (index := _first_difference(one, other)) is not None:
                return Place(number, index), bound
        return None, min(bound, 1.0)

    def _input(self, reals: Reals, number: int, spec: TensorSpec) -> Symbols | Array:
        """Symbols for an input, or the numbers that were drawn for it."""
        known, allowed, name = self.known[number], self.ranges[number], f"input {number}"
        if known is not None:
            return known
        return (
            reals.variables(name, spec.shape, False) if allowed is None else reals.integers(name, spec.shape, *allowed)
        )

    # -- what is not proved

    def _tested(self, error: UndecidedError) -> Verdict | None:
        """The verdict of draws of the integer inputs, if there are any; None if they do not help."""
        specs = self.subjects[0].inputs
        if not any(self.ranges):
            return None
        try:
            for draw in range(_DRAWS):
                self.known = drawn(specs, self.ranges, draw)
                self.bound, self.rounds, self.ties = 1.0, 0, True
                place = self._all_rounds()
                if place is not None:
                    return self._searched(f"{error}; for some of its values they differ", place)
        except (UndecidedError, NkiError):
            return None
        return self._found("undecided", f"{error}; proved equal for {_DRAWS} draws of the integer inputs, not for all")

    def _searched(self, reason: str, place: Place | None = None) -> Verdict:
        """An input that shows a difference, or that none was found."""
        found = self._witness(place)
        if found is None:
            self.assumptions.clear()
            return self._found("undecided", f"{reason}; no input was found that shows a difference", place)
        return self._found("different", "an input shows it", Place(found.output, found.index), found)

    def _witness(self, place: Place | None = None) -> Witness | None:
        sides = [subject.side for subject in self.subjects]
        hint = None if place is None else (place.output, place.index)
        specs = self.subjects[0].inputs
        given = list(around(specs, self.known, self.ranges, sorted(self.thresholds)))
        return witness.find(sides[0], sides[1], specs, hint=hint, given=given, ranges=self.ranges, seconds=self.seconds)

    def _at_ties(self) -> Verdict:
        """Equal but for ties: a search among inputs with many equal numbers says if these make a difference."""
        found = self._witness()
        if found is None:
            return self._found(
                "equal", f"equal in {self.rounds} random fields, and on inputs with ties that were tried"
            )
        return self._found("different", "an input shows it", Place(found.output, found.index), found)

    def _found(self, word: Word, reason: str, place: Place | None = None, shown: Witness | None = None) -> Verdict:
        old, new = (subject.name for subject in self.subjects)
        return Verdict(
            verdict=word,
            old=old,
            new=new,
            bound=self.bound if word == "equal" else 1.0,
            rounds=self.rounds,
            reason=reason,
            witness=shown,
            place=place,
            assumptions=(*sorted(self.assumptions), *self._of_ranges()),
            constants=tuple(self.constants[value] for value in sorted(self.constants)),
            seconds=time.perf_counter() - self.started,
        )

    def _of_ranges(self) -> list[str]:
        """The ranges of integer inputs."""
        names = [spec.name for spec in self.subjects[0].inputs]
        return [
            f"integers of {name!r} are from {each[0]} to {each[1]}"
            for name, each in zip(names, self.ranges, strict=True)
            if each is not None
        ]


def _first_difference(one: Symbols, other: Symbols) -> tuple[int, ...] | None:
    """The index of the first element that is not the same number. Raises :class:`UndecidedError`."""
    pairs = [(one.residues, other.residues), (one.exponents, other.exponents)]
    both = [(a, b) for a, b in pairs if a is not None and b is not None]
    if not both:
        raise UndecidedError("one side ends with exp, and the other one with log: they have no part in common")
    differ = np.zeros(one.shape, np.bool_)
    for a, b in both:
        differ |= a != b
    differ |= one.signs != other.signs
    if one.kept is not None or other.kept is not None:
        kept = [np.uint64(1) if each.kept is None else each.kept for each in (one, other)]
        differ |= kept[0] != kept[1]
    return tuple(int(place) for place in np.argwhere(differ)[0]) if differ.any() else None


def _error(value: Symbols, reals: Reals) -> float:
    """The probability, at most, that an element that is another function has the same value (``docs/proofs.md``)."""
    field, size = reals.field, value.size
    degree = max(size.numerator + size.denominator, 1)
    collision = max(2 * reals.argument_degree / field.p, (2 * reals.exponent_degree) ** 2 / field.n)
    parts = 1.0
    if value.residues is not None:
        parts *= min(1.0, 2 * degree / field.p)
    if value.exponents is not None:
        parts *= min(1.0, (2 * degree) ** 2 / field.n)
    return parts + 2 * min(size.unknown, reals.created) * collision


__all__ = ["GOAL", "prove"]
