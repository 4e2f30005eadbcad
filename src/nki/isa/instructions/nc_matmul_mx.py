"""``nisa.nc_matmul_mx``."""

from __future__ import annotations

from typing import Any, Final

from nki.base.element_types import bfloat16, float4_e2m1fn_x4, float8_e4m3fn_x4, float8_e5m2_x4, float32
from nki.base.errors import ArgumentError, DTypeError, PartitionError, PsumError, ShapeError
from nki.cost import engines as cost
from nki.ir.algebra import Algebra
from nki.ir.effects import Accumulation, Effects
from nki.ir.estimate import Estimate
from nki.ir.instruction import Inst, instruction
from nki.ir.sample import PACKED, Draw
from nki.ir.types import Access, Buffer, In, Out, Tile
from nki.isa.rules.indirection import indirection, on_tensor_engine, same_index
from nki.isa.rules.mx_scales import PER_QUADRANT, regrouped, scale_rules, scales, spread
from nki.isa.rules.operand_rules import buffer, exists_from, rule, tiles
from nki.isa.tables import enums
from nki.target.memory_spaces import MX_SCALE_PARTITIONS, QUADRANT
from nki.target.model import Target

_SOURCE: Final = "NKI reference, nki.isa.nc_matmul_mx"
_TYPES: Final = (float8_e4m3fn_x4, float8_e5m2_x4, float4_e2m1fn_x4)
_SCALES: Final = ("stationary_scale", "moving_scale")


def _tiling_ok(i: Any, t: Target) -> bool:
    size, position = i.tile_size, i.tile_position
    if not size and not position:
        return True
    if not size or not position or len(size) != 2 or len(position) != 2:
        return False
    rows = size[0] in t.matmul_row_tiles and position[0] % size[0] == 0 and 0 <= position[0] <= t.partitions - size[0]
    return rows and size[1] == t.matmul_stationary_free_max and position[1] == 0


def _panel(m: Algebra[Any], data: Access, scale: Access) -> Any:
    """The numbers of ``data`` with their scales: 4 x partitions rows, the first numbers of all elements first."""
    partitions = data.partitions
    quadrants = (QUADRANT, partitions // QUADRANT)
    words = m.load(regrouped(data, 0, (quadrants, (MX_SCALE_PARTITIONS, PER_QUADRANT), (1, MX_SCALE_PARTITIONS))))
    factor = m.cast(m.load(spread(scale, partitions)), float32)
    parts = [m.alu("multiply", m.unpack(words, index), factor) for index in range(4)]
    return m.stack(parts, 4 * partitions)


@instruction(
    engines=(enums.engine.tensor,),
    effects=Effects(accumulation=Accumulation("accumulate"), element_indexed=("dst", "stationary", "moving", *_SCALES)),
)
class NcMatmulMx(Inst):
    """``dst = stationary.T @ moving`` of MXFP8 and MXFP4 tiles, with their scales, into PSUM; gen4.

    ``stationary`` is (K, M) and ``moving`` (K, N) packed elements (float8_e4m3fn_x4, float8_e5m2_x4 or
    float4_e2m1fn_x4, also mixed) in SBUF, K = 32, 64, 96 or 128, M even and at most 128; the sum goes over partitions
    and the four numbers of each element. ``dst`` is (M, N), float32 with N up to 4096 or bfloat16 up to 8192.

    A number is multiplied by its scale, a power of two (float8_e8m0fnu, or uint8 with its code: 2 ** (code - 127), 255
    is NaN). Scale [q * 32 + g, n] belongs to partitions q * 32 + 8 * g to 8 * g + 7, element n, for g = 0 to 3: each
    quadrant of 32 partitions has four partitions of scales, at its beginning or shifted by 4, 8 or 12, and the others
    are ignored. ``accumulate`` is as in ``nisa.nc_matmul``; ``tile_position`` (row, 0) and ``tile_size`` (32, 64 or
    128, 128) choose rows of the array and change only the time. Tiles may be indirect views: ``stationary`` and
    ``moving`` together with their scales, by the same offsets.

    Chosen where the reference is silent: products accumulate in float32, in order of ``4 K`` rows that the first
    numbers of all partitions begin; a number that its scale takes beyond float32 is infinite.
    """

    dst: Out[Tile]
    stationary: In[Tile]
    moving: In[Tile]
    stationary_scale: In[Tile]
    moving_scale: In[Tile]
    tile_position: tuple[int, ...] | None = None
    tile_size: tuple[int, ...] | None = None
    accumulate: bool | None = None
    name: str | None = None

    rules = (
        exists_from(4, _SOURCE),
        *tiles("dst"),
        *tiles("stationary", "moving", any_dtype=True),
        buffer("stationary", Buffer.sbuf),
        buffer("moving", Buffer.sbuf),
        buffer("dst", Buffer.psum),
        rule(
            "XM02",
            "stationary {o[stationary]} or moving {o[moving]} is not packed",
            lambda i, t: i.stationary.dtype in _TYPES and i.moving.dtype in _TYPES,
            _SOURCE,
            error=DTypeError,
            fix="use float8_e4m3fn_x4, float8_e5m2_x4 or float4_e2m1fn_x4 (view integer tiles so), or nisa.nc_matmul",
        ),
        rule(
            "XM03",
            "stationary {o[stationary]} and moving {o[moving]} differ in partitions, the dimension summed over",
            lambda i, t: i.stationary.partitions == i.moving.partitions,
            _SOURCE,
            fix="lay the contracted dimension of both operands on the partitions",
        ),
        rule(
            "XM04",
            "stationary {o[stationary]} has {i.stationary.partitions} partitions, which is no multiple of "
            "{t.quadrant_partitions}",
            lambda i, t: i.stationary.partitions % t.quadrant_partitions == 0,
            _SOURCE,
            error=PartitionError,
            fix="pad both operands with zeros",
        ),
        rule(
            "XM05",
            "stationary {o[stationary]} has {i.stationary.free_elements} columns; it has an even number up to "
            "{t.matmul_stationary_free_max}",
            lambda i, t: (
                i.stationary.free_elements % 2 == 0 and i.stationary.free_elements <= t.matmul_stationary_free_max
            ),
            _SOURCE,
            fix="tile its free dimension by nl.tile_size.gemm_stationary_fmax, and pad it to an even size",
        ),
        rule(
            "XM06",
            "dst '{i.dst.name}' is {i.dst.dtype}; results are float32 or bfloat16",
            lambda i, t: i.dst.dtype in (float32, bfloat16),
            _SOURCE,
            error=PsumError,
            fix="allocate dst as float32 and convert with nisa.tensor_copy",
        ),
        rule(
            "XM07",
            "moving {o[moving]} is wider than PSUM, which holds 4096 float32 or 8192 bfloat16 elements per partition",
            lambda i, t: i.moving.free_elements <= t.matmul_moving_free_max[i.dst.dtype],
            _SOURCE,
            fix="tile its free dimension by nl.tile_size.gemm_moving_fmax ({t.gemm_moving_fmax})",
        ),
        rule(
            "XM08",
            "dst {o[dst]} does not hold stationary {o[stationary]} transposed times moving {o[moving]}",
            lambda i, t: (
                i.dst.partitions == i.stationary.free_elements and i.dst.free_elements == i.moving.free_elements
            ),
            _SOURCE,
            fix="dst has as many partitions as stationary has columns, and as many columns as moving",
        ),
        rule(
            "XM09",
            "tile_position={i.tile_position} with tile_size={i.tile_size} is not a choice of rows of the array",
            _tiling_ok,
            _SOURCE,
            error=ArgumentError,
            fix="give both: tile_size=(32, 64 or 128, 128) and tile_position=(a multiple of that, 0)",
        ),
        rule(
            "XM10",
            "stationary {o[stationary]} does not fit tile_size={i.tile_size}",
            lambda i, t: not i.tile_size or i.stationary.partitions <= i.tile_size[0],
            _SOURCE,
            error=ShapeError,
            fix="use a larger tile_size, or a smaller stationary tile",
        ),
        *scale_rules("stationary_scale", "stationary", "stationary", _SOURCE),
        *scale_rules("moving_scale", "moving", "moving", _SOURCE),
        *indirection("dst", "stationary", "moving", scales=_SCALES, others=False, older=False),
        on_tensor_engine(),
        same_index("stationary", "stationary_scale"),
        same_index("moving", "moving_scale"),
    )

    def reads(self) -> list[Access]:
        return [*super().reads(), *([self.dst] if self.accumulate else [])]

    def semantics(self, m: Algebra[Any]) -> None:
        left = _panel(m, self.stationary, self.stationary_scale)
        value = m.matmul(left, _panel(m, self.moving, self.moving_scale))
        if self.accumulate:
            value = m.alu("add", m.load(self.dst), value)
        m.store(self.dst, m.cast(value, self.dst.dtype))

    def cost(self, target: Target) -> Estimate:
        """``max(M / 4, 64, N + issue)`` Tensor cycles: M and N columns of ``stationary`` and ``moving``."""
        why = "Trainium3 Architecture Guide for NKI: as fast as bfloat16 with a quarter of the rows; overhead as there"
        columns = self.moving.free_elements
        shape = (self.moving.partitions, self.stationary.free_elements, columns)
        position, size = self.tile_position, self.tile_size
        operands = self.dst, self.stationary, self.moving
        return cost.matmul(
            target, shape, columns, 1, "docs", why, operands=operands, pack=4, position=position, size=size
        )

    @classmethod
    def sample(cls, draw: Draw) -> NcMatmulMx:
        k = draw.choice((32, 64, 96, draw.target.partitions))
        m, n = draw.choice((2, 16, 34, 128)), draw.choice((1, 5, 16, 63, 200, 512))
        free = (n,) if n % 2 or draw.flag() else (2, n // 2)
        return cls(
            draw.block(m, free, draw.choice((float32, bfloat16)), Buffer.psum),
            draw.block(k, (m,), draw.choice(PACKED)),
            draw.block(k, (n,), draw.choice(PACKED)),
            scales(draw, k, m),
            scales(draw, k, n),
            accumulate=draw.flag(),
        )
