"""``nl.device_print``: the contents of a tensor, shown while the kernel runs."""

from __future__ import annotations

from typing import Any

from nki.base.errors import ArgumentError, MemoryRegionError
from nki.cost import dma_costs
from nki.ir.algebra import Algebra
from nki.ir.effects import Effects
from nki.ir.estimate import Estimate
from nki.ir.instruction import Inst, instruction
from nki.ir.sample import COMPUTING, Draw
from nki.ir.types import Buffer, In, Tile
from nki.isa.rules.operand_rules import rule
from nki.isa.tables import enums
from nki.target.model import Target

_SOURCE = "NKI reference, nki.language.device_print"


@instruction(engines=(enums.engine.dma,), public=False, effects=Effects(prints=True, scalar_registers=("src",)))
class DevicePrint(Inst):
    """Show ``src``, a tensor in SBUF or HBM or a register, behind ``prefix``.

    It goes to standard output with the core and the number of the print; see ``nki.base.tensor_text`` for files.
    """

    prefix: str
    src: In[Tile]

    rules = (
        rule(
            "DP01",
            "src '{i.src.name}' is in psum, which cannot be shown",
            lambda i, t: i.src.buffer is not Buffer.psum,
            _SOURCE,
            error=MemoryRegionError,
            fix="copy it to SBUF first",
        ),
        rule(
            "DP02",
            "the prefix is empty",
            lambda i, t: bool(i.prefix),
            _SOURCE,
            error=ArgumentError,
            fix="pass a text that tells this print from others",
        ),
    )

    def semantics(self, m: Algebra[Any]) -> None:
        m.show(self.prefix, m.flat(self.src), self.src.shape)

    def cost(self, target: Target) -> Estimate:
        """One transfer of ``src``."""
        why = "a copy to the host; its time is not the kernel's"
        return dma_costs.transfer(self.src, (self.src,), target, kind="guess", source=why)

    @classmethod
    def sample(cls, draw: Draw) -> DevicePrint:
        tile = draw.tile(draw.choice((1, 2, 5)), draw.choice((1, 3)), draw.choice(COMPUTING))
        return cls("a sample", tile if draw.flag() else draw.hbm((3, 4), draw.choice(COMPUTING)))
