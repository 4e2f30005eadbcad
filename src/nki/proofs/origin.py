"""The source lines from which an output element comes, and those at which two kernels part."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from nki.base.source import Span, definition_span, source_line
from nki.ir.access_bounds import byte_window
from nki.ir.instruction import Inst
from nki.ir.program import Program
from nki.ir.types import Access, Tensor
from nki.proofs.ball import Ball
from nki.proofs.enclosure import Event, enclose
from nki.proofs.sides import Side

Array = NDArray[Any]
Mask = NDArray[np.bool_]

MOST_LINES: Final = 6
"""Lines of a side that are shown."""
_MOST_ELEMENTS: Final = 1 << 24
"""Elements of results that are kept to compare them: 256 MiB a side."""
_MOST_ALIGNED: Final = 2000
"""Instructions in the part that differs of two runs, up to which they are aligned: that takes quadratic time."""
_ALIKE: Final = 0.5
"""The part of the instructions that must be alike for two kernels to count as of one structure."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a source file; ``text`` is empty where it cannot be read."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"


@dataclass(slots=True, eq=False)
class Slice:
    """The instructions of a run that lead to an output element, by their numbers among the events of the run, and of
    each the elements of its writes that take part.
    """

    events: list[Event]
    needed: dict[int, list[tuple[Access, Mask]]] = field(default_factory=dict[int, list[tuple[Access, Mask]]])
    wanted: dict[Tensor, Mask] = field(default_factory=dict[Tensor, Mask])
    """The bytes of the element."""

    @property
    def numbers(self) -> list[int]:
        return sorted(self.needed)


def lines(
    old: Side, new: Side, inputs: Sequence[Array], output: int, index: tuple[int, ...]
) -> tuple[tuple[Line, ...], tuple[Line, ...]]:
    """The lines of both sides that lead to element ``index`` of ``output`` at ``inputs``; at most six of each.

    If both are kernels of one structure, the lines at which their numbers first part, and the callers of these.
    Otherwise the lines of the slice that are nearest to the output come first. Of a function its definition.
    """
    if old.program is None or new.program is None:
        return _alone(old, inputs, output, index), _alone(new, inputs, output, index)
    one, other = (backward_slice(side, inputs, output, index) for side in (old.program, new.program))
    for key in (_text_key, _key):
        pairs = _aligned(one.events, other.events, key)
        if len(pairs) >= _ALIKE * max(len(one.events), len(other.events)):
            runs = [_kept(p, inputs, s) for p, s in ((old.program, one), (new.program, other))]
            parted = _parting((one, other), runs, pairs)
            if any(parted):
                return _with_callers(parted[0]), _with_callers(parted[1])
            break
    return _nearest(one), _nearest(other)


def _alone(side: Side, inputs: Sequence[Array], output: int, index: tuple[int, ...]) -> tuple[Line, ...]:
    if side.program is not None:
        return _nearest(backward_slice(side.program, inputs, output, index))
    span = None if side.function is None else definition_span(side.function)
    return () if span is None else (_line(span),)


def backward_slice(program: Program, inputs: Sequence[Array], output: int, index: tuple[int, ...]) -> Slice:
    """The instructions of the run at ``inputs`` through which element ``index`` of ``output`` depends on anything.

    Copies and element-wise instructions pass on single elements, others all that they read.
    """
    result = Slice(enclose(program, inputs, traced=True).events)
    tensor, spec = program.outputs[output], program.signature.output_specs()[output]
    place = int(np.ravel_multi_index(index, spec.shape)) if index else 0
    size = spec.dtype.itemsize
    _mask(result.wanted, tensor)[place * size : (place + 1) * size] = True
    wanted = _Wanted({tensor: result.wanted[tensor].copy()})
    for number in range(len(result.events) - 1, -1, -1):
        needed = wanted.take(result.events[number])
        if needed:
            result.needed[number] = needed
            wanted.add_reads(result.events[number], needed)
    return result


class _Wanted:
    """The bytes that are looked for, from the last instruction backwards."""

    def __init__(self, masks: dict[Tensor, Mask]) -> None:
        self._masks = masks

    def take(self, event: Event) -> list[tuple[Access, Mask]]:
        """The elements that ``event`` writes and that are wanted; no longer wanted before it."""
        found: list[tuple[Access, Mask]] = []
        for access, _ in reversed(event.writes):
            if access.tensor in self._masks:
                window = byte_window(self._masks[access.tensor], access)
                elements = np.asarray(window.any(-1))
                if elements.any():
                    found.append((access, elements))
                    window[...] = False
        return found

    def add_reads(self, event: Event, needed: Sequence[tuple[Access, Mask]]) -> None:
        """Want what ``event`` reads to write the ``needed`` elements."""
        for written, elements in needed:
            for read in event.reads:
                _want(event.inst, read, written, elements, self._masks)


def _mask(wanted: dict[Tensor, Mask], tensor: Tensor) -> Mask:
    if tensor not in wanted:
        wanted[tensor] = np.zeros(tensor.nbytes, np.bool_)
    return wanted[tensor]


def _want(inst: Inst, read: Access, written: Access, elements: Mask, wanted: dict[Tensor, Mask]) -> None:
    """Want what ``inst`` reads through ``read`` for those ``elements`` of ``written``."""
    copy = inst.as_copy()
    streamed = [getattr(inst, name) for name in inst.effects.streamed] + ([copy.src] if copy is not None else [])
    window = byte_window(_mask(wanted, read.tensor), read)
    along = any(isinstance(each, Access) and each.same_place(read) for each in streamed)
    if along and read.size == written.size:
        needed = elements.reshape(read.shape)
    elif streamed and copy is None and read.shape[0] == written.shape[0]:
        rows = elements.reshape(len(elements), -1).any(1)
        needed = np.broadcast_to(rows.reshape(-1, *[1] * (len(read.shape) - 1)), read.shape)
    else:
        needed = np.ones(read.shape, np.bool_)
    window[needed] = True


def _kept(program: Program, inputs: Sequence[Array], of: Slice) -> list[Event]:
    """The events of the run once more, with the balls of the first ones of the slice."""
    chosen: set[int] = set()
    room = _MOST_ELEMENTS
    for number in of.numbers:
        room -= sum(access.size for access, _ in of.events[number].writes)
        if room < 0:
            break
        chosen.add(number)
    return enclose(program, inputs, traced=True, keeps=chosen.__contains__).events


def _key(event: Event) -> tuple[Any, ...]:
    accesses = [*event.reads, *(access for access, _ in event.writes)]
    return (event.inst.mnemonic, *((access.shape, access.dtype.name) for access in accesses))


def _text_key(event: Event) -> tuple[Any, ...]:
    span = event.inst.where.span
    return (*_key(event), "" if span is None else source_line(span.file, span.line).strip())


def _aligned(
    old: Sequence[Event], new: Sequence[Event], key: Callable[[Event], tuple[Any, ...]]
) -> list[tuple[int, int]]:
    """Pairs of instructions with the same ``key``, in the order of both runs; none if that takes too long."""
    known: dict[tuple[Any, ...], int] = {}
    one, other = ([known.setdefault(key(event), len(known)) for event in side] for side in (old, new))
    same = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    most = min(len(one), len(other)) - same
    tail = next((n for n in range(most) if one[-1 - n] != other[-1 - n]), most)
    pairs = [(n, n) for n in range(same)]
    middle = one[same : len(one) - tail], other[same : len(other) - tail]
    if max(map(len, middle)) > _MOST_ALIGNED:
        return []
    for block in SequenceMatcher(None, *middle, autojunk=False).get_matching_blocks():
        pairs += [(same + block.a + n, same + block.b + n) for n in range(block.size)]
    return pairs + [(len(one) - tail + n, len(other) - tail + n) for n in range(tail)]


def _parting(
    slices: tuple[Slice, Slice], runs: Sequence[list[Event]], pairs: Sequence[tuple[int, int]]
) -> tuple[list[Inst], list[Inst]]:
    """The instructions of each side at which numbers first part, and before them those that the other side lacks and
    from which they read.
    """
    one, other = slices
    alike = {a for a, _ in pairs}, {b for _, b in pairs}
    for a, b in pairs:
        needed = one.needed.get(a, []) + other.needed.get(b, [])
        if needed and _part(runs[0][a], runs[1][b], needed):
            lone = _lone(one, a, alike[0]), _lone(other, b, alike[1])
            return [*lone[0], one.events[a].inst], [*lone[1], other.events[b].inst]
    return _lone(one, None, alike[0]), _lone(other, None, alike[1])


def _lone(of: Slice, reader: int | None, alike: set[int]) -> list[Inst]:
    """The instructions without a partner, in program order, from which instruction ``reader`` reads (None: the
    element), directly or through each other.
    """
    masks = {tensor: mask.copy() for tensor, mask in of.wanted.items()} if reader is None else {}
    wanted, last = _Wanted(masks), len(of.events) if reader is None else reader
    if reader is not None:
        wanted.add_reads(of.events[reader], of.needed.get(reader, []))
    found: list[Inst] = []
    for number in range(last - 1, -1, -1):
        needed = wanted.take(of.events[number])
        if needed and number not in alike:
            found.append(of.events[number].inst)
            wanted.add_reads(of.events[number], needed)
    return found[::-1]


def _part(one: Event, other: Event, needed: Sequence[tuple[Access, Mask]]) -> bool:
    """True if an element that is needed certainly differs; without numbers of both sides nothing is certain."""
    kept = [[ball for _, ball in event.writes if ball is not None] for event in (one, other)]
    if len(kept[0]) != len(kept[1]):
        return False
    for first, second in zip(*kept, strict=True):
        elements = np.zeros(first.centre.shape, np.bool_)
        for _, mask in needed:
            if mask.shape == elements.shape:
                elements |= mask
        if bool((_apart(first, second) & elements).any()):
            return True
    return False


def _apart(one: Ball, other: Ball) -> Mask:
    with np.errstate(invalid="ignore"):
        return np.abs(one.centre - other.centre) > one.radius + other.radius


def _line(span: Span) -> Line:
    return Line(span.file, span.line, source_line(span.file, span.line).strip())


def _some(found: Iterable[Line]) -> tuple[Line, ...]:
    return tuple(dict.fromkeys(found))[:MOST_LINES]


def _with_callers(instructions: Sequence[Inst]) -> tuple[Line, ...]:
    """The lines of ``instructions`` and, behind them, the lines that call the functions that these are in."""
    spans = [inst.where.span for inst in instructions]
    callers = [span for inst in instructions for span in reversed(inst.where.stack)]
    return _some(_line(span) for span in (*spans, *callers) if span is not None)


def _nearest(of: Slice) -> tuple[Line, ...]:
    """The lines of a slice, from the output backwards; the kernel's own ones in place of the functions it calls."""
    wheres = [of.events[number].inst.where for number in reversed(of.numbers)]
    spans = [where.stack[0] if where.stack else where.span for where in wheres]
    return _some(_line(span) for span in spans if span is not None)
