"""The change that gives each round of a loop tiles of its own (performance guide: double buffering)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from nki.analysis.tile_values import filled_again
from nki.base.source import Span
from nki.ir.instruction import Inst
from nki.ir.program import CoreProgram
from nki.ir.types import Tensor
from nki.passes.renaming import renamed_instruction
from nki.profiling.events import CoreEvents
from nki.profiling.suggestions.program_rewrites import ProgramRewrite, tile_like, with_instructions
from nki.profiling.suggestions.suggestion import MOST_LINES
from nki.sim.timing import Timeline
from nki.target.model import Target


class TilesOfRounds(ProgramRewrite):
    """A tile for each value that one tile holds in turn.

    The advice names a tile if, in the changed run, a round fills its own before the last use of the one before is over.
    """

    title = "One tile for all rounds"
    remedy = (
        "make a new tile in each round, inside the loop, so that a round begins while the one before still uses its "
        "own (double buffering)"
    )
    older_remedy = (
        "make the tile inside the loop, which should be nl.affine_range, so that a round begins while the one before "
        "still uses its own"
    )

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.values: dict[int, dict[Tensor, list[list[Inst]]]] = {}
        """By the rank of a core: the tiles that hold several values, and the instructions that use each."""
        self.origins: dict[Tensor, Tensor] = {}
        """The tile that each tile of one value replaces."""
        self.tiles: dict[Tensor, int] = {}
        """The tiles that keep rounds from each other, and their rounds."""

    def evidence(self) -> str:
        names = sorted(f"'{tile.name}'" for tile in self.tiles)
        shown = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
        rounds = max(self.tiles.values())
        verb, memory = ("is", "its") if len(names) == 1 else ("are", "their")
        return f"{shown} {verb} filled {rounds:,} times, and each time waits until {memory} last contents were used"

    def lines(self) -> tuple[Span, ...]:
        by_instructions = super().lines()
        files = {span.file for span in by_instructions}
        tiles = [span for tile in self.tiles if (span := tile.span) is not None and span.file in files]
        return tuple(dict.fromkeys([*(Span(span.file, span.line) for span in tiles), *by_instructions]))[:MOST_LINES]

    def rewritten(self, core: CoreProgram) -> CoreProgram:
        values = self.values[core.rank] = filled_again(core)
        if not values:
            return core
        names = {tensor.name for tensor in core.tensors}
        renamed: defaultdict[int, dict[Tensor, Tensor]] = defaultdict(dict)
        instructions: dict[int, Inst] = {}
        tiles: list[Tensor] = []
        for tensor, parts in values.items():
            self.origins[tensor] = tensor
            for part in parts[1:]:
                tile = tile_like(tensor, names)
                tiles.append(tile)
                self.origins[tile] = tensor
                for inst in part:
                    instructions[id(inst)] = inst
                    renamed[id(inst)][tensor] = tile
        instead = {key: (renamed_instruction(inst, renamed[key]),) for key, inst in instructions.items()}
        changed = with_instructions(core, instead)
        changed.tensors = (*core.tensors, *tiles)
        return changed

    def compare(self, timeline: Timeline) -> None:
        for core in timeline.cores:
            values = self.values[core.core.rank]
            for tensor in self._overlapping(CoreEvents.of(core)):
                self.tiles[tensor] = len(values[tensor])
                for part in values[tensor][1:]:
                    self.note(core.core.rank, part[:1])

    def _overlapping(self, events: CoreEvents) -> Iterator[Tensor]:
        """The tiles with two values in use at one time; each iteration of a loop by itself."""
        found: dict[Tensor, None] = {}
        uses: dict[Tensor, tuple[float, float]] = {}
        tiles = [{a.tensor for a in inst.accesses() if a.tensor in self.origins} for inst in events.instructions]
        last = -1
        numbers: list[int] = events.number.tolist()
        starts, ends = (column.tolist() for column in (events.start, events.end))
        for number, start, end in zip(numbers, starts, ends, strict=True):
            if number < last:
                found |= dict.fromkeys(self._meeting(uses))
                uses.clear()
            last = number
            for tile in tiles[number]:
                first, until = uses.get(tile, (start, end))
                uses[tile] = min(first, start), max(until, end)
        found |= dict.fromkeys(self._meeting(uses))
        yield from found

    def _meeting(self, uses: dict[Tensor, tuple[float, float]]) -> Iterator[Tensor]:
        by_origin: defaultdict[Tensor, list[tuple[float, float]]] = defaultdict(list)
        for tile, span in uses.items():
            by_origin[self.origins[tile]].append(span)
        for origin, spans in by_origin.items():
            spans.sort()
            if any(after[0] < before[1] for before, after in pairwise(spans)):
                yield origin
