"""An input on which two kernels differ by more than rounding: found, made simple, and explained."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from nki.base.errors import ArgumentError, NkiError
from nki.ir.types import TensorSpec
from nki.proofs import origin
from nki.proofs.candidates import Range, candidates
from nki.proofs.enclosure import Outcome, OutOfTime
from nki.proofs.minimise import Minimiser
from nki.proofs.origin import Line
from nki.proofs.sides import Side

Array = NDArray[Any]
Place = tuple[int, tuple[int, ...]]
"""The number of an output and the index of an element."""

MARGIN: Final = 8.0
"""A difference over the reals counts if it is so many times what rounding changes in both results together: then the
numbers that the executors print show it, too."""
_SHOWN: Final = 6
"""Elements of an input that a report shows one by one."""


@dataclass(frozen=True, eq=False)
class Witness:
    """An input on which two sides differ. ``inputs`` are dense arrays in the order of the kernels' inputs.

    ``old`` and ``new`` are what the sides compute at ``index`` of ``output``. ``bound``: how far both results together
    may be off by rounding, derived for this input; ``exact_old`` and ``exact_new``: the numbers without rounding.
    ``is_proved``: the difference is proved by enclosures of both. Without it a side is a function: the bound is an
    estimate, and two unrelated inputs have shown a difference.
    """

    inputs: tuple[Array, ...]
    output: int
    index: tuple[int, ...]
    old: float
    new: float
    bound: float
    old_lines: tuple[Line, ...] = ()
    new_lines: tuple[Line, ...] = ()
    exact_old: float = math.nan
    exact_new: float = math.nan
    is_proved: bool = True
    names: tuple[str, ...] = ()
    """The names of the inputs."""

    def __str__(self) -> str:
        place = f"output {self.output}[{', '.join(map(str, self.index))}]"
        text = [f"{place}: old {self.old:.9g}, new {self.new:.9g}; rounding explains {self.bound:.2g}"]
        names = self.names or tuple(f"input {number}" for number in range(len(self.inputs)))
        text += [f"  {name} = {described(array)}" for name, array in zip(names, self.inputs, strict=True)]
        for side, found in (("old", self.old_lines), ("new", self.new_lines)):
            text += [f"  {side}: {line}" for line in found]
        return "\n".join(text)

    def json(self) -> dict[str, Any]:
        """The witness in values that JSON has; inputs by their elements that are not zero, at most 1024 of each."""
        names = self.names or tuple(str(number) for number in range(len(self.inputs)))
        return {
            "output": self.output,
            "index": list(self.index),
            "old": _number(self.old),
            "new": _number(self.new),
            "bound": _number(self.bound),
            "proved": self.is_proved,
            "inputs": [_described(name, array) for name, array in zip(names, self.inputs, strict=True)],
            "old_lines": [_place(line) for line in self.old_lines],
            "new_lines": [_place(line) for line in self.new_lines],
        }


def _place(line: Line) -> dict[str, Any]:
    return {"file": line.file, "line": line.line, "text": line.text}


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def _described(name: str, array: Array) -> dict[str, Any]:
    numbers = _floats(array)
    places = np.argwhere(numbers != 0)
    values = [[*map(int, place), _number(float(numbers[tuple(place)]))] for place in places[:1024]]
    return {
        "name": name, "shape": list(array.shape), "dtype": str(array.dtype), "nonzero": len(places), "elements": values,
    }  # fmt: skip


def _floats(array: Array) -> Array:
    """The elements in float64; packed ones as their words."""
    if array.dtype.names is not None:
        array = array.view(f"u{array.dtype.itemsize}")
    return array.astype(np.float64)


def described(array: Array) -> str:
    """An input in one line."""
    head = f"{array.dtype} {'x'.join(map(str, array.shape)) or 'scalar'}: "
    numbers = _floats(array)
    if array.size and (numbers == numbers.flat[0]).all():
        return f"{head}all {numbers.flat[0]:g}"
    places = np.argwhere(numbers != 0)
    if len(places) <= _SHOWN:
        shown = [f"[{', '.join(map(str, p))}] = {numbers[tuple(p)]:g}" for p in places]
        return f"{head}0 but {', '.join(shown)}"
    values = np.unique(numbers)
    if len(values) <= _SHOWN:
        return f"{head}{len(places)} elements are not 0; values {', '.join(f'{v:g}' for v in values)}"
    return f"{head}{len(places)} elements are not 0, from {values[0]:.4g} to {values[-1]:.4g}"


@dataclass(frozen=True, slots=True)
class _Difference:
    output: int
    index: tuple[int, ...]
    old: float
    new: float
    bound: float
    exact: tuple[float, float]


def difference(old: Outcome, new: Outcome, hint: Place | None = None) -> _Difference | None:
    """The first output element with results that are known and certainly differ: the ``hint`` if it does.

    Raises :class:`ArgumentError` if the sides return other numbers of results, or results of other shapes.
    """
    forms = [[array.shape for array in side.outputs] for side in (old, new)]
    if forms[0] != forms[1]:
        raise ArgumentError(
            f"one side returns results of shapes {forms[0]}, the other {forms[1]}",
            fix="let both return the same results in the same order and shape",
        )
    order = range(len(forms[0]))
    for output in order if hint is None else sorted(order, key=lambda number: number != hint[0]):
        one, other = old.balls[output], new.balls[output]
        results = [_floats(side.outputs[output]) for side in (old, new)]
        with np.errstate(all="ignore"):
            gap = np.abs(one.centre - other.centre)
            bound = one.radius + other.radius
            for ball, result in zip((one, other), results, strict=True):
                bound = bound + np.where(result == ball.centre, 0.0, np.abs(result - ball.centre))
            differs = gap > MARGIN * bound  # false of NaN, and of what is not known
        if not differs.any():
            continue
        index = hint[1] if hint is not None and hint[0] == output and differs[hint[1]] else None
        if index is None:
            index = tuple(int(i) for i in np.unravel_index(int(np.argmax(differs)), differs.shape))
        values = [float(result[index]) for result in results]
        exact = float(one.centre[index]), float(other.centre[index])
        return _Difference(output, index, values[0], values[1], float(bound[index]), exact)
    return None


def _outside(array: Array, allowed: Range | None) -> bool:
    return allowed is not None and bool(((array < allowed[0]) | (array > allowed[1])).any())


@dataclass(eq=False)
class Search:
    """The search for a witness that ``old`` and ``new`` differ; ``runs`` counts inputs that were tried.

    Inputs that a side refuses, as an index out of bounds, show nothing; nor does a run that goes on at ``deadline``.
    """

    old: Side
    new: Side
    specs: Sequence[TensorSpec]
    hint: Place | None = None
    ranges: Sequence[Range | None] = ()
    deadline: float = math.inf
    runs: int = 0
    refusals: int = 0
    refused: NkiError | None = None
    """The first refusal."""

    def at(self, inputs: Sequence[Array]) -> _Difference | None:
        """The difference at ``inputs``; none if integers lie outside of their ranges."""
        if self.ranges and any(map(_outside, inputs, self.ranges)):
            return None
        self.runs += 1
        try:
            old, new = (side.at(inputs, self.deadline) for side in (self.old, self.new))
            return difference(old, new, self.hint)
        except OutOfTime:
            return None
        except ArgumentError:
            raise
        except NkiError as error:
            self.refusals += 1
            self.refused = self.refused or error
            return None

    def keeps(self, inputs: Sequence[Array]) -> Callable[[Sequence[Array]], bool]:
        """A function that says if others differ too: in the hinted element, if ``inputs`` do so there."""
        seen = self.at(inputs)
        is_hinted = seen is not None and (seen.output, seen.index) == self.hint

        def keep(arrays: Sequence[Array]) -> bool:
            found = self.at(arrays)
            return found is not None and (not is_hinted or (found.output, found.index) == self.hint)

        return keep

    def first(self, tried: Iterable[list[Array]], deadline: float) -> list[Array] | None:
        """The first inputs that show a difference. If a side is a function, others have to show one, too."""
        wanted = 1 if self.old.is_proved and self.new.is_proved else 2
        found: list[list[Array]] = []
        for inputs in tried:
            if time.monotonic() > deadline:
                return None
            if self.at(inputs) is not None:
                found.append(inputs)
                if len(found) == wanted:
                    return found[0]
        return None


def find(
    old: Side,
    new: Side,
    specs: Sequence[TensorSpec],
    *,
    hint: Place | None = None,
    given: Sequence[Sequence[Array]] = (),
    ranges: Sequence[Range | None] = (),
    seconds: float = 20.0,
    seed: int = 0,
) -> Witness | None:
    """An input of these ``specs`` on which ``old`` and ``new`` certainly differ; None if none was found in ``seconds``.

    ``hint``: an output element that is known to be another function. ``given``: inputs to try first, as the contents
    of indices that no guess finds. ``ranges``: the least and the most integer of each input, or None. The search takes
    half of the time, the simplification the rest. Of programs that meet other ranks nothing is found.
    Raises the first error of the sides if they refuse all inputs.
    """
    if any(side.program is not None and side.program.meets_ranks for side in (old, new)):
        return None
    start = time.monotonic()
    search = Search(old, new, specs, hint, ranges, start + seconds)
    tried = chain(map(list, given), candidates(specs, seed, given, ranges))
    inputs = search.first(tried, start + seconds / 2)
    if inputs is None:
        if search.refused is not None and search.refusals == search.runs:
            raise search.refused
        return None
    simple = Minimiser(inputs, search.keeps(inputs), start + seconds).run()
    search.deadline = math.inf  # both sides have ended on these inputs before
    seen = search.at(simple)
    assert seen is not None, "the simplification keeps the difference"
    found = Witness(
        tuple(simple), seen.output, seen.index, seen.old, seen.new, seen.bound,
        exact_old=seen.exact[0], exact_new=seen.exact[1], is_proved=old.is_proved and new.is_proved,
        names=tuple(spec.name for spec in specs),
    )  # fmt: skip
    one, other = origin.lines(old, new, simple, seen.output, seen.index)
    return replace(found, old_lines=one, new_lines=other)
