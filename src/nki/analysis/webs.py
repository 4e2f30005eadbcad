"""Webs: the values that a tile holds one after the other.

A web begins where a tile is accessed while no byte of it holds a value that is read later: the bytes that are read from
there on are written from there on. So each web could have a tile of its own. The analysis goes backwards over the
program with the bytes that are read before they are written (they are live). A write that may leave bytes as they
were, or that a run-time index moves, makes no byte dead.

A loop on the device is visited with what is live behind it. If an iteration may read bytes of a tile that the
iteration before has left, all of the tile counts as live wherever an iteration ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from nki.analysis.byte_sets import ByteSet
from nki.ir.instruction import Inst
from nki.ir.loop import Loop, Statement, touched
from nki.ir.types import Access, Tensor

_Live = dict[Tensor, ByteSet | None]
"""The live bytes of each tensor that has some; None: all of them."""


@dataclass(slots=True, eq=False, repr=False)
class Webs:
    """The webs of a body. ``begins``: by the number of a statement, the tensors with a web that begins there.
    ``entering`` and ``leaving``: the tensors with live bytes at the begin and at the end of the body. ``loops``: the
    webs of the bodies of loops, by the number of the loop.
    """

    begins: dict[int, set[Tensor]] = field(default_factory=dict[int, set[Tensor]])
    entering: set[Tensor] = field(default_factory=set[Tensor])
    leaving: set[Tensor] = field(default_factory=set[Tensor])
    loops: dict[int, Webs] = field(default_factory=dict[int, "Webs"])


def webs(body: Sequence[Statement], tensors: AbstractSet[Tensor]) -> Webs:
    """The webs of ``tensors``, which are tiles, in the body of a core."""
    return _of_body(body, {}, tensors)


def _of_body(body: Sequence[Statement], live: _Live, tensors: AbstractSet[Tensor]) -> Webs:
    """The webs of ``body``, with ``live`` at its end; it becomes what is live at its begin."""
    result = Webs(leaving=set(live))
    for number in range(len(body) - 1, -1, -1):
        statement = body[number]
        if isinstance(statement, Inst):
            used = _visit(statement, live, tensors)
        elif used := {access.tensor for access in touched(statement) if access.tensor in tensors}:
            result.loops[number] = _of_loop(statement, live, used)
        begins = used - live.keys()
        if begins:
            result.begins[number] = begins
    result.entering = set(live)
    return result


def _visit(inst: Inst, live: _Live, tensors: AbstractSet[Tensor]) -> set[Tensor]:
    """The ``tensors`` that ``inst`` accesses; their bytes in ``live`` become the ones before it."""
    used: set[Tensor] = set()
    writes: list[Access] = []
    reads = [access for access in inst.indexed_by() if access.tensor in tensors]
    for access, is_read, is_written in inst.uses():
        tensor = access.tensor
        if tensor in tensors:
            used.add(tensor)
            if is_written and access.dynamic is None:
                writes.append(access)
            if is_read or not is_written or inst.accumulates:
                reads.append(access)
    if writes and not inst.may_leave_unwritten():
        for access in writes:
            _remove(access, live)
    for access in reads:
        used.add(access.tensor)
        _add(access, live)
    return used


def _remove(access: Access, live: _Live) -> None:
    tensor = access.tensor
    if tensor not in live:
        return
    if access.is_whole():
        del live[tensor]
        return
    left = live[tensor] or _all_of(tensor)
    left.subtract(access)
    if left.is_empty():
        del live[tensor]
    else:
        live[tensor] = left


def _add(access: Access, live: _Live) -> None:
    tensor = access.tensor
    if access.dynamic is not None or access.is_whole():
        live[tensor] = None
        return
    left = live.setdefault(tensor, ByteSet(tensor))
    if left is not None:
        left.add(access)


def _copies(live: _Live) -> _Live:
    return {tensor: None if left is None else left.copy() for tensor, left in live.items()}


def _of_loop(loop: Loop, live: _Live, used: AbstractSet[Tensor]) -> Webs:
    """The webs of the body of ``loop``, with ``live`` behind the loop; it becomes what is live before the loop."""
    behind = {tensor: live[tensor] for tensor in used if tensor in live}
    begin = _copies(behind)
    result = _of_body(loop.body, begin, used)
    carried = result.entering
    if carried:
        begin = _copies(behind) | dict.fromkeys(carried)
        result = _of_body(loop.body, begin, used)
    for tensor in used:
        if tensor in loop.tensors:
            live.pop(tensor, None)
        elif tensor in carried:
            live[tensor] = begin[tensor] if loop.runs() else None
        elif loop.runs():
            live.pop(tensor, None)
    return result


def _all_of(tensor: Tensor) -> ByteSet:
    result = ByteSet(tensor)
    result.add(Access.whole(tensor))
    return result
