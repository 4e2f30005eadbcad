"""Collectives of pieces with sizes that are known when they run: ``all_to_all_v``, ``all_gather_v``, and both in two
steps, prepare and trigger.

A table of uint32 has a column for each rank of the group and these rows: counts and displacements of what this rank
sends, counts of what it receives, displacements of what it receives; all in elements. The declarations have each row as
an operand of its own, since some are read and one is written. A prepared exchange keeps a copy of what it reads of its
table in the one slot that a core has for it, in HBM, and its trigger reads that.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nki.base.element_types import int32, uint32
from nki.base.errors import DTypeError, MemoryRegionError, ShapeError
from nki.cost import collectives, dma_costs
from nki.ir.algebra import Algebra
from nki.ir.effects import NONE, Contents
from nki.ir.estimate import Estimate
from nki.ir.instruction import Inst, Rule, instruction
from nki.ir.sample import COMPUTING, Draw
from nki.ir.types import Access, In, InOut, Out, Tile
from nki.isa.rules.collectives import Groups, equal_groups, meets, no_arguments
from nki.isa.rules.collectives import size as size_of
from nki.isa.rules.dma import PRIORITY
from nki.isa.rules.operand_rules import rule
from nki.isa.tables import enums
from nki.target.model import Target

_SOURCE = "NKI reference, nki.collectives: all_to_all_v, all_gather_v"
_ONE: Groups = ((0,),)


def _fits(i: Any) -> tuple[Contents, ...]:
    """Pieces lie in the source, and fit into the slots of the destination."""
    slot = i.dst.size if i.recv_displs is not None else i.dst.size // size_of(i)

    def count(numbers: NDArray[Any]) -> str:
        sent = numbers.ravel()[: size_of(i) if i.by_rank else 1]
        most = min(slot, i.src.size)
        over = np.flatnonzero(sent > most)
        return f"{sent[over[0]]} elements go to place {over[0]}, and {most} fit" if len(over) else ""

    def start(numbers: NDArray[Any]) -> str:
        sent = numbers.ravel()[: size_of(i) if i.by_rank else 1]
        over = np.flatnonzero(sent > i.src.size)
        return f"the piece for place {over[0]} starts at {sent[over[0]]} of {i.src.size}" if len(over) else ""

    fix = "let each piece lie in the source, and fit into a slot of the destination"
    text = "the table of '{name}' must name pieces of the source"
    return (
        Contents(i.send_counts, count, text.format(name=i.send_counts.name), fix, "CV01"),
        Contents(i.send_displs, start, text.format(name=i.send_displs.name), fix, "CV01"),
    )


def _row(name: str) -> Rule:
    """The rule of one row of the table."""
    return rule(
        "CV02",
        f"{name} is {{o[{name}]}}: a row of the table is uint32, with a column for each of {{i.size}} ranks",
        lambda i, t: (
            getattr(i, name) is None or (getattr(i, name).dtype is uint32 and getattr(i, name).size == size_of(i))
        ),
        _SOURCE,
        error=DTypeError,
        fix="make the table uint32 of shape (3, ranks), or (1, 3, ranks) in SBUF",
    )


_EQUAL_GROUPS = equal_groups(_SOURCE)
_BUFFERS = (
    _EQUAL_GROUPS,
    rule(
        "CV03",
        "src is {o[src]}, dst is {o[dst]}: both are in HBM",
        lambda i, t: i.src.buffer.is_hbm and i.dst.buffer.is_hbm,
        _SOURCE,
        error=MemoryRegionError,
        fix="copy what is elsewhere with nisa.dma_copy",
    ),
    rule(
        "CV04",
        "src is {o[src]}, dst is {o[dst]}: nothing is converted on the way",
        lambda i, t: i.src.dtype is i.dst.dtype,
        _SOURCE,
        error=DTypeError,
        fix="cast with nisa.tensor_copy before or after",
    ),
    rule(
        "CV01",
        "dst is {o[dst]}: the {i.size} ranks do not divide its elements into slots",
        lambda i, t: not i.dst.size % size_of(i),
        _SOURCE,
        error=ShapeError,
        fix="make dst as large as a slot times the number of ranks",
    ),
    no_arguments(_SOURCE, "src is {o[src]}, dst is {o[dst]}", lambda i: (i.src, i.dst)),
)
_ROWS = tuple(map(_row, ("send_counts", "send_displs", "recv_counts", "recv_displs")))


def _exchange(i: Any, m: Algebra[Any]) -> None:
    """Receive a piece from each rank, and their counts; what no piece covers stays as it is."""
    ranks = size_of(i)

    def own(row: Access) -> list[Any]:
        """The number that each rank has for this one: in its column, or in the first one for all."""
        if i.by_rank:
            return list(m.exchange_parts(m.flat(row), ranks))
        return list(m.gather_ranks(m.strided(m.flat(row), 0, 1, 1), ranks))

    def number(value: Any) -> Any:
        return m.integer("add", value, m.const(0, int32), int32)

    counts, starts = own(i.send_counts), list(map(number, own(i.send_displs)))
    result, slot = m.flat(i.dst), i.dst.size // ranks
    place, last = m.iota(((1, i.dst.size),), 0, 0, 1), m.const(i.src.size - 1, int32)
    for source, value in enumerate(m.gather_ranks(m.flat(i.src), ranks)):
        first: Any = m.const(source * slot, int32)
        if i.recv_displs is not None:
            first = number(m.strided(m.flat(i.recv_displs), source, 1, 1))
        offset = m.integer("subtract", place, first, int32)
        behind = m.integer("greater_equal", offset, m.const(0, int32), int32)
        before = m.integer("less", offset, number(counts[source]), int32)
        index = m.integer(
            "minimum",
            m.integer("maximum", m.integer("add", offset, starts[source], int32), m.const(0, int32), int32),
            last,
            int32,
        )
        result = m.select(m.integer("multiply", behind, before, int32), m.gather(value, index), result)
    m.store(i.dst, result)
    if i.recv_counts is not None:
        m.store(i.recv_counts, m.stack(counts, 1))


def _agreed(i: Any) -> tuple[object, ...]:
    return ("by rank" if i.by_rank else "to all", f"recv_displs {i.recv_displs is not None}")


def _keeps_some(_: Any) -> bool:
    return True


@instruction(
    engines=(enums.side_engine.collectives,),
    public=False,
    effects=meets(_agreed, partial=_keeps_some, contents=_fits),
)
class ExchangeByCount(Inst):
    """``dst`` becomes the pieces that the ranks of the group send to this one; each table tells what its rank sends.

    ``by_rank``: a rank sends a piece to each other one, of its column (``all_to_all_v``), else the one of the first
    column to all (``all_gather_v``). A piece lands in the slot of its rank, of equal slots, or at its number of
    ``recv_displs``. ``recv_counts``, if present, becomes the counts of what came.
    """

    dst: InOut[Tile]
    recv_counts: Out[Tile] | None
    src: In[Tile]
    send_counts: In[Tile]
    send_displs: In[Tile]
    recv_displs: In[Tile] | None
    groups: Groups
    by_rank: bool
    priority: int | None = None
    name: str | None = None

    rules = (*_BUFFERS, *_ROWS, *PRIORITY)
    size = property(size_of)

    def semantics(self, m: Algebra[Any]) -> None:
        _exchange(self, m)

    def cost(self, target: Target) -> Estimate:
        """The same exchange of all of the source, since counts are not known."""
        kind = "all_to_all" if self.by_rank else "all_gather"
        return collectives.of_groups(kind, self.src.nbytes, self.groups, target)

    @classmethod
    def sample(cls, draw: Draw) -> ExchangeByCount:
        dtype = draw.choice(COMPUTING)
        rows = [draw.hbm((1,), uint32) for _ in range(4)]
        received, displaced = (rows[2] if draw.flag() else None), (rows[3] if draw.flag() else None)
        tensors = [draw.hbm((24,), dtype) for _ in range(2)]
        return cls(tensors[0], received, tensors[1], rows[0], rows[1], displaced, _ONE, draw.flag())


@instruction(engines=(enums.engine.dma,), public=False, effects=NONE)
class PrepareExchange(Inst):
    """Keep a copy of the table of an exchange in ``slot``. The exchange itself comes later."""

    slot: Out[Tile]
    send_counts: In[Tile]
    send_displs: In[Tile]
    recv_displs: In[Tile] | None
    groups: Groups
    priority: int | None = None
    name: str | None = None

    rules = (_EQUAL_GROUPS, *map(_row, ("send_counts", "send_displs", "recv_displs")), *PRIORITY)
    size = property(size_of)

    def semantics(self, m: Algebra[Any]) -> None:
        rows = [self.send_counts, self.send_displs, self.recv_displs]
        m.store(self.slot, m.stack([m.flat(row) for row in rows if row is not None], 1))

    def cost(self, target: Target) -> Estimate:
        """A copy of the table."""
        return dma_costs.transfer(self.send_counts, (self.send_counts,), target)

    @classmethod
    def sample(cls, draw: Draw) -> PrepareExchange:
        rows = [draw.hbm((1,), uint32) for _ in range(3)]
        displaced = rows[2] if draw.flag() else None
        slot = draw.block(1, (3 if displaced is not None else 2,), uint32)
        return cls(slot, rows[0], rows[1], displaced, _ONE)
