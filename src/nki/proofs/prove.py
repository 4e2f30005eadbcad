"""``nki.prove``: says if two kernels are the same function over the real numbers, for all inputs of their shapes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from nki.base.errors import ArgumentError, NkiError
from nki.compilation.launch_errors import strip_frames
from nki.jit import Kernel
from nki.proofs import witness
from nki.proofs.rounds import Rounds, check_same
from nki.proofs.subjects import Launch, Subject, around, drawn, of_function, of_kernel, of_kernels, ranges
from nki.proofs.symbols import UndecidedError
from nki.proofs.verdict import Place, Verdict, Word
from nki.proofs.witness import Witness
from nki.target.model import Target
from nki.workload.load_kernel import with_kernels

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
    limit: float = math.inf,
) -> Callable[..., Verdict]:
    """``nki.prove(old, new)(*specs)``: says if both are the same function over the real numbers, for all inputs.

    ``old`` and ``new``: kernels, also of Beta 1; one may be a function of NumPy, PyTorch or JAX. ``specs``: the
    arguments; tensors count by shape and dtype only. ``seed``: of the random numbers, None for fresh ones. ``goal``:
    the probability of a wrong "equal" at which the proof stops. ``seconds``: for the search of an input that shows a
    difference. ``limit``: for the rounds of the proof, in seconds; the verdict is "undecided" behind it, with the line.

    Raises :class:`DifferentSignaturesError` for other inputs or outputs, and what compilation raises.
    """

    def proved(*args: Any, **kwargs: Any) -> Verdict:
        try:
            one, other = _subjects(with_kernels(old), with_kernels(new), args, kwargs, target)
            return proved_subjects(one, other, seed=seed, goal=goal, seconds=seconds, limit=limit)
        except NkiError as error:
            __tracebackhide__ = True
            raise strip_frames(error)  # noqa: B904  # its cause is settled

    return proved


def proved_subjects(
    old: Subject,
    new: Subject,
    *,
    seed: int | None = None,
    goal: float = GOAL,
    seconds: float = 20.0,
    limit: float = math.inf,
) -> Verdict:
    """The verdict about two subjects; see :func:`prove`. Raises :class:`DifferentSignaturesError`."""
    subjects = old, new
    check_same("input", [each.shape for each in old.inputs], [each.shape for each in new.inputs], subjects)
    if old.outputs is not None and new.outputs is not None:
        check_same("output", old.outputs, new.outputs, subjects)
    return _Proof(subjects, np.random.SeedSequence(seed), goal, seconds, limit).verdict()


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
        return of_kernels(Launch(old, args, kwargs), Launch(new, args, kwargs), target)
    if functions[1]:
        kernel = of_kernel(Launch(old, args, kwargs), target)
        return kernel, of_function(new, (*args, *kwargs.values()), kernel.inputs)
    kernel = of_kernel(Launch(new, args, kwargs), target)
    return of_function(old, (*args, *kwargs.values()), kernel.inputs), kernel


class _Proof:
    """Rounds of one proof."""

    def __init__(
        self,
        subjects: tuple[Subject, Subject],
        entropy: np.random.SeedSequence,
        goal: float,
        seconds: float,
        limit: float,
    ) -> None:
        self.subjects, self.seconds = subjects, seconds
        self.started = time.monotonic()
        self.ranges = ranges(subjects[0].inputs, subjects[0].given)
        self.rounds = Rounds(subjects, self.ranges, entropy, goal, seconds, self.started + limit)
        self.assumptions = self.rounds.assumptions

    def verdict(self) -> Verdict:
        try:
            place = self.rounds.run()
        except UndecidedError as error:
            tested = self._tested(error)
            return tested if tested is not None else self._searched(str(error))
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
            seconds=time.monotonic() - self.started,
        )

    def _of_ranges(self) -> list[str]:
        """The ranges of integer inputs."""
        names = [spec.name for spec in self.subjects[0].inputs]
        return [
            f"integers of {name!r} are from {each[0]} to {each[1]}"
            for name, each in zip(names, self.ranges, strict=True)
            if each is not None
        ]


__all__ = ["GOAL", "prove", "proved_subjects"]
