"""The two sides of a comparison: their results at an input, and how far from these their real functions may be."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from nki.base.element_types import of as dtype_of
from nki.base.sweep_errors import BadReferenceError
from nki.ir.program import Program
from nki.proofs.ball import F64, Ball
from nki.proofs.enclosure import Outcome, enclose, executable
from nki.workload.reference import results_of

Array = NDArray[Any]

_STEPS: Final = (2.0**-40, 2.0**-20, 2.0**-9, 2.0**-6)
"""Relative changes of inputs: what float64, float32, float16 and bfloat16 still notice, with room below."""
_GROWTH: Final = 8.0
"""A function may respond to its own rounding so many times as much as to one change of its inputs."""


@dataclass(frozen=True, eq=False)
class Side:
    """A kernel by its ``program``, or a reference by ``function``: arrays to a list of arrays.

    ``is_proved``: balls enclose what is computed. Of a function they are an estimate.
    """

    name: str
    program: Program | None = None
    function: Callable[..., Any] | None = None

    @classmethod
    def of_program(cls, name: str, program: Program) -> Side:
        """A kernel that is specialised (:data:`nki.compilation.pipeline.SPECIALISE`)."""
        return cls(name, executable(program))

    @classmethod
    def of_function(cls, name: str, function: Callable[..., Any]) -> Side:
        """A function of NumPy arrays, one for each input; floats come as float64."""
        return cls(name, function=function)

    @property
    def is_proved(self) -> bool:
        return self.program is not None

    def at(self, inputs: Sequence[Array], deadline: float = math.inf) -> Outcome:
        """The results of the side. Raises what the side raises, and :class:`OutOfTime` of a program at ``deadline``."""
        if self.program is not None:
            return enclose(self.program, inputs, deadline=deadline)
        return self._estimated([_wide(each) for each in inputs])

    def _estimated(self, inputs: list[Array]) -> Outcome:
        """Results of a function, with a radius from how they respond to small changes of the inputs.

        A function rounds in a precision of its own, which may be coarser than float64. Where results do not
        respond to a change, that precision does not notice it; so the least change that most results respond to is
        about a unit of it.
        """
        results = self._results(inputs)
        coarse = self._responses(inputs, results, _STEPS[-1])
        for step in _STEPS:
            fine = self._responses(inputs, results, step) if step != _STEPS[-1] else coarse
            if all(_answered(one, other) for one, other in zip(fine, coarse, strict=True)):
                break
        else:
            step, fine = _STEPS[-1], coarse
        floor = _STEPS[0] * _largest(inputs)  # of what cancels
        balls = [
            _estimate(result, _GROWTH * (change + step * _largest([result]) + floor))
            for result, change in zip(results, fine, strict=True)
        ]
        return Outcome([each.astype(np.float64) for each in results], balls, [])

    def _results(self, inputs: Sequence[Array]) -> list[Array]:
        try:
            with np.errstate(all="ignore"):
                return [_wide(np.asarray(each)) for each in results_of(self._called(inputs))]
        except Exception as error:  # whatever a user's function raises
            raise BadReferenceError(
                f"the reference {self.name!r} raises {type(error).__name__}: {error}",
                fix="it is called with a NumPy array for each input, floats as float64",
            ) from error

    def _called(self, inputs: Sequence[Array]) -> Any:
        """The function on copies; in float32 if it refuses float64, as modules with weights do."""
        assert self.function is not None
        try:
            return self.function(*(a.copy() for a in inputs))
        except RuntimeError:
            return self.function(*(a.astype(np.float32) if a.dtype.kind == "f" else a.copy() for a in inputs))

    def _responses(self, inputs: Sequence[Array], results: Sequence[Array], step: float) -> list[F64]:
        """The largest change of each result of three runs with inputs that are off by up to ``step``."""
        largest = [np.zeros(result.shape) for result in results]
        for seed in range(3):
            rng = np.random.default_rng(seed)
            moved = [a * (1 + step * rng.choice((-1.0, 1.0), a.shape)) if a.dtype.kind == "f" else a for a in inputs]
            with np.errstate(all="ignore"):
                for most, before, after in zip(largest, results, self._results(moved), strict=True):
                    change = np.abs(after.astype(np.float64) - before.astype(np.float64))
                    np.maximum(most, np.where(after == before, 0.0, change), out=most)
        return largest


def _answered(fine: F64, coarse: F64) -> bool:
    """True if most of what responds to a coarse change responds to the fine one too."""
    return bool((fine[coarse > 0] > 0).mean() >= 0.75) if (coarse > 0).any() else False


def _largest(arrays: Sequence[Array]) -> float:
    """The largest finite magnitude among floats."""
    floats = [np.abs(a[np.isfinite(a)]) for a in arrays if a.dtype.kind == "f"]
    return max((float(a.max(initial=0.0)) for a in floats), default=0.0)


def _estimate(result: Array, radius: F64) -> Ball:
    centre = result.astype(np.float64)
    known = np.isfinite(centre) & np.isfinite(radius)
    return Ball(np.where(known, centre, 0.0), np.where(known, radius, np.inf))


def _wide(array: Array) -> Array:
    """Floats of any format as float64; integers as they are."""
    is_float = array.dtype.kind == "f" or (array.dtype.kind == "V" and dtype_of(array.dtype).is_float)
    return array.astype(np.float64) if is_float else array
