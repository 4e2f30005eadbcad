"""``nisa.exponential``: the Vector engine's own exponential function."""

from __future__ import annotations

from typing import Any

from nki.base.errors import ArgumentError, DTypeError
from nki.cost import engines as cost
from nki.ir.algebra import Algebra
from nki.ir.effects import Effects
from nki.ir.estimate import Estimate
from nki.ir.instruction import Inst, instruction
from nki.ir.sample import COMPUTING, FLOATS, Draw
from nki.ir.types import In, InOut, Out, Scalar, Tile
from nki.isa.rules import accumulators
from nki.isa.rules.indirection import indirection
from nki.isa.rules.operand_rules import (
    column,
    dimensions,
    exists_from,
    is_float32,
    rule,
    same_elements,
    same_partitions,
    tiles,
)
from nki.isa.tables import enums
from nki.target.model import Target

_R = enums.reduce_cmd
_SOURCE = "NKI reference, nki.isa.exponential"
_COMMANDS = (_R.idle, _R.reset_reduce, _R.reduce, _R.load_reduce)
_INPUTS = tuple(d for d in COMPUTING if d.name not in ("float8_e4m3fn", "tfloat32", "bool"))
_OUTPUTS = tuple(d for d in COMPUTING if d.name not in ("float8_e4m3fn", "uint32", "bool"))
_SUMS = tuple(d for d in FLOATS if d.name != "float8_e4m3fn")


@instruction(
    engines=(enums.engine.vector,),
    effects=Effects(
        implicit=accumulators.implicit(accumulators.VECTOR), streamed=("src",), element_indexed=("dst", "src")
    ),
)
class Exponential(Inst):
    """``dst = exp(src - max_value)`` in float32, four elements a cycle, and the sum of these results.

    ``max_value`` is a number or a float32 tile ``(partitions, 1)``. The sum over the free dimensions goes through the
    Vector engine's reduction registers: ``reset_reduce`` begins with 0, ``reduce`` with what they hold, ``load_reduce``
    with ``reduce_init``, a number or a float32 tile ``(partitions, 1)``. It takes the float32 results before they are
    rounded to ``dst``, one after the other. After ``idle`` the contents of the registers are unknown: NaN here.
    ``reduce_res``, a float tile ``(partitions, 1)``, receives the registers afterwards. Tiles have up to four
    dimensions; ``dst`` and ``src`` may be indirect views. Since NeuronCore-v4.
    """

    dst: Out[Tile]
    src: In[Tile]
    max_value: Scalar | In[Tile] = 0.0
    reduce_res: Out[Tile] | None = None
    reduce_cmd: enums.reduce_cmd = _R.idle
    reduce_init: Scalar | In[Tile] = 0.0
    name: str | None = None
    registers: InOut[Tile] | None = None

    rules = (
        exists_from(4, _SOURCE),
        *tiles("dst", "src", "max_value", "reduce_res", "reduce_init"),
        same_partitions("dst", "src"),
        same_elements("dst", "src"),
        dimensions("dst", 1, 4, _SOURCE),
        dimensions("src", 1, 4, _SOURCE),
        column("max_value", "src"),
        column("reduce_res", "src"),
        column("reduce_init", "src"),
        is_float32("max_value", _SOURCE),
        is_float32("reduce_init", _SOURCE),
        rule(
            "EX01",
            "src is {o[src]}, a dtype that this instruction does not read",
            lambda i, t: i.src.dtype in _INPUTS,
            _SOURCE,
            error=DTypeError,
            fix="use " + ", ".join(d.name for d in _INPUTS),
        ),
        rule(
            "EX02",
            "dst is {o[dst]}, a dtype that this instruction does not write",
            lambda i, t: i.dst.dtype in _OUTPUTS,
            _SOURCE,
            error=DTypeError,
            fix="use " + ", ".join(d.name for d in _OUTPUTS),
        ),
        rule(
            "EX03",
            "reduce_res is {o[reduce_res]}, a dtype that no sum is written in",
            lambda i, t: i.reduce_res is None or i.reduce_res.dtype in _SUMS,
            _SOURCE,
            error=DTypeError,
            fix="use " + ", ".join(d.name for d in _SUMS),
        ),
        accumulators.commands(_SOURCE, *_COMMANDS),
        rule(
            "EX04",
            "reduce_init={o[reduce_init]} with reduce_cmd={i.reduce_cmd.name}, which does not load it",
            lambda i, t: i.reduce_cmd is _R.load_reduce or (not isinstance(i.reduce_init, Tile) and i.reduce_init == 0),
            _SOURCE,
            error=ArgumentError,
            fix="use nisa.reduce_cmd.load_reduce, or leave reduce_init out",
            by_value=True,
        ),
        *indirection("dst", "src", older=False),
        accumulators.registers(),
    )

    @property
    def uses_registers(self) -> bool:
        """True: ``idle`` leaves unknown contents in the registers."""
        return True

    def semantics(self, m: Algebra[Any]) -> None:
        value = m.act("exp", m.alu("subtract", m.load(self.src), m.load(self.max_value)))
        held = accumulators.total_or_unknown(self, m, "add", value, self.reduce_init)
        m.store(self.dst, m.cast(value, self.dst.dtype))
        accumulators.keep(self, m, held)

    def cost(self, target: Target) -> Estimate:
        """``max(64, N / r) + issue`` Vector cycles for N elements per partition, r elements per cycle."""
        cycles = self.dst.free_elements / target.vector_exponentials_per_cycle
        source = target.source("vector_exponentials_per_cycle")
        return cost.pipelined(self, target, cycles, "docs", source)

    @classmethod
    def sample(cls, draw: Draw) -> Exponential:
        partitions, free = draw.partitions(), draw.free()
        command = draw.choice(_COMMANDS)
        return cls(
            draw.tile(partitions, free, draw.choice(_OUTPUTS)),
            draw.tile(partitions, free, draw.choice(_INPUTS)),
            draw.scalar(partitions),
            draw.column(partitions, draw.choice(_SUMS)) if draw.flag() else None,
            command,
            draw.scalar(partitions) if command is _R.load_reduce else 0.0,
        )
