"""``nisa.bn_stats`` and ``nisa.bn_aggr``: mean and variance per partition."""

from __future__ import annotations

from typing import Any

from nki.base.element_types import float32
from nki.base.errors import ShapeError
from nki.cost import engines as cost
from nki.ir.algebra import Algebra
from nki.ir.estimate import Estimate
from nki.ir.instruction import Inst, instruction
from nki.ir.sample import FLOATS, Draw
from nki.ir.types import In, Out, Tile
from nki.isa.rules.operand_rules import rule, same_partitions, tiles
from nki.isa.tables import enums
from nki.target.model import Target


@instruction(engines=(enums.engine.vector,))
class BnStats(Inst):
    """Six numbers per partition: count, mean and count times variance of the even elements, then of the odd ones.

    ``data`` has at most 512 elements per partition, ``dst`` six. Float32: the mean is the sequential sum divided by the
    count, the third number the sequential sum of squared deviations from it. No odd element gives three zeros.
    """

    dst: Out[Tile]
    data: In[Tile]
    name: str | None = None

    rules = (
        *tiles("dst", "data"),
        same_partitions("dst", "data"),
        rule(
            "BN01",
            "data '{i.data.name}' has {i.data.free_elements} elements per partition; bn_stats takes up to "
            "{t.bn_stats_free_max}",
            lambda i, t: i.data.free_elements <= t.bn_stats_free_max,
            "NKI reference, nki.isa.bn_stats",
            error=ShapeError,
            fix="run it on pieces of nl.tile_size.bn_stats_fmax and combine them with one nisa.bn_aggr",
        ),
        rule(
            "BN02",
            "dst '{i.dst.name}' {i.dst.shape} does not have 6 elements per partition",
            lambda i, t: i.dst.free_elements == 6,
            "NKI reference, nki.isa.bn_stats",
            error=ShapeError,
            fix="pass a tile, or a slice, of shape ({i.data.partitions}, 6)",
        ),
    )

    def semantics(self, m: Algebra[Any]) -> None:
        value = m.cast(m.load(self.data), float32)
        counts = [(self.data.free_elements + 1 - start) // 2 for start in (0, 1)]
        parts = [m.strided(value, start, 2) for start, count in enumerate(counts) if count]
        # Sums of both halves follow each other: native code reads a row once for both.
        sums = [m.reduce("add", part) for part in parts]
        means = [m.alu("divide", total, m.const(float(n), float32)) for total, n in zip(sums, counts, strict=False)]
        spreads = [
            m.reduce("add", m.alu("square", m.alu("subtract", part, mean)))
            for part, mean in zip(parts, means, strict=True)
        ]
        columns: list[Any] = []
        for count, mean, spread in zip(counts, means, spreads, strict=False):
            columns += [m.const(float(count), float32), mean, spread]
        columns += [m.const(0.0, float32)] * (6 - len(columns))
        for index, column in enumerate(columns):
            m.store(m.column(self.dst, index), m.cast(column, self.dst.dtype))

    def cost(self, target: Target) -> Estimate:
        """``max(64, N) + issue`` Vector cycles for N elements of ``data`` per partition."""
        return cost.streaming(self, target, self.data.free_elements, "bn_stats")

    @classmethod
    def sample(cls, draw: Draw) -> BnStats:
        partitions = draw.partitions()
        data = draw.tile(partitions, draw.free(), draw.choice(FLOATS[:3]))
        return cls(draw.tile(partitions, 6, draw.choice(FLOATS[:3])), data)


@instruction(engines=(enums.engine.vector,))
class BnAggr(Inst):
    """Combine triples ``(count, mean, count * variance)`` into the mean and the variance of all their elements.

    ``data`` has a multiple of three elements per partition, ``dst`` two. Float32: sums over the triples are sequential;
    the variance is the population variance.
    """

    dst: Out[Tile]
    data: In[Tile]
    name: str | None = None

    rules = (
        *tiles("dst", "data"),
        same_partitions("dst", "data"),
        rule(
            "BN03",
            "data '{i.data.name}' has {i.data.free_elements} elements per partition, not a multiple of 3",
            lambda i, t: i.data.free_elements % 3 == 0,
            "NKI reference, nki.isa.bn_aggr",
            error=ShapeError,
            fix="pass whole bn_stats results (6 elements each)",
        ),
        rule(
            "BN04",
            "dst '{i.dst.name}' {i.dst.shape} does not have 2 elements per partition (mean, variance)",
            lambda i, t: i.dst.free_elements == 2,
            "NKI reference, nki.isa.bn_aggr",
            error=ShapeError,
            fix="pass a tile of shape ({i.data.partitions}, 2)",
        ),
    )

    def semantics(self, m: Algebra[Any]) -> None:
        value = m.cast(m.load(self.data), float32)
        count, mean, spread = (m.strided(value, start, 3) for start in range(3))
        total = m.reduce("add", count)
        center = m.alu("divide", m.reduce("add", m.alu("multiply", count, mean)), total)
        off = m.alu("multiply", count, m.alu("square", m.alu("subtract", mean, center)))
        variance = m.alu("divide", m.reduce("add", m.alu("add", spread, off)), total)
        m.store(m.column(self.dst, 0), m.cast(center, self.dst.dtype))
        m.store(m.column(self.dst, 1), m.cast(variance, self.dst.dtype))

    def cost(self, target: Target) -> Estimate:
        """``max(64, 13/3 N) + issue`` Vector cycles for N elements of ``data`` per partition."""
        return cost.streaming(self, target, self.data.free_elements, "bn_aggr", 13 / 3)

    @classmethod
    def sample(cls, draw: Draw) -> BnAggr:
        partitions = draw.partitions()
        data = draw.tile(partitions, draw.choice((3, 6, 12, 24)), float32)
        return cls(draw.tile(partitions, 2, draw.choice(FLOATS[:3])), data)
