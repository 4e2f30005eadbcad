"""``nisa.core_barrier``: the cores of a launch wait for each other."""

from __future__ import annotations

from typing import Any

from nki.base.errors import ArgumentError, EngineError, MemoryRegionError
from nki.cost import engines as cost
from nki.ir.algebra import Algebra
from nki.ir.effects import Barrier, Effects
from nki.ir.estimate import Estimate
from nki.ir.instruction import Inst, instruction
from nki.ir.sample import COMPUTING, Draw
from nki.ir.types import Access, Buffer, Ordered, Tensor, Tile
from nki.isa.rules.operand_rules import exists_from, rule
from nki.isa.tables import enums
from nki.target.model import Target

_E = enums.engine
_SOURCE = "NKI reference, nki.isa.core_barrier"


@instruction(
    engines=(_E.gpsimd, _E.tensor, _E.vector, _E.scalar, _E.sync),
    effects=Effects(barrier=lambda i: Barrier(i.together(), i.data, f"cores={i.cores}")),
)
class CoreBarrier(Inst):
    """Wait until every one of ``cores`` has reached its barrier for ``data``.

    ``data`` is what the cores share: a tensor in ``nl.shared_hbm`` (real kernels also name a tile on chip; then the
    barrier orders that tile's instructions on this core). All that a core has done to ``data`` before its barrier is
    done when the others go on. ``cores`` is ``(0, 1)``; ``(0,)`` on one core does not wait. Only ``engine`` waits.
    Since NeuronCore-v3.
    """

    data: Ordered[Tile]
    cores: tuple[int, ...] | int
    engine: enums.engine = _E.gpsimd
    name: str | None = None

    rules = (
        exists_from(3, _SOURCE),
        rule(
            "CB01",
            "cores={i.cores} are not the numbers of cores that share memory: 0, or 0 and 1",
            lambda i, t: sorted(i.together()) in [list(range(n + 1)) for n in range(t.logical_core_max)],
            _SOURCE,
            error=ArgumentError,
            fix="pass cores=(0, 1)",
        ),
        rule(
            "CB02",
            "engine={i.engine.name} has no sequencer that could wait",
            lambda i, t: i.engine not in (_E.unknown, _E.dma),
            _SOURCE,
            error=EngineError,
            fix="leave engine out (GpSimd), or name the engine that is to wait",
        ),
        rule(
            "CB03",
            "data '{i.data.name}' is in {i.data.buffer.value}, which each core has for itself",
            lambda i, t: i.data.buffer is Buffer.shared_hbm or i.data.buffer.on_chip,
            _SOURCE,
            error=MemoryRegionError,
            fix="allocate what cores share with buffer=nl.shared_hbm",
        ),
    )

    def together(self) -> tuple[int, ...]:
        """The cores of the barrier."""
        return self.cores if isinstance(self.cores, tuple) else (self.cores,)

    def semantics(self, m: Algebra[Any]) -> None:
        m.barrier(self.together(), self.data.name)

    def cost(self, target: Target) -> Estimate:
        """One instruction of the sequencer and a semaphore from the other core, when both have come."""
        return cost.barrier(self, target)

    @classmethod
    def sample(cls, draw: Draw) -> CoreBarrier:
        like = draw.hbm((4, 8), draw.choice(COMPUTING)).tensor
        shared = Access.whole(Tensor(like.name, like.shape, like.dtype, Buffer.shared_hbm))
        return cls(shared, (0,), draw.choice((_E.gpsimd, _E.vector, _E.sync)))
