"""Decides if an edit may stay: by a proof, or a test where there is none, and by the error of the results."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, cast

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from nki.base.element_types import DType
from nki.base.errors import NkiError
from nki.base.warning import collecting
from nki.ir.program import Program
from nki.optimising.version import Version
from nki.proofs.prove import prove
from nki.rounding import shadow_run
from nki.rounding.line_errors import relative
from nki.rounding.run import specialised
from nki.rounding.shadow_run import Output
from nki.rounding.tracked import difference

Array = NDArray[Any]
MORE_ERROR: Final = 2.0
"""The error of a result may grow by this factor: sums in another order round otherwise."""
DRAWS: Final = 4
"""Sets of random numbers on which results are compared if a proof does not decide."""


@dataclass(frozen=True)
class Finding:
    """A judgement of a version: it ``may_stay``, or not; ``words`` give the reason, or the proof."""

    may_stay: bool
    words: str
    error: float = 0.0
    """The greatest error of a result, where results were looked at and are right."""


class Judge:
    """The kernel as it was, which every version is compared with."""

    def __init__(self, original: Version, error: float | None, seed: int, seconds: float) -> None:
        self.original = original
        self.most = error
        """The error that each result may have; None: twice its error, or the resolution of its dtype."""
        self.seed = seed
        self.seconds = seconds
        self._runs: dict[int, list[Output]] = {}

    def _program(self, version: Version, seed: int) -> tuple[Program, list[Array]]:
        question = version.question
        program, arrays, _ = specialised(version.kernel, question.args, {**question.kwargs}, question.target, seed)
        return program, arrays

    def _run(self, seed: int) -> list[Output]:
        """The results of the original kernel beside float64."""
        if seed not in self._runs:
            with collecting(aside=True):
                self._runs[seed] = shadow_run.run(*self._program(self.original, seed))[0]
        return self._runs[seed]

    @cached_property
    def allowed(self) -> list[float]:
        """The relative error that each result may have."""
        outputs = self._run(self.seed)
        if self.most is not None:
            return [self.most for _ in outputs]
        errors = [relative(difference(each.real, each.exact), each.exact) for each in outputs]
        return [max(MORE_ERROR * error, _resolution(each.dtype)) for error, each in zip(errors, outputs, strict=True)]

    @cached_property
    def error(self) -> float:
        """The greatest error of a result of the original kernel."""
        return max((relative(difference(o.real, o.exact), o.exact) for o in self._run(self.seed)), default=0.0)

    def _errors(self, version: Version, draw: int) -> list[float]:
        """The relative error of each result of ``version`` on random numbers. Raises :class:`NkiError`."""
        with collecting(aside=True):
            results = shadow_run.plain(*self._program(version, self.seed + draw))
            pairs = zip(self._run(self.seed + draw), results, strict=True)
        with np.errstate(all="ignore"):
            return [relative(difference(result, output.exact), output.exact) for output, result in pairs]

    def is_accurate(self, version: Version, draw: int = 0) -> Finding:
        """Find out if no result of ``version`` has more than the allowed error."""
        try:
            errors = self._errors(version, draw)
        except NkiError as error:
            return Finding(False, f"{type(error).__name__}: {error.message}")
        for number, (error, most) in enumerate(zip(errors, self.allowed, strict=True)):
            if not error <= most:
                return Finding(False, f"result {number} has an error of {error:.1e}, and {most:.1e} is allowed")
        return Finding(True, "", max(errors, default=0.0))

    def is_equal(self, version: Version) -> Finding:
        """Find out if ``version`` is the same function as the original; where that is not decided, by more draws."""
        question = self.original.question
        prove_both = prove(
            self.original.kernel, version.kernel, target=question.target, seed=self.seed, seconds=self.seconds
        )
        try:
            with collecting(aside=True):
                verdict = prove_both(*question.args, **question.kwargs)
        except NkiError as error:
            return Finding(False, f"{type(error).__name__}: {error.message}")
        if verdict.verdict == "different":
            return Finding(False, f"another function: {verdict.reason}")
        if verdict.verdict == "equal":
            return Finding(True, f"equal (probability of an error at most {verdict.bound:.0e})")
        for draw in range(1, DRAWS):
            found = self.is_accurate(version, draw)
            if not found.may_stay:
                return found
        return Finding(True, f"not decided ({verdict.reason}); tested on {DRAWS} draws of random numbers")


def _resolution(dtype: DType) -> float:
    """The distance from 1 to the next number of a dtype; 0 for integers."""
    return float(cast("Any", ml_dtypes.finfo(dtype.dtype)).eps) if dtype.is_float else 0.0


__all__ = ["Finding", "Judge"]
