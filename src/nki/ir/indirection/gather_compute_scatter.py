"""The parts of an instruction on indirect views: gather dense tiles, compute on them, scatter what it wrote."""

from __future__ import annotations

from dataclasses import dataclass

from nki.ir.instruction import Inst
from nki.ir.types import Access


@dataclass(frozen=True, slots=True)
class IndirectOperand:
    """An operand whose elements run-time offsets choose, and the dense tile that the computation uses instead.

    ``order`` is its number among the operands with a run-time index. ``predicated``: only the elements that a predicate
    selects are scattered.
    """

    operand: Access
    dense: Access
    order: int
    reads: bool
    writes: bool
    predicated: bool = False


@dataclass(frozen=True, slots=True)
class GatherComputeScatter:
    """An instruction on indirect views in three steps; meaning: :mod:`nki.ir.indirection.gather_offsets`.

    ``compute`` is the instruction on dense tiles, ``copies`` run after it and before anything is scattered. ``mask`` is
    the dense predicate of a predicated copy; ``zeros_select``: its zeros select, not its other elements.
    """

    inst: Inst
    operands: tuple[IndirectOperand, ...]
    compute: Inst
    copies: tuple[Inst, ...] = ()
    mask: Access | None = None
    zeros_select: bool = False

    @property
    def parts(self) -> tuple[Inst, ...]:
        """The ordinary instructions among the steps."""
        return (self.compute, *self.copies)
