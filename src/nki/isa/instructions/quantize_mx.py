"""``nisa.quantize_mx``."""

from __future__ import annotations

from typing import Any, Final

from nki.base.element_types import (
    DType,
    bfloat16,
    float8_e4m3fn_x4,
    float8_e5m2_x4,
    float16,
    float32,
    uint8,
    uint32,
)
from nki.base.errors import DTypeError, PartitionError, ShapeError
from nki.cost import engines as cost
from nki.ir.algebra import Algebra, reinterpreted
from nki.ir.deprecation import DeprecatedForms, ReleaseValue
from nki.ir.effects import Effects
from nki.ir.estimate import Estimate
from nki.ir.instruction import Inst, instruction
from nki.ir.sample import Draw
from nki.ir.types import Access, Buffer, In, InOut, Out, Tile
from nki.isa.rules.mx_scales import held, in_fours, quarters, regrouped, scale_rules, scales
from nki.isa.rules.operand_rules import buffer, exists_from, rule, tiles
from nki.isa.tables import enums
from nki.target.memory_spaces import MX_SCALE_PARTITIONS
from nki.target.model import Target

_SOURCE: Final = "NKI reference, nki.isa.quantize_mx"
_LARGEST_EXPONENT: Final = {float8_e4m3fn_x4: 8, float8_e5m2_x4: 15}
_MANTISSA: Final = 23  # bits of a float32 below its exponent
_BIAS: Final = 127


def _aligned(tile: Access) -> Access:
    """``tile`` as (8, groups, elements): partition i of every group, then the groups."""
    return regrouped(tile, 0, ((1, MX_SCALE_PARTITIONS), (MX_SCALE_PARTITIONS, tile.partitions // MX_SCALE_PARTITIONS)))


@instruction(
    engines=(enums.engine.vector,),
    effects=Effects(layout=lambda i: in_fours(i.src)),
    deprecated=DeprecatedForms(by_release=(ReleaseValue("headroom", "0.5", 0),)),
)
class QuantizeMx(Inst):
    """MXFP8: divide groups of ``src`` by a power of two each, and pack the quotients, rounded to fp8, into ``dst``.

    ``src`` is (32, 64, 96 or 128, 4 N), float16 or bfloat16; ``dst`` has as many partitions and N packed elements of
    float8_e4m3fn_x4 or float8_e5m2_x4, each made of four neighbours of ``src``. A group is 8 partitions of one packed
    element. Its scale is ``2 ** (floor(log2(largest magnitude)) - (E - 1))``, with E = 8 for float8_e4m3fn and 15 for
    float8_e5m2: twice the scale of the OCP specification's sample conversion, so that rounding never leaves the format.
    Up to NKI 0.4 it is that conversion's scale, and quotients beyond the format are its largest number (release notes
    of NKI 0.5, "Improvements"). It is at least 2 ** -127, also for a group of zeros. ``dst_scale`` (float8_e8m0fnu, or
    uint8 for its codes) gets the scales of 32 partitions on four partitions of their quadrant; see
    ``nisa.nc_matmul_mx``. All in SBUF; gen4.

    The reference leaves open what infinities and NaNs do: here they count as the exponent 128, and are rounded to what
    the format has for them.
    """

    dst: Out[Tile]
    src: In[Tile]
    dst_scale: InOut[Tile]
    name: str | None = None
    headroom: int = 1
    """The scale is the OCP specification's times 2 to this power."""

    rules = (
        exists_from(4, _SOURCE),
        *tiles("dst", any_dtype=True),
        *tiles("src"),
        buffer("dst", Buffer.sbuf),
        buffer("src", Buffer.sbuf),
        rule(
            "QM02",
            "src '{i.src.name}' is {i.src.dtype}; only float16 and bfloat16 are quantised",
            lambda i, t: i.src.dtype in (float16, bfloat16),
            _SOURCE,
            error=DTypeError,
            fix="copy it to a bfloat16 tile with nisa.tensor_copy",
        ),
        rule(
            "QM03",
            "dst '{i.dst.name}' is {i.dst.dtype}; the results are float8_e4m3fn_x4 or float8_e5m2_x4",
            lambda i, t: i.dst.dtype in _LARGEST_EXPONENT,
            _SOURCE,
            error=DTypeError,
            fix="allocate dst as nl.float8_e4m3fn_x4 (4-bit tiles are made on the host)",
        ),
        rule(
            "QM04",
            "src {o[src]} has {i.src.partitions} partitions, which is no multiple of {t.quadrant_partitions}",
            lambda i, t: i.src.partitions % t.quadrant_partitions == 0,
            _SOURCE,
            error=PartitionError,
            fix="pad src with zeros",
        ),
        rule(
            "QM05",
            "src {o[src]} does not consist of fours of elements at equal steps",
            lambda i, t: in_fours(i.src),
            _SOURCE,
            error=ShapeError,
            fix="make its last dimension a multiple of 4",
        ),
        rule(
            "QM06",
            "dst {o[dst]} does not hold src {o[src]}: as many partitions, a quarter of the elements",
            lambda i, t: i.dst.partitions == i.src.partitions and 4 * i.dst.free_elements == i.src.free_elements,
            _SOURCE,
            error=ShapeError,
            fix="allocate dst as ({i.src.partitions}, {i.src.free_elements} // 4)",
        ),
        *scale_rules("dst_scale", "src", "dst", _SOURCE),
    )

    def semantics(self, m: Algebra[Any]) -> None:
        parts = [m.load(_aligned(quarters(self.src, index))) for index in range(4)]
        largest = m.alu("abs", parts[0])
        for part in parts[1:]:
            largest = m.alu("maximum", largest, m.alu("abs", part))
        shift = m.const(_MANTISSA, uint32)
        field = m.alu("right_shift", m.bits(m.reduce_partitions("maximum", largest), uint32), shift)
        exponent = m.const(_LARGEST_EXPONENT[self.dst.dtype] - self.headroom, float32)
        code = m.alu("subtract", m.cast(field, float32), exponent)
        code = m.alu("maximum", code, m.const(0, float32))
        inverse = m.cast(m.alu("subtract", m.const(2 * _BIAS, float32), code), uint32)
        factor = m.bits(m.alu("left_shift", inverse, shift), float32)
        quotients = [m.alu("multiply", part, factor) for part in parts]
        if not self.headroom:
            quotients = [_clamped(m, each, self.dst.dtype) for each in quotients]
        m.store(_aligned(self.dst), m.pack(quotients, self.dst.dtype))
        m.store(reinterpreted(held(self.dst_scale, self.src.partitions), uint8), m.cast(code, uint8))

    def cost(self, target: Target) -> Estimate:
        """``max(64, N / 4) + issue`` Vector cycles for N elements of ``src`` per partition."""
        why = "Trainium3 Architecture Guide for NKI: four input elements per partition and cycle"
        return cost.pipelined(self, target, self.dst.free_elements, "docs", why)

    @classmethod
    def sample(cls, draw: Draw) -> QuantizeMx:
        partitions = draw.choice((32, 64, 96, draw.target.partitions))
        columns = draw.choice((1, 2, 5, 16, 33))
        return cls(
            draw.block(partitions, (columns,), draw.choice(tuple(_LARGEST_EXPONENT))),
            draw.block(partitions, draw.choice(((columns, 4), (4 * columns,))), draw.choice((float16, bfloat16))),
            scales(draw, partitions, columns),
            headroom=draw.choice((1, 1, 0)),
        )


def _clamped(m: Algebra[Any], quotient: Any, dtype: DType) -> Any:
    """``quotient`` with the largest number of the format in place of what is beyond it; NaN stays."""
    largest = m.const(dtype.largest, float32)
    inside = m.alu("maximum", m.alu("minimum", quotient, largest), m.const(-dtype.largest, float32))
    return m.select(m.alu("greater", m.alu("abs", quotient), largest), inside, quotient)
