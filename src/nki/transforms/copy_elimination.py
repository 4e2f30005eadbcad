"""Leave out copies that only move data between HBM and a tile: compute reads the input, or writes the output, itself.

On the chip a tile must be loaded before an engine can touch it; a CPU reads the caller's array as well. Two kinds of
DMA go, where nothing can tell the difference:

- a tile whose only write is a copy of an input or a constant (which never change): its readers read that;
- a tile whose only reader is a copy to an output: its writers write the output, provided that one of them writes all
  of the tile and that nobody touches that output in between.

A copy that converts stays, and one whose window cannot be followed through the other's strides; so does everything that
loops touch, or run-time indices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from nki.backend.cpu.loop_ir.nodes import merged
from nki.ir.effects import Copy
from nki.ir.instruction import Inst
from nki.ir.loop import Statement, touched
from nki.ir.program import Program
from nki.ir.types import Access, Buffer, Tensor, row_major


@dataclass(slots=True)
class _Uses:
    """The instructions, by position, that write and read one tensor."""

    writes: list[int] = field(default_factory=list[int])
    reads: list[int] = field(default_factory=list[int])


def forwarded(kernel: Program) -> list[Statement]:
    """The statements of ``kernel`` without the copies that can go."""
    body: list[Statement | None] = list(kernel.body)
    uses: dict[Tensor, _Uses] = {}
    fixed: set[Tensor] = set()
    for position, inst in enumerate(kernel.body):
        if not isinstance(inst, Inst):
            fixed.update(access.tensor for access in touched(inst))
            continue
        fixed.update(index.tensor for index in inst.indexed_by())
        fixed.update(access.tensor for access in inst.accesses() if access.dynamic is not None)
        for access in inst.reads():
            uses.setdefault(access.tensor, _Uses()).reads.append(position)
        for access in inst.writes():
            uses.setdefault(access.tensor, _Uses()).writes.append(position)
    inputs = {*kernel.inputs, *kernel.constants()}.difference(kernel.outputs)
    outputs = set(kernel.outputs) - fixed - {*kernel.inputs}
    for tensor, use in uses.items():
        if tensor.buffer is not Buffer.sbuf or tensor in fixed:
            continue
        if not use.writes or not use.reads or use.writes[-1] >= use.reads[0]:
            continue
        if len(use.writes) == 1 and _read_directly(body, tensor, use, inputs):
            continue
        if len(use.reads) == 1:
            _write_directly(body, tensor, use, outputs, uses)
    return [statement for statement in body if statement is not None]


def _copy(inst: Statement | None) -> Copy | None:
    """The copy that a statement is, without run-time indices."""
    return inst.as_copy() if isinstance(inst, Inst) and not inst.indexed_by() else None


def _moves_all(tile: Tensor, here: Access, there: Access) -> bool:
    """Whether a copy between ``here``, a window of ``tile``, and ``there`` moves all of ``tile`` unchanged."""
    whole = here.tensor is tile and here.size == tile.elements and here.strides == row_major(here.shape)
    return whole and here.dtype is tile.dtype is there.dtype is there.tensor.dtype


def _read_directly(body: list[Statement | None], tile: Tensor, use: _Uses, inputs: set[Tensor]) -> bool:
    """Take out the load of ``tile`` if its readers can do without; whether it went."""
    copy = _copy(body[use.writes[0]])
    if copy is None or not _moves_all(tile, copy.dst, copy.src) or copy.src.tensor not in inputs:
        return False
    if not _redirect(body, use.reads, tile, copy.src):
        return False
    body[use.writes[0]] = None
    return True


def _write_directly(
    body: list[Statement | None], tile: Tensor, use: _Uses, outputs: set[Tensor], uses: dict[Tensor, _Uses]
) -> None:
    """Take out the store of ``tile`` if its writers can do without."""
    last = use.reads[0]
    copy = _copy(body[last])
    if copy is None or not _moves_all(tile, copy.src, copy.dst) or copy.dst.tensor not in outputs:
        return
    others = uses[copy.dst.tensor]
    if any(use.writes[0] <= position < last for position in (*others.writes, *others.reads)):
        return
    if not any(_fills(body[position], tile) for position in use.writes):
        return
    if _redirect(body, use.writes, tile, copy.dst):
        body[last] = None


def _fills(inst: Statement | None, tile: Tensor) -> bool:
    """Whether one write of ``inst`` covers all of ``tile``: a window writes no element twice."""
    return isinstance(inst, Inst) and any(a.tensor is tile and a.size == tile.elements for a in inst.writes())


def _redirect(body: list[Statement | None], positions: list[int], tile: Tensor, there: Access) -> bool:
    """Let the instructions at ``positions`` use ``there`` in place of ``tile``; False, and no change, if one cannot."""
    changed: dict[int, Inst] = {}
    follow = _follower(there)
    for position in dict.fromkeys(positions):
        inst = body[position]
        if not isinstance(inst, Inst):
            return False
        replaced: dict[int, Access] = {}
        for number, access in enumerate(inst.accesses()):
            if access.tensor is tile:
                window = follow(access)
                if window is None or access.dtype is not tile.dtype or not _suits(inst, access, window):
                    return False
                replaced[number] = window
        changed[position] = inst.with_operands(replaced)
    for position, inst in changed.items():
        body[position] = inst
    return True


def _suits(inst: Inst, before: Access, after: Access) -> bool:
    """The matrix product is tuned for tiles: rows that lie far apart in the caller's array cost more than the copy."""
    return inst.effects.accumulation is None or before.strides == after.strides


def _follower(there: Access) -> Callable[[Access], Access | None]:
    """What turns a window of a dense tile into the same elements of ``there``, element number by element number."""
    dims = merged(there.pattern())
    blocks: list[tuple[int, int, int]] = []  # size of the block, step there, count; innermost first
    size = 1
    for step, count in reversed(dims):
        blocks.append((size, step, count))
        size *= count

    def follow(window: Access) -> Access | None:
        digits = [window.offset // block % count for block, _, count in blocks]
        reach = list(digits)
        steps: list[int] = []
        for stride, count in zip(window.strides, window.shape, strict=True):
            if count == 1 or stride == 0:
                steps.append(min(stride, 1))
                continue
            level = max((i for i, (block, _, _) in enumerate(blocks) if block <= stride), default=-1)
            if level < 0 or stride % blocks[level][0]:
                return None
            factor = stride // blocks[level][0]
            reach[level] += factor * (count - 1)
            steps.append(factor * blocks[level][1])
        if any(r >= count for r, (_, _, count) in zip(reach, blocks, strict=True)):
            return None
        offset = there.offset + sum(d * step for d, (_, step, _) in zip(digits, blocks, strict=True))
        return Access(there.tensor, offset, window.shape, tuple(steps), window.dtype)

    return follow
