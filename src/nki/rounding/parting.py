"""Two kernels side by side: the first line at which they part by more than rounding explains.

Both run with shadows, so rounding is out of the comparison: two kernels of one function have the same values in
float64, to about 40 bits, however each of them rounds. Values are compared by sums over all their elements, which tell
neither the layout of a tile nor the order of instructions, and by the names of tiles.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nki.backend.numpy.values import Value
from nki.base.errors import KernelArgumentError
from nki.base.source import Span, source_line
from nki.ir.instruction import Inst
from nki.ir.program import Program
from nki.ir.types import Access, Tensor
from nki.profiling.amounts import count, place
from nki.rounding import shadow_run
from nki.rounding.line_errors import relative
from nki.rounding.text import number
from nki.rounding.tracked import Doubles, Tracked, difference

Array = NDArray[Any]
SAME: Final = 2.0**-30
"""Values are the same if they differ by less than this part. float64 and its functions leave 2^-40 and better after a
few thousand operations; float32 leaves no more than 2^-24 of one.
"""
_MOST_WRITERS: Final = 64


class Sums(NamedTuple):
    """The number of elements of a value, and sums over the finite ones: of elements, magnitudes and squares."""

    elements: int
    finite: int
    total: float
    size: float
    squares: float

    def is_like(self, other: Sums) -> bool:
        """Test if the values may be the same elements."""
        if (self.elements, self.finite) != (other.elements, other.finite):
            return False
        near = abs(self.total - other.total) <= SAME * max(self.size, other.size)
        sizes = math.isclose(self.size, other.size, rel_tol=SAME)
        return near and sizes and math.isclose(self.squares, other.squares, rel_tol=SAME)


@dataclass(slots=True, eq=False)
class Event:
    """A value that an instruction stored; ``inputs``: the numbers of the events that it was computed from."""

    span: Span | None
    tile: str
    sums: Sums
    inputs: frozenset[int]
    moves: bool
    tensor: Tensor
    is_matched: bool = False


@dataclass(slots=True)
class _Recorder:
    events: list[Event] = field(default_factory=list[Event])
    _writers: dict[Tensor, tuple[int, ...]] = field(default_factory=dict[Tensor, tuple[int, ...]])

    def stored(self, inst: Inst, target: Access, value: Value, ideal: Doubles) -> None:
        tensors = {access.tensor: None for access in inst.reads()}
        inputs = frozenset(number for tensor in tensors for number in self._writers.get(tensor, ()))
        array = (
            np.broadcast_to(ideal, (target.partitions, target.free_elements)) if ideal.size != target.size else ideal
        )
        moves = not isinstance(value, Tracked) or value.local is None
        event = Event(inst.where.span, target.tensor.name, _sums(array), inputs, moves, target.tensor)
        number = len(self.events)
        self.events.append(event)
        whole = target.size == target.tensor.elements
        before = () if whole else self._writers.get(target.tensor, ())
        self._writers[target.tensor] = (*before, number)[-_MOST_WRITERS:]

    def writers(self, tensor: Tensor) -> tuple[int, ...]:
        """The events that filled ``tensor``."""
        return self._writers.get(tensor, ())


def _sums(array: Doubles) -> Sums:
    finite = np.isfinite(array)
    values = array if finite.all() else array[finite]
    with np.errstate(all="ignore"):
        return Sums(
            array.size, values.size, float(values.sum()), float(np.abs(values).sum()), float(np.square(values).sum())
        )


@dataclass(frozen=True)
class OutputParting:
    """The difference of one output of two kernels, as a part of its root mean square: as they are, and without
    rounding.
    """

    name: str
    real: float
    exact: float


@dataclass(frozen=True)
class Step:
    """A line that stores a value which the other kernel never has."""

    span: Span | None
    code: str
    tile: str


@dataclass(frozen=True)
class Parting:
    """Two kernels on the same data.

    ``first`` and ``other``: the lines of both at which they part; None for both if rounding explains all differences,
    and for one of them where it has no such line. ``shared``: values of the first kernel that the other one has too, of
    ``stored`` in all.
    """

    names: tuple[str, str]
    outputs: tuple[OutputParting, ...]
    first: Step | None
    other: Step | None
    shared: int
    stored: int

    @property
    def is_same(self) -> bool:
        """Test if rounding explains all differences of the outputs."""
        return all(output.exact <= SAME for output in self.outputs)

    def __str__(self) -> str:
        return _text(self)


def compared(first: Program, second: Program, arrays: Sequence[Array]) -> Parting:
    """``first`` and ``second``, after stage ``accumulate``, on the same ``arrays``.

    Raises :class:`KernelArgumentError` if their inputs or outputs differ in number, shape or dtype of an input.
    """
    _check(first, second)
    recorders = _Recorder(), _Recorder()
    one, two = (
        shadow_run.run(program, arrays, recorder.stored)[0]
        for program, recorder in zip((first, second), recorders, strict=True)
    )
    outputs = tuple(
        OutputParting(
            a.name, relative(difference(b.real, a.real), a.real), relative(difference(b.exact, a.exact), a.exact)
        )
        for a, b in zip(one, two, strict=True)
    )
    _match(*recorders)
    wrong = [number for number, output in enumerate(outputs) if output.exact > SAME]
    steps: list[Step | None] = [None, None]
    if wrong:
        for place, (program, recorder, against) in enumerate(
            zip((first, second), recorders, recorders[::-1], strict=True)
        ):
            steps[place] = _first(program, recorder, against, wrong)
    events = recorders[0].events
    shared = sum(event.is_matched for event in events)
    return Parting((first.name, second.name), outputs, steps[0], steps[1], shared, len(events))


def _check(first: Program, second: Program) -> None:
    one, two = first.signature, second.signature
    inputs = [[(spec.shape, spec.dtype) for spec in s.input_specs()] for s in (one, two)]
    outputs = [[spec.shape for spec in s.output_specs()] for s in (one, two)]
    if inputs[0] != inputs[1] or outputs[0] != outputs[1]:
        what = "take" if inputs[0] != inputs[1] else "return"
        shown = [", ".join(str(each) for each in side) or "nothing" for side in (inputs if what == "take" else outputs)]
        raise KernelArgumentError(
            f"{first.name} and {second.name} {what} different tensors: {shown[0]} and {shown[1]}",
            fix="compare two kernels of the same signature",
        )


def _match(one: _Recorder, two: _Recorder) -> None:
    """Mark the values that both kernels have."""
    by_size: defaultdict[tuple[int, int], list[Event]] = defaultdict(list)
    for event in two.events:
        by_size[event.sums[:2]].append(event)
    for events in by_size.values():
        events.sort(key=lambda event: event.sums.squares)
    keys = {size: np.array([event.sums.squares for event in events]) for size, events in by_size.items()}
    for event in one.events:
        near = by_size.get(event.sums[:2])
        if near is None:
            continue
        square = event.sums.squares
        start, stop = np.searchsorted(keys[event.sums[:2]], [square * (1 - 2 * SAME), square * (1 + 2 * SAME)])
        for other in near[int(start) : int(stop) + 1]:
            if event.sums.is_like(other.sums):
                event.is_matched = other.is_matched = True


def _first(program: Program, recorder: _Recorder, against: _Recorder, wrong: Sequence[int]) -> Step | None:
    """The first line of ``program`` with a value that the other one never has, on the way to an output that differs.

    A way that comes back to common values is only another way to the same. Lines that fill a tile which the other
    kernel has too, by name and size, come first: others may differ in how they cut the work.
    """
    events = recorder.events
    bad: set[int] = set()
    waiting = [number for place in wrong for number in recorder.writers(program.outputs[place])]
    while waiting:
        number = waiting.pop()
        if number in bad or events[number].is_matched:
            continue
        bad.add(number)
        waiting += events[number].inputs
    names = {(event.tile, event.sums.elements) for event in against.events}
    frontier = [number for number in sorted(bad) if bad.isdisjoint(events[number].inputs - {number})]
    paired = [n for n in frontier if (events[n].tile, events[n].sums.elements) in names]
    computing = [n for n in frontier if not events[n].moves]
    chosen = next(iter(paired or computing or frontier), None)
    if chosen is None:
        return None
    event = events[chosen]
    code = source_line(event.span.file, event.span.line).strip() if event.span is not None else ""
    return Step(event.span, code, event.tile)


def _text(found: Parting) -> str:
    one, two = found.names
    if found.is_same:
        head = f"{one} and {two} are the same up to rounding on this data"
    else:
        head = "\n".join([f"{one} and {two} part by more than rounding explains", *_steps(found)])
    names = max(len("output"), *(len(output.name) for output in found.outputs))
    rows = [f"  {'output':<{names}}  {'difference':>10}  {'without rounding':>16}"]
    rows += [
        f"  {output.name:<{names}}  {number(output.real):>10}  {number(output.exact):>16}" for output in found.outputs
    ]
    shared = f"  {found.shared:,} of {count(found.stored, 'value')} that {one} stores {two} has too"
    return "\n\n".join([head, "\n".join(rows), shared])


def _steps(found: Parting) -> list[str]:
    pairs = zip(found.names, (found.first, found.other), strict=True)
    return [row for name, step in pairs if step is not None for row in _step(name, step)]


def _step(name: str, step: Step) -> list[str]:
    return [f"  first in {name}: {place(step.span)} stores '{step.tile}'", f"    {step.code}"]
