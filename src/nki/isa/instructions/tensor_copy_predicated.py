"""``nisa.tensor_copy_predicated``."""

from __future__ import annotations

from typing import Any

from nki.base.element_types import uint32
from nki.base.errors import ArgumentError, DTypeError
from nki.cost import engines as cost
from nki.ir.algebra import Algebra, as_moved
from nki.ir.effects import Effects, Predicate
from nki.ir.estimate import Estimate
from nki.ir.instruction import Inst, instruction
from nki.ir.sample import COMPUTING, INTEGERS, Draw
from nki.ir.types import In, InOut, Scalar, Tile
from nki.isa.rules.indirection import indirection
from nki.isa.rules.operand_rules import holds, not_both_psum, rule, same_elements, same_partitions, tiles
from nki.isa.tables import enums
from nki.target.model import Target

_SOURCE = "NKI reference, nki.isa.tensor_copy_predicated"


@instruction(
    engines=(enums.engine.vector,),
    effects=Effects(
        predicate=lambda i: Predicate(i.dst, i.predicate, i.reverse_pred), element_indexed=("dst", "predicate")
    ),
)
class TensorCopyPredicated(Inst):
    """Copy ``src`` (a tile like ``dst``, or a number) to ``dst`` where ``predicate`` is not zero; leave the rest.

    ``reverse_pred`` copies where it is zero. ``src`` has the dtype of ``dst``; ``predicate`` is uint8, uint16 or
    uint32. ``src`` and ``predicate`` are not both in PSUM. On gen4 ``dst`` and ``predicate`` may be indirect views:
    only what the predicate chooses is scattered.
    """

    dst: InOut[Tile]
    src: Scalar | In[Tile]
    predicate: In[Tile]
    reverse_pred: bool = False
    name: str | None = None

    rules = (
        *tiles("dst", "src", any_dtype=True),
        *tiles("predicate"),
        same_partitions("dst", "src", "predicate"),
        same_elements("dst", "src", "predicate"),
        not_both_psum("src", "predicate"),
        rule(
            "CP01",
            "predicate '{i.predicate.name}' is {i.predicate.dtype}, not uint8, uint16 or uint32",
            lambda i, t: i.predicate.dtype.kind == "u",
            _SOURCE,
            error=DTypeError,
            fix="write the comparison into an unsigned tile",
        ),
        rule(
            "CP02",
            "src is {o[src]}, dst is {o[dst]}; their dtypes must be equal",
            lambda i, t: not isinstance(i.src, Tile) or i.src.dtype is i.dst.dtype,
            _SOURCE,
            error=DTypeError,
            fix="convert src with nisa.tensor_copy first",
        ),
        rule(
            "CP03",
            "src={i.src} cannot be stored in '{i.dst.name}' of dtype {i.dst.dtype}",
            lambda i, t: isinstance(i.src, Tile) or (i.dst.dtype.computes and holds(i.dst.dtype, i.src)),
            f"{_SOURCE}: src and dst share the dtype",
            error=ArgumentError,
            fix="pass a number that the dtype has: whole and in range for integers; fill packed tiles from a tile",
            by_value=True,
        ),
        *indirection("dst", "predicate"),
    )

    def semantics(self, m: Algebra[Any]) -> None:
        selected = m.alu("equal" if self.reverse_pred else "not_equal", m.load(self.predicate), m.const(0, uint32))
        new = m.load(as_moved(self.src)) if isinstance(self.src, Tile) else m.const(self.src, self.dst.dtype)
        m.store(as_moved(self.dst), m.select(selected, new, m.load(as_moved(self.dst))))

    def cost(self, target: Target) -> Estimate:
        """``max(64, f N) + issue`` Vector cycles for N elements per partition; f = 1 if one source is in PSUM, else as
        for two tiles of 32 bits in SBUF.
        """
        src = self.src if isinstance(self.src, Tile) else None
        cycles, origin = cost.selecting_cycles(src, self.predicate, target)
        elements = self.dst.free_elements
        return cost.streaming(self, target, elements, "tensor_copy_predicated", cycles, origin=origin)

    @classmethod
    def sample(cls, draw: Draw) -> TensorCopyPredicated:
        partitions, free = draw.partitions(), draw.free()
        dtype = draw.choice(COMPUTING)
        whole = dtype.is_integer or dtype.kind == "b"
        src = draw.tile(partitions, free, dtype) if whole or draw.flag() else draw.number()
        predicate = draw.tile(partitions, free, draw.choice([d for d in INTEGERS if d.kind == "u"]))
        return cls(draw.tile(partitions, free, dtype), src, predicate, draw.flag())
