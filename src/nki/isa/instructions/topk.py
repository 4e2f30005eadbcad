"""``nisa.topk``: the largest numbers of a list that lies across 16 partitions."""

from __future__ import annotations

from typing import Any

from nki.base.element_types import bfloat16, uint32
from nki.base.errors import ArgumentError, PartitionError, ShapeError
from nki.cost import engines as cost
from nki.ir.algebra import Algebra
from nki.ir.effects import Effects
from nki.ir.estimate import Estimate
from nki.ir.instruction import Inst, instruction
from nki.ir.sample import Draw
from nki.ir.types import Access, Buffer, In, Out, Tile
from nki.isa.rules.operand_rules import buffer, dtypes, rule, same_elements, same_partitions, tiles
from nki.isa.tables import enums
from nki.target.memory_spaces import GPSIMD_CORE
from nki.target.model import Target

_SOURCE = "NKI reference, nki.isa.topk"


def _snake(access: Access, first: int, columns: int, partitions: int = GPSIMD_CORE) -> Access:
    """``columns`` columns of a tile, each down the 16 ``partitions`` of a group: one row for every group."""
    over, along = access.strides
    shape, strides = (access.partitions // GPSIMD_CORE, columns, partitions), (GPSIMD_CORE * over, along, over)
    return Access(access.tensor, access.offset + first * along, shape, strides, access.dtype)


@instruction(engines=(enums.engine.gpsimd,), effects=Effects(partial=lambda i: True))
class Topk(Inst):
    """The K largest of ``n`` numbers, and their positions, for each group of 16 partitions.

    A group's numbers lie in its 16 partitions of ``src`` column by column: number s is in partition s % 16, element
    s // 16. Of its first ``n`` the K largest go to ``val_dst`` in ascending order, and their numbers s to ``idx_dst``,
    both laid out in the same way; the rest of ``val_dst`` and ``idx_dst`` is left alone. K is the elements per
    partition of ``val_dst``, so that a sixteenth of it is used. Tiles are in SBUF: ``src`` and ``val_dst`` bfloat16,
    ``idx_dst`` uint32. Of equal numbers the one that stands earlier counts as the larger; -0 is below +0 and NaN above
    all. (The reference leaves ties open; that results are spread over the group shows in the kernels of the vendor's
    library, which rely on neither order.)
    """

    val_dst: Out[Tile]
    idx_dst: Out[Tile]
    src: In[Tile]
    n: int
    name: str | None = None

    rules = (
        *tiles("val_dst", "idx_dst", "src"),
        buffer("val_dst", Buffer.sbuf),
        buffer("idx_dst", Buffer.sbuf),
        buffer("src", Buffer.sbuf),
        dtypes("val_dst", bfloat16),
        dtypes("idx_dst", uint32),
        dtypes("src", bfloat16),
        same_partitions("val_dst", "idx_dst", "src"),
        same_elements("val_dst", "idx_dst"),
        rule(
            "TK01",
            "src '{i.src.name}' has {i.src.partitions} partitions, not a multiple of 16",
            lambda i, t: i.src.partitions % t.gpsimd_core_partitions == 0,
            _SOURCE,
            error=PartitionError,
            fix="use whole groups of 16 partitions",
        ),
        rule(
            "TK02",
            "tiles of topk have two dimensions: val_dst is {o[val_dst]}, idx_dst is {o[idx_dst]}, src is {o[src]}",
            lambda i, t: all(a.ndim == 2 for a in (i.val_dst, i.idx_dst, i.src)),
            _SOURCE,
            error=ShapeError,
            fix="reshape them to (partitions, elements)",
        ),
        rule(
            "TK03",
            "n={i.n} is outside {t.topk_numbers_min} to {t.topk_numbers_max}",
            lambda i, t: t.topk_numbers_min <= i.n <= t.topk_numbers_max,
            _SOURCE,
            error=ArgumentError,
            fix="split a longer list, and combine the results with another topk",
        ),
        rule(
            "TK04",
            "n={i.n} numbers do not fit in 16 partitions of src {o[src]}",
            lambda i, t: i.n <= t.gpsimd_core_partitions * i.src.free_elements,
            _SOURCE,
            error=ShapeError,
            fix="give src n / 16 elements per partition, rounded up",
        ),
        rule(
            "TK05",
            "val_dst '{i.val_dst.name}' {i.val_dst.shape} asks for {i.val_dst.free_elements} of n={i.n} numbers; up to "
            "{t.topk_results_max} of them are given",
            lambda i, t: i.val_dst.free_elements <= min(i.n, t.topk_results_max),
            _SOURCE,
            error=ShapeError,
            fix="make val_dst and idx_dst narrower",
        ),
    )

    def semantics(self, m: Algebra[Any]) -> None:
        numbers = m.strided(m.load(_snake(self.src, 0, self.src.free_elements)), 0, 1, self.n)
        count = self.val_dst.free_elements
        places = m.ranked(numbers, count)
        whole, rest = divmod(count, GPSIMD_CORE)
        for target, results in ((self.val_dst, m.gather(numbers, places)), (self.idx_dst, m.narrow(places, uint32))):
            if whole:
                m.store(_snake(target, 0, whole), m.strided(results, 0, 1, whole * GPSIMD_CORE))
            if rest:
                m.store(_snake(target, whole, 1, rest), m.strided(results, whole * GPSIMD_CORE, 1))

    def cost(self, target: Target) -> Estimate:
        """``4 n + K + issue`` GpSimd cycles: K results per partition of ``val_dst``."""
        cycles = 4.0 * self.n + self.val_dst.free_elements
        return cost.pipelined(self, target, cycles, "docs", _SOURCE)

    @classmethod
    def sample(cls, draw: Draw) -> Topk:
        partitions, columns = draw.choice((16, 32, 64, 128)), draw.choice((1, 2, 3, 16))
        n = draw.integer(max(draw.target.topk_numbers_min, GPSIMD_CORE * (columns - 1)), GPSIMD_CORE * columns)
        count = draw.choice((1, n, draw.integer(1, n)))
        source = draw.block(partitions, (columns,), bfloat16)
        return cls(draw.block(partitions, (count,), bfloat16), draw.block(partitions, (count,), uint32), source, n)
