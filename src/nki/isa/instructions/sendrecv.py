"""``nisa.sendrecv``: two cores exchange tiles."""

from __future__ import annotations

from typing import Any

from nki.base.errors import ArgumentError, CapacityError, DTypeError
from nki.cost import dma_costs
from nki.ir.algebra import Algebra
from nki.ir.deprecation import DeprecatedForms, DeprecatedParameter
from nki.ir.effects import Effects, Exchange
from nki.ir.estimate import Estimate
from nki.ir.instruction import Inst, instruction
from nki.ir.sample import Draw
from nki.ir.types import Buffer, In, Out, Tile
from nki.isa.rules.operand_rules import buffer, exists_from, rule, same_elements, same_partitions
from nki.isa.tables import enums
from nki.target.memory_spaces import GPSIMD_DMA_ELEMENTS
from nki.target.model import Target

_E = enums.engine
_SOURCE = "NKI reference, nki.isa.sendrecv"


def _engine(arguments: dict[str, Any], value: Any) -> None:
    arguments["dma_engine"] = enums.dma_engine.gpsimd_dma if value else enums.dma_engine.dma


def _exchange(i: Any) -> Exchange:
    rank = i.send_to_rank
    return Exchange(i.src, i.dst, rank, i.recv_from_rank, i.pipe_id, f"send_to_rank={rank}")


@instruction(
    engines=(_E.dma,),
    effects=Effects(exchange=_exchange),
    deprecated=DeprecatedForms(
        (
            DeprecatedParameter(
                "use_gpsimd_dma",
                "0.3",
                "write `dma_engine=nisa.dma_engine.gpsimd_dma` for True; False is `nisa.dma_engine.dma`, the default",
                _engine,
            ),
        )
    ),
)
class Sendrecv(Inst):
    """Send ``src`` to core ``send_to_rank`` while receiving ``dst`` from core ``recv_from_rank``.

    Both are SBUF tiles of one shape and dtype; of the cores that exchange, each calls it. An exchange is done when both
    sides are; exchanges of one ``pipe_id`` happen in the order of the program, and ``pipe_id`` tells which of several
    belong together. ``dma_engine.gpsimd_dma`` is faster and moves at most 1024 bytes per partition of a 32-bit dtype
    (512 of a 16-bit one, 256 of an 8-bit one). A core that names itself on both sides copies. Since NeuronCore-v3.
    """

    src: In[Tile]
    dst: Out[Tile]
    send_to_rank: int
    recv_from_rank: int
    pipe_id: int
    dma_engine: enums.dma_engine = enums.dma_engine.dma
    name: str | None = None

    rules = (
        exists_from(3, _SOURCE),
        buffer("src", Buffer.sbuf),
        buffer("dst", Buffer.sbuf),
        same_partitions("dst", "src"),
        same_elements("dst", "src"),
        rule(
            "SR01",
            "src is {o[src]}, dst is {o[dst]}: nothing is converted on the way",
            lambda i, t: i.src.dtype is i.dst.dtype,
            _SOURCE,
            error=DTypeError,
            fix="cast with nisa.tensor_copy before or after",
        ),
        rule(
            "SR02",
            "src has shape {i.src.shape}, dst {i.dst.shape}: both sides have one shape",
            lambda i, t: i.src.shape == i.dst.shape,
            _SOURCE,
            fix="reshape one of the views",
        ),
        rule(
            "SR03",
            "send_to_rank={i.send_to_rank}, recv_from_rank={i.recv_from_rank}: cores that share memory are 0 and 1",
            lambda i, t: all(rank in range(t.logical_core_max) for rank in (i.send_to_rank, i.recv_from_rank)),
            _SOURCE,
            error=ArgumentError,
            fix="pass 1 - nl.program_id(0) for the other core",
        ),
        rule(
            "SR04",
            "send_to_rank={i.send_to_rank} is not recv_from_rank={i.recv_from_rank}: of two cores, each sends to the "
            "one that it receives from",
            lambda i, t: i.send_to_rank == i.recv_from_rank,
            _SOURCE,
            error=ArgumentError,
            fix="pass the other core's number for both",
        ),
        rule(
            "SR05",
            "src '{i.src.name}' has {i.src.free_elements} elements of {i.src.dtype} per partition; GpSimd's own DMA "
            "moves at most {i.most} bytes of this dtype",
            lambda i, t: (
                i.dma_engine is not enums.dma_engine.gpsimd_dma or i.src.free_elements * i.src.dtype.itemsize <= i.most
            ),
            _SOURCE,
            error=CapacityError,
            fix="use nisa.dma_engine.dma, or send it in pieces",
        ),
    )

    @property
    def most(self) -> int:
        """Bytes per partition that GpSimd's own DMA moves."""
        return GPSIMD_DMA_ELEMENTS * self.src.dtype.itemsize

    def semantics(self, m: Algebra[Any]) -> None:
        m.store(self.dst, m.exchange(m.load(self.src), self.send_to_rank, self.recv_from_rank, self.pipe_id))

    def cost(self, target: Target) -> Estimate:
        """A barrier and a ``nisa.dma_copy`` with static descriptors; or GpSimd's own DMA, at its rate and latency."""
        if self.dma_engine is enums.dma_engine.gpsimd_dma:
            return dma_costs.between_cores(self.dst, target)
        return dma_costs.exchanged(self.dst, self.src, target)

    @classmethod
    def sample(cls, draw: Draw) -> Sendrecv:
        partitions, free, dtype = draw.partitions(), draw.free(), draw.copied()[0]
        src = draw.tile(partitions, free, dtype)
        return cls(src, draw.block(partitions, src.shape[1:], dtype), 0, 0, draw.choice((0, 1, 2)))
