"""Load the operands of matmuls once, or not at all.

A tiled matmul in the plain way loads each tile of an operand once for every row or column of tiles of the result. On
the chip memory is short; a CPU has more. Loads of one window of an input, or of a constant, into tiles that only
matmuls read become one load; its tile lives until its last reader. Of such loads the ones with the nearest readers
are shared first, as long as all shared tiles together need no more than :data:`_MOST_BYTES` at any time.

Weights with more rows than there are partitions are loaded part by part, side by side in one tile. Matmuls read the
input instead, if each reads within one part: a matmul makes the copy of an operand that it wants, of what it reads and
at the time. So does the only matmul that reads a tile as its moving operand.

What loops or run-time indices touch is not changed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from nki.analysis.liveness import Span, shortest_that_fit
from nki.analysis.uses import Use, Uses, is_matmul, uses_of, with_effect
from nki.ir.program import CoreProgram, Program
from nki.ir.types import Access, Buffer, Tensor
from nki.ir.windows import has_dense_rows, is_all, side_by_side
from nki.target.model import Target
from nki.transforms.rewriter import Rewriter, RewritingStage, in_other, in_place_of, never_written, plain_copy

_MOST_BYTES: Final = 48 << 20
"""Bytes of shared tiles that live at one time; a launch may take 64 MiB more than tensors and tiles do."""


@dataclass(frozen=True)
class ShareLoads(RewritingStage):
    """Load operands of matmuls once."""

    name: ClassVar[str] = "share_loads"
    about: ClassVar[tuple[str, ...]] = ("accumulation",)

    def transform(self, core: CoreProgram, program: Program, target: Target) -> CoreProgram:  # noqa: ARG002
        """``core`` with shared loads."""
        multiplying = with_effect(core.body, lambda effects: effects.accumulation is not None)
        matmuls = {position: inst for position, inst in multiplying if is_matmul(inst)}
        operands = dict.fromkeys(access.tensor for inst in matmuls.values() for access in inst.accesses())
        fixed = never_written(core, program.signature)
        rewriter = Rewriter(core.body)
        windows: dict[tuple[object, ...], list[Uses]] = {}
        for tile, uses in uses_of(core.body, [each for each in operands if each.buffer is Buffer.sbuf]).items():
            sources = _sources(rewriter, uses, fixed)
            if not sources or not _only_matmuls_read(matmuls, uses):
                continue
            if len(sources) > 1:
                _read_sources(rewriter, uses, sources)
            elif is_all(uses.writes[0][2]):
                source = sources[0]
                window = source.tensor, source.offset, source.form, tile.form
                windows.setdefault(window, []).append(uses)
        for first, *others in windows.values():
            if not others and _is_read_once(rewriter, first):
                _read_sources(rewriter, first, _sources(rewriter, first, fixed))
        _share(rewriter, [same for same in windows.values() if len(same) > 1])
        return core.with_body(rewriter.statements())


def _sources(rewriter: Rewriter, uses: Uses, fixed: Collection[Tensor]) -> list[Access]:
    """The windows of ``fixed`` tensors that are loaded to a tile, write by write; empty if anything else writes it."""
    sources: list[Access] = []
    for position, _, own in uses.writes:
        copy = plain_copy(rewriter.inst(position))
        if copy is None or copy.src.tensor not in fixed:
            return []
        source = copy.src
        if not own.tensor.dtype is own.dtype is source.dtype is source.tensor.dtype:
            return []
        sources.append(source)
    return sources


def _only_matmuls_read(matmuls: Collection[int], uses: Uses) -> bool:
    """True if matmuls alone read a tile, as what it is, and not before it is loaded."""
    for position, _, access in uses.reads:
        if position not in matmuls or access.dtype is not access.tensor.dtype:
            return False
    return bool(uses.reads) and uses.writes[0][0] < uses.reads[0][0]


def _is_read_once(rewriter: Rewriter, uses: Uses) -> bool:
    """True if one matmul alone reads a tile, as its moving operand, which it packs or converts in any case."""
    position, number, _ = uses.reads[0]
    inst = rewriter.inst(position)
    return len(uses.reads) == 1 and inst.operands()[number][0].name == inst.effects.moving


def _read_sources(rewriter: Rewriter, uses: Uses, sources: Sequence[Access]) -> None:
    """Let the readers of a tile read the ``sources`` that are loaded to it side by side, if each is within one."""
    parts = side_by_side(zip((own for _, _, own in uses.writes), sources, strict=True))
    moved = in_place_of(uses.reads, parts)
    if moved and all(map(has_dense_rows, sources)) and rewriter.replace(moved):
        for position, _, _ in uses.writes:
            rewriter.put(position, None)


def _share(rewriter: Rewriter, windows: Sequence[Sequence[Uses]]) -> None:
    """Load each of the ``windows``, with which several tiles are filled, once, as many as memory has room for."""
    spans: list[tuple[Span, Sequence[Uses]]] = []
    for same in windows:
        position, _, tile = same[0].writes[0]
        spans.append(((position, max([uses.reads[-1][0] for uses in same]), tile.nbytes), same))
    moved: list[Use] = []
    for _, (first, *others) in shortest_that_fit(spans, len(rewriter.body), _MOST_BYTES):
        for uses in others:
            rewriter.put(uses.writes[0][0], None)
        moved += in_other((read for uses in others for read in uses.reads), first.writes[0][2].tensor)
    rewriter.replace(moved)
