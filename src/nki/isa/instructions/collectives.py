"""Collectives among ranks; ``nki.collectives`` has their functions, which take lists of tensors.

On a launch of two cores both call a collective. In memory that they share, one exchange serves the rank; of its own
memory each core exchanges what it has with the core of its number of the other ranks.
"""

from __future__ import annotations

from typing import Any

from nki.base.element_types import int32
from nki.base.errors import ArgumentError
from nki.cost import collectives, engines
from nki.ir.algebra import Algebra
from nki.ir.effects import Collective, Effects
from nki.ir.estimate import Estimate
from nki.ir.instruction import Inst, Rule, instruction
from nki.ir.loop import is_register
from nki.ir.sample import COMPUTING, Draw
from nki.ir.types import Access, In, Index, Out, Tile
from nki.isa.rules.collectives import (
    Groups,
    along,
    combiner,
    equal_groups,
    meets,
    operands,
    part_of,
    reduces,
    rounded,
    shaped,
)
from nki.isa.rules.collectives import size as size_of
from nki.isa.rules.operand_rules import rule
from nki.isa.tables import enums
from nki.isa.tables.operators import AluOp, named
from nki.target.model import Target

_ENGINES = (enums.side_engine.collectives,)
_ONE: Groups = ((0,),)
_SAME = "a destination has the shape of its source"


def _sent(i: Any) -> int:
    """Bytes of the sources of one rank."""
    return sum(src.nbytes for src in i.srcs)


def _tensors(draw: Draw, *shapes: tuple[int, ...], sbuf: bool) -> list[Access]:
    """Tensors of one dtype, all in SBUF or all in HBM."""
    dtype = draw.choice(COMPUTING)
    if sbuf and draw.flag():
        return [draw.block(shape[0], shape[1:], dtype) for shape in shapes]
    return [draw.hbm(shape, dtype) for shape in shapes]


@instruction(engines=_ENGINES, public=False, effects=meets(lambda i: (f"op {i.op.name}",)))
class AllReduce(Inst):
    """Each of ``dsts`` becomes the sum, minimum or maximum of its source over the ranks of the group, in their order.

    Floats are combined in float32 and converted once, integers in 32 bits.
    """

    dsts: Out[tuple[Tile, ...]]
    srcs: In[tuple[Tile, ...]]
    groups: Groups
    op: AluOp
    priority: int | None = None
    name: str | None = None

    rules = (
        *operands("all_reduce", sbuf=True, coalesced=True),
        reduces("all_reduce"),
        shaped("all_reduce", _SAME, lambda i, s, d: s.shape == d.shape, "make both of one shape"),
    )
    size = property(size_of)

    def semantics(self, m: Algebra[Any]) -> None:
        for src, dst in zip(self.srcs, self.dsts, strict=True):
            total = m.fold_ranks(m.flat(src), size_of(self), combiner(m, self.op.name, src))
            m.store(dst, rounded(m, total, dst))

    def cost(self, target: Target) -> Estimate:
        """The fastest algorithm for the group, at the rates of its links."""
        return collectives.of_groups("all_reduce", _sent(self), self.groups, target)

    @classmethod
    def sample(cls, draw: Draw) -> AllReduce:
        src, dst = _tensors(draw, *[(8, 6)] * 2, sbuf=True)
        return cls((dst,), (src,), _ONE, named(draw.choice(("add", "minimum", "maximum"))))


@instruction(engines=_ENGINES, public=False, effects=meets(lambda i: (f"collective_dim {i.collective_dim}",)))
class AllGather(Inst):
    """Each of ``dsts`` becomes the sources of the group, one behind the other along ``collective_dim``."""

    dsts: Out[tuple[Tile, ...]]
    srcs: In[tuple[Tile, ...]]
    groups: Groups
    collective_dim: int
    priority: int | None = None
    name: str | None = None

    rules = (
        *operands("all_gather", sbuf=True, coalesced=True),
        along("all_gather", sbuf=(0, 1)),
        rule(
            "CL11",
            "srcs are {o[srcs]}: in SBUF all_gather takes tensors of 2 dimensions",
            lambda i, t: all(a.buffer.is_hbm or a.ndim == 2 for a in i.accesses()),
            "NKI reference, nki.collectives: all_gather",
            fix="flatten the free dimensions with reshape",
        ),
        shaped(
            "all_gather",
            "a destination is as many times as long as its source along collective_dim",
            lambda i, s, d: _scaled(s, i.collective_dim, size_of(i)) == d.shape,
            "multiply the size of the destination along collective_dim by the number of ranks",
        ),
    )
    size = property(size_of)

    def semantics(self, m: Algebra[Any]) -> None:
        for src, dst in zip(self.srcs, self.dsts, strict=True):
            for number, value in enumerate(m.gather_ranks(m.flat(src), size_of(self))):
                m.store(part_of(dst, self.collective_dim, number, size_of(self)), value)

    def cost(self, target: Target) -> Estimate:
        """The fastest algorithm for the group, at the rates of its links."""
        return collectives.of_groups("all_gather", _sent(self), self.groups, target)

    @classmethod
    def sample(cls, draw: Draw) -> AllGather:
        src, dst = _tensors(draw, *[(8, 6)] * 2, sbuf=True)
        return cls((dst,), (src,), _ONE, draw.choice((0, 1)) if src.buffer.on_chip else 0)


def _scaled(access: Access, dim: int, count: int) -> tuple[int, ...]:
    return tuple([size * count if place == dim else size for place, size in enumerate(access.shape)])


@instruction(engines=_ENGINES, public=False, effects=meets(lambda i: (f"op {i.op.name}",)))
class ReduceScatter(Inst):
    """Each of ``dsts`` becomes this rank's part along dimension 0 of its source, reduced over the group.

    Arithmetic is as in :class:`AllReduce`.
    """

    dsts: Out[tuple[Tile, ...]]
    srcs: In[tuple[Tile, ...]]
    groups: Groups
    collective_dim: int
    op: AluOp
    priority: int | None = None
    name: str | None = None

    rules = (
        *operands("reduce_scatter", sbuf=True, coalesced=True),
        along("reduce_scatter"),
        reduces("reduce_scatter"),
        shaped(
            "reduce_scatter",
            "a source is as many times as long as its destination along dimension 0",
            lambda i, s, d: _scaled(d, 0, size_of(i)) == s.shape,
            "divide the first size of the source by the number of ranks for the destination",
        ),
    )
    size = property(size_of)

    def semantics(self, m: Algebra[Any]) -> None:
        for src, dst in zip(self.srcs, self.dsts, strict=True):
            total, *others = m.exchange_parts(m.flat(src), size_of(self))
            combine = combiner(m, self.op.name, src)
            for other in others:
                total = combine(total, other)
            m.store(dst, rounded(m, total, dst))

    def cost(self, target: Target) -> Estimate:
        """The fastest algorithm for the group, at the rates of its links."""
        return collectives.of_groups("reduce_scatter", _sent(self), self.groups, target)

    @classmethod
    def sample(cls, draw: Draw) -> ReduceScatter:
        src, dst = _tensors(draw, *[(8, 6)] * 2, sbuf=True)
        return cls((dst,), (src,), _ONE, 0, named(draw.choice(("add", "minimum", "maximum"))))


@instruction(engines=_ENGINES, public=False, effects=meets())
class AllToAll(Inst):
    """Part r of each source goes to rank r of the group; parts come in the order of their ranks.

    The parts are runs of the elements in row-major order, which in HBM are parts along dimension 0. Kernels also pass a
    destination of another shape (public kernels of the vendor).
    """

    dsts: Out[tuple[Tile, ...]]
    srcs: In[tuple[Tile, ...]]
    groups: Groups
    collective_dim: int
    priority: int | None = None
    name: str | None = None

    rules = (
        *operands("all_to_all"),
        along("all_to_all"),
        shaped(
            "all_to_all",
            "a destination has as many elements as its source, and the ranks divide their number",
            lambda i, s, d: s.size == d.size and not s.size % size_of(i),
            "make both of one size that the number of ranks divides",
        ),
    )
    size = property(size_of)

    def semantics(self, m: Algebra[Any]) -> None:
        for src, dst in zip(self.srcs, self.dsts, strict=True):
            m.store(dst, m.stack(m.exchange_parts(m.flat(src), size_of(self)), dst.partitions))

    def cost(self, target: Target) -> Estimate:
        """The fastest algorithm for the group, at the rates of its links."""
        return collectives.of_groups("all_to_all", _sent(self), self.groups, target)

    @classmethod
    def sample(cls, draw: Draw) -> AllToAll:
        src, dst = _tensors(draw, *[(8, 6)] * 2, sbuf=False)
        return cls((dst,), (src,), _ONE, 0)


def _closed(pairs: tuple[tuple[int, int], ...]) -> bool:
    """True if each rank of the pairs receives."""
    return {source for source, _ in pairs} == {target for _, target in pairs}


def _is_explicit(i: Any) -> bool:
    return i.explicit


@instruction(
    engines=_ENGINES,
    public=False,
    effects=meets(lambda i: (f"pairs {i.pairs}",), inactive=_is_explicit, partial=_is_explicit),
)
class CollectivePermute(Inst):
    """The source of each rank goes to the rank that ``pairs``, (source, target) each, name behind it.

    ``srcs`` and ``dsts`` hold one tensor for each channel. ``explicit``: the caller has named the pairs. Then the
    destination of a rank that is no target stays as it is, and a rank in no pair takes no part.
    """

    dsts: Out[tuple[Tile, ...]]
    srcs: In[tuple[Tile, ...]]
    groups: Groups
    pairs: tuple[tuple[int, int], ...]
    explicit: bool = True
    priority: int | None = None
    name: str | None = None

    rules = (
        *operands("collective_permute", sbuf=True),
        shaped("collective_permute", _SAME, lambda i, s, d: s.shape == d.shape, "make both of one shape"),
        rule(
            "CL12",
            "pairs {i.pairs}: a rank is the source of one pair, and the target of one",
            lambda i, t: all(len({pair[end : end + 1] for pair in i.pairs} - {()}) == len(i.pairs) for end in (0, 1)),
            "NKI reference, nki.collectives: collective_permute",
            error=ArgumentError,
            fix="name each source and each target once, as in [(0, 1), (1, 0)]",
        ),
    )
    size = property(size_of)

    def semantics(self, m: Algebra[Any]) -> None:
        for src, dst in zip(self.srcs, self.dsts, strict=True):
            value = m.flat(src)
            m.store(dst, m.permute_ranks(value, value if _closed(self.pairs) else m.flat(dst), self.pairs))

    def cost(self, target: Target) -> Estimate:
        """The slowest of the pairs."""
        return collectives.permuted(_sent(self), self.pairs, target)

    @classmethod
    def sample(cls, draw: Draw) -> CollectivePermute:
        src, dst = _tensors(draw, *[(8, 6)] * 2, sbuf=True)
        return cls((dst,), (src,), _ONE, ((0, 0),))


@instruction(engines=_ENGINES, public=False, effects=meets(lambda i: (f"op {i.op.name}", f"pairs {i.pairs}")))
class CollectivePermuteReduce(Inst):
    """Like :class:`CollectivePermute`, of each of ``srcs`` combined with the one of ``others`` at its place."""

    dsts: Out[tuple[Tile, ...]]
    srcs: In[tuple[Tile, ...]]
    others: In[tuple[Tile, ...]]
    groups: Groups
    pairs: tuple[tuple[int, int], ...]
    op: AluOp
    priority: int | None = None
    name: str | None = None

    rules = (
        *operands("collective_permute_implicit_reduce", sbuf=True),
        reduces("collective_permute_implicit_reduce"),
        shaped(
            "collective_permute_implicit_reduce", _SAME, lambda i, s, d: s.shape == d.shape, "make both of one shape"
        ),
        rule(
            "CL13",
            "srcs0 are {o[srcs]}, srcs1 are {o[others]}: both have the same shapes and dtypes",
            lambda i, t: [(a.shape, a.dtype) for a in i.srcs] == [(a.shape, a.dtype) for a in i.others],
            "NKI reference, nki.collectives: collective_permute_implicit_reduce",
            fix="make both of one shape and dtype",
        ),
    )
    size = property(size_of)

    def semantics(self, m: Algebra[Any]) -> None:
        for src, other, dst in zip(self.srcs, self.others, self.dsts, strict=True):
            combined = combiner(m, self.op.name, src)(m.flat(src), m.flat(other))
            value = rounded(m, combined, dst)
            m.store(dst, m.permute_ranks(value, value, self.pairs))

    def cost(self, target: Target) -> Estimate:
        """The slowest of the pairs."""
        return collectives.permuted(_sent(self), self.pairs, target)

    @classmethod
    def sample(cls, draw: Draw) -> CollectivePermuteReduce:
        src, other, dst = _tensors(draw, *[(8, 6)] * 3, sbuf=True)
        return cls((dst,), (src,), (other,), _ONE, ((0, 0),), named(draw.choice(("add", "minimum", "maximum"))))


_PROCESSING = "NKI reference, nki.collectives: collective_permute_implicit_current_processing_rank_id"


def _to_register(source: str) -> Rule:
    """The rule of ``dst``."""
    return rule(
        "CL14",
        "dst is {o[dst]} and not a register",
        lambda i, t: is_register(i.dst),
        source,
        error=ArgumentError,
        fix="pass a register",
    )


_ASKS = Effects(collective=lambda _: Collective(), scalar_registers=("dst",))


@instruction(engines=(enums.engine.sync,), public=False, effects=_ASKS)
class RankId(Inst):
    """``dst``, a register, becomes the number of this rank among all of the launch."""

    dst: Out[Tile]
    name: str | None = None

    rules = (_to_register("NKI reference, nki.collectives: rank_id"),)

    def semantics(self, m: Algebra[Any]) -> None:
        m.store(self.dst, m.rank())

    def cost(self, target: Target) -> Estimate:
        """One instruction of the sequencer."""
        return engines.fixed(self, target, target.sequencer_ns, *target.origin("sequencer_ns"))

    @classmethod
    def sample(cls, draw: Draw) -> RankId:
        return cls(draw.register())


@instruction(
    engines=(enums.engine.sync,),
    public=False,
    effects=Effects(collective=lambda i: Collective(places=i.groups), scalar_registers=("dst", "iteration")),
)
class ProcessingRankId(Inst):
    """``dst``, a register, becomes the rank that owns what reaches this one after ``iteration`` steps of the ring.

    The ring is the group in its order; data come from the predecessor, so it counts backwards from this rank.
    """

    dst: Out[Tile]
    iteration: Index | In[Tile]
    groups: Groups
    name: str | None = None

    rules = (
        equal_groups(_PROCESSING),
        _to_register(_PROCESSING),
    )

    def semantics(self, m: Algebra[Any]) -> None:
        count, ranks = len(self.groups[0]), 1 + max(map(max, self.groups))
        flat = [rank for group in self.groups for rank in group]
        first, place = [0] * ranks, [0] * ranks
        for number, rank in enumerate(flat):
            first[rank], place[rank] = number - number % count, number % count

        def table(numbers: list[int]) -> Any:
            return m.stack([m.const(number, int32) for number in numbers], 1)

        rank = m.rank()
        step = m.load(self.iteration) if isinstance(self.iteration, Access) else m.const(self.iteration, int32)
        ahead = m.integer(
            "subtract", m.gather(table(place), rank), m.cast(m.alu("mod", step, m.const(count, int32)), int32), int32
        )
        around = m.cast(
            m.alu("mod", m.integer("add", ahead, m.const(count, int32), int32), m.const(count, int32)), int32
        )
        owner = m.gather(table(flat), m.integer("add", m.gather(table(first), rank), around, int32))
        m.store(self.dst, owner)

    def cost(self, target: Target) -> Estimate:
        """One instruction of the sequencer."""
        return engines.fixed(self, target, target.sequencer_ns, *target.origin("sequencer_ns"))

    @classmethod
    def sample(cls, draw: Draw) -> ProcessingRankId:
        return cls(draw.register(), draw.register() if draw.flag() else draw.integer(0, 9), _ONE)
