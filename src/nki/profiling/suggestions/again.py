"""The change that computes once what a kernel computes again and again from the same data."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from nki.analysis.spare_instructions import read_registers, spare_instructions
from nki.analysis.tile_values import TileValue, TileValues
from nki.analysis.value_numbers import is_pure
from nki.ir.instruction import Inst
from nki.ir.loop import For, Loop, Statement, instructions, touched
from nki.ir.program import CoreProgram
from nki.ir.types import Buffer, Tensor
from nki.passes.renaming import renamed_instruction
from nki.profiling.metrics import LEAST_WORTH
from nki.profiling.predicted_run import PredictedRun
from nki.profiling.suggestions.program_rewrites import (
    ProgramRewrite,
    tile_like,
    with_instructions,
)
from nki.sim.timing import Timeline


class ComputedAgain(ProgramRewrite):
    """Instructions that need nothing of their loop on the device, in front of it; and one instruction instead of
    all that compute the same.
    """

    title = "The same results computed again"
    remedy = "compute them once, before the loop that uses them again, and keep their tiles, which SBUF has room for"

    def evidence(self) -> str:
        return f"{self.count('instruction')} compute from the same data what others, or earlier rounds, have computed"

    def timed(self, profile: PredictedRun) -> Timeline | None:
        critical = sum(step.ns for step in profile.critical_path if not profile.cores[step.core].is_dma[step.row])
        return super().timed(profile) if critical > LEAST_WORTH * profile.latency * 1e9 else None

    def rewritten(self, core: CoreProgram) -> CoreProgram:
        assert self.profile is not None
        others = [other for other in self.profile.program.cores if other.rank != core.rank]
        elsewhere = {access.tensor for other in others for inst in other.numbered for access in inst.changes()}
        hoisting = _Hoisting(core, elsewhere)
        body = hoisting.body(core.body)
        before = core.with_body(body) if hoisting.moved else core
        spared, after = _spared(before, elsewhere)
        changed = [*hoisting.moved, *spared]
        if all(inst.on_rings for inst in changed):
            return core  # Reloads has the loads
        self.note(core.rank, changed)
        return after


class _Hoisting:
    """Moves instructions that need nothing of a loop in front of it, from the innermost loop on."""

    def __init__(self, core: CoreProgram, elsewhere: Collection[Tensor]) -> None:
        self.uses = Counter(access.tensor for statement in core.body for access in touched(statement))
        self.stored = {a.tensor for inst in core.numbered for a in inst.changes() if a.buffer.is_hbm} | {*elsewhere}
        self.read_registers = read_registers(core)
        self.moved: list[Inst] = []

    def body(self, body: Iterable[Statement]) -> tuple[Statement, ...]:
        result: list[Statement] = []
        for statement in body:
            if isinstance(statement, Inst):
                result.append(statement)
                continue
            loop = replace(statement, body=self.body(statement.body))
            moved = self._movable(loop)
            rest = tuple([each for each in loop.body if id(each) not in moved])
            if moved and rest:
                result += moved.values()
                self.moved += moved.values()
                tensors = {access.tensor for inst in moved.values() for access in inst.writes()}
                loop = replace(loop, body=rest, tensors=tuple([t for t in loop.tensors if t not in tensors]))
            result.append(loop)
        return tuple(result)

    def _movable(self, loop: Loop) -> dict[int, Inst]:
        """The instructions of the body of ``loop`` that could run once, in front of it."""
        direct = [each for each in loop.body if isinstance(each, Inst)]
        inside = Counter(access.tensor for each in loop.body for access in touched(each))
        fixed = {each.register.tensor for each in _loops_of(loop) if isinstance(each, For)}
        writers: defaultdict[Tensor, list[Inst]] = defaultdict(list)
        for inst in instructions(loop.body):
            for access in inst.changes():
                writers[access.tensor].append(inst)
        own = {tensor for tensor in writers if tensor.buffer in (Buffer.sbuf, Buffer.psum) and tensor.address is None}
        own = {tensor for tensor in own if inside[tensor] == self.uses[tensor]}
        own -= _read_too_soon(direct, own)
        movable = {id(inst): inst for inst in direct if is_pure(inst)}
        while True:
            left = {
                id(inst)
                for inst in movable.values()
                if not all(a.tensor in own or self._is_dead(a.tensor) for a in inst.changes())
                or any(self._changes(a.tensor, fixed, writers, movable) for a in inst.reads())
            }
            late = {
                id(w) for tensor in own if not self._settled(tensor, direct, writers, movable) for w in writers[tensor]
            }
            left |= late & movable.keys()
            if not left:
                return movable
            movable = {key: inst for key, inst in movable.items() if key not in left}

    def _is_dead(self, tensor: Tensor) -> bool:
        return tensor.buffer is Buffer.register and tensor not in self.read_registers

    def _changes(
        self,
        tensor: Tensor,
        fixed: Collection[Tensor],
        writers: Mapping[Tensor, list[Inst]],
        movable: Mapping[int, Inst],
    ) -> bool:
        """Test if iterations may find other contents in ``tensor``."""
        if tensor in fixed or tensor in self.stored:
            return True
        return any(id(writer) not in movable for writer in writers.get(tensor, ()))

    def _settled(
        self, tensor: Tensor, direct: list[Inst], writers: Mapping[Tensor, list[Inst]], movable: Mapping[int, Inst]
    ) -> bool:
        """Test if all writers of ``tensor`` may move, and whoever stays uses it behind all of them."""
        if any(id(writer) not in movable for writer in writers[tensor]):
            return False
        last = max(number for number, inst in enumerate(direct) if inst is writers[tensor][-1])
        return all(id(inst) in movable for inst in direct[:last] if any(a.tensor is tensor for a in inst.reads()))


def _loops_of(loop: Loop) -> Iterator[Loop]:
    yield loop
    for each in loop.body:
        if not isinstance(each, Inst):
            yield from _loops_of(each)


def _read_too_soon(direct: list[Inst], tensors: Collection[Tensor]) -> set[Tensor]:
    """The ``tensors`` that no instruction of ``direct`` fills before one reads them."""
    written: set[Tensor] = set()
    found: set[Tensor] = set()
    for inst in direct:
        found.update(a.tensor for a in inst.reads() if a.tensor in tensors and a.tensor not in written)
        written.update(access.tensor for access in inst.writes())
    return found | {tensor for tensor in tensors if tensor not in written}


def _spared(core: CoreProgram, elsewhere: Collection[Tensor]) -> tuple[list[Inst], CoreProgram]:
    """The instructions of ``core`` with the same results as earlier ones, and the core without them."""
    spare = spare_instructions(core, elsewhere)
    if spare is None:
        return [], core
    return spare.instructions, _without(core, spare.instructions, spare.instead, spare.values)


def _without(
    core: CoreProgram, spared: Iterable[Inst], instead: Mapping[TileValue, TileValue], values: TileValues
) -> CoreProgram:
    """``core`` without the instructions ``spared``; users of their results use the results of ``instead``."""
    names = {tensor.name for tensor in core.tensors}
    tiles: dict[TileValue, Tensor] = {}
    """The tiles that stay; one that holds several values becomes one tile for each."""
    for tensor, number in dict.fromkeys(instead.values()):
        parts = values.parts.get(tensor)
        tiles[tensor, number] = tensor if parts is None else tile_like(tensor, names)
    gone = {id(inst) for inst in spared}
    changes: dict[int, tuple[Inst, ...]] = {}
    for inst in core.numbered:
        if id(inst) in gone:
            changes[id(inst)] = ()
            continue
        renamed: dict[Tensor, Tensor] = {}
        for access in (*inst.accesses(), *inst.indexed_by()):
            value = values.of(inst, access.tensor)
            tile = tiles.get(instead.get(value, value))
            if tile is not None and tile is not access.tensor:
                renamed[access.tensor] = tile
        if renamed:
            changes[id(inst)] = (renamed_instruction(inst, renamed),)
    result = with_instructions(core, changes)
    known = {*core.tensors}
    result.tensors = (*core.tensors, *(tile for tile in tiles.values() if tile not in known))
    return result
