"""``nki.prove``: says if two kernels are the same function over the real numbers, for all inputs of their shapes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from nki.base.errors import ArgumentError, NkiError
from nki.compilation.launch_errors import strip_frames
from nki.jit import Kernel
from nki.proofs import witness
from nki.proofs.rounds import Rounds, check_same
from nki.proofs.subjects import Subject, around, drawn, of_function, of_kernel, ranges
from nki.proofs.symbols import UndecidedError
from nki.proofs.traced import is_tensor
from nki.proofs.verdict import Place, Verdict, Word
from nki.proofs.witness import Witness
from nki.target.model import Target

GOAL: Final = 1e-9
"""Rounds are added until the probability of a wrong "equal" is at most this."""
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
            check_same(
                "input", [each.shape for each in subjects[0].inputs], [e.shape for e in subjects[1].inputs], subjects
            )
            if subjects[0].outputs is not None and subjects[1].outputs is not None:
                check_same("output", subjects[0].outputs, subjects[1].outputs, subjects)
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
    for each in (old, new):
        if not callable(each):
            raise ArgumentError(
                f"{each!r} is no kernel and no function", fix="give two kernels, or a kernel and a function"
            )
    functions = [not isinstance(each, Kernel) for each in (old, new)]
    if not any(functions):
        return of_kernel(old, args, kwargs, target), of_kernel(new, args, kwargs, target)
    if functions[1]:
        kernel = of_kernel(old, args, kwargs, target)
        return kernel, of_function(new, (*args, *kwargs.values()), kernel.inputs)
    kernel = of_kernel(new, args, kwargs, target)
    return of_function(old, (*args, *kwargs.values()), kernel.inputs), kernel


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
        self.subjects, self.started, self.seconds = subjects, started, seconds
        self.ranges = ranges(subjects[0].inputs, tensors)
        self.rounds = Rounds(subjects, self.ranges, entropy, goal, seconds)
        self.assumptions = self.rounds.assumptions

    def verdict(self) -> Verdict:
        try:
            place = self.rounds.run()
        except UndecidedError as error:
            tested = self._tested(error)
            return tested if tested is not None else self._searched(_reason(error))
        if place is None and self.rounds.mode.ties:
            return self._found("equal", f"equal in {self.rounds.count} random fields")
        if place is None:
            self.assumptions.add(_NO_TIES)
            return self._at_ties()
        unknown = self.rounds.unknown
        such = f", or know nothing of: {', '.join(sorted(unknown))}" if unknown else ""
        return self._searched(f"the identities of docs/proofs.md do not make them equal{such}", place)

    # -- what is not proved

    def _tested(self, error: UndecidedError) -> Verdict | None:
        """The verdict of draws of the integer inputs, if there are any; None if they do not help."""
        specs = self.subjects[0].inputs
        if not any(self.ranges):
            return None
        try:
            for draw in range(_DRAWS):
                self.rounds.known = drawn(specs, self.ranges, draw)
                place = self.rounds.run()
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
        given = list(around(specs, self.rounds.known, self.ranges, sorted(self.rounds.thresholds)))
        return witness.find(sides[0], sides[1], specs, hint=hint, given=given, ranges=self.ranges, seconds=self.seconds)

    def _at_ties(self) -> Verdict:
        """Equal but for ties: a search among inputs with many equal numbers says if these make a difference."""
        found = self._witness()
        if found is None:
            return self._found(
                "equal", f"equal in {self.rounds.count} random fields, and on inputs with ties that were tried"
            )
        return self._found("different", "an input shows it", Place(found.output, found.index), found)

    def _found(self, word: Word, reason: str, place: Place | None = None, shown: Witness | None = None) -> Verdict:
        old, new = (subject.name for subject in self.subjects)
        return Verdict(
            verdict=word,
            old=old,
            new=new,
            bound=self.rounds.bound if word == "equal" else 1.0,
            rounds=self.rounds.count,
            reason=reason,
            witness=shown,
            place=place,
            assumptions=(*sorted(self.assumptions), *self._of_ranges()),
            constants=tuple(self.rounds.constants[value] for value in sorted(self.rounds.constants)),
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


def _reason(error: UndecidedError) -> str:
    """What stands in the way, and the line that asks for it."""
    where = getattr(getattr(error, "inst", None), "where", None)
    return f"{error} ({where.span})" if where is not None and where.span is not None else str(error)


__all__ = ["GOAL", "prove"]
