"""Layout of the scales of MX tiles in SBUF, and its rules.

A scale belongs to a group of 8 partitions and one packed element (four numbers) of each, so that 32 partitions, a
quadrant, have four partitions of scales. Those lie in the same quadrant as the data, on its first four partitions or
shifted by 4, 8 or 12, which lets up to four tiles share one tile of scales; the partitions between them are not
touched. (Trainium3 architecture guide; MXFP guide, "Scale Tensor" and "Packing Scale Values".)
"""

from __future__ import annotations

from typing import Any, Final

from nki.base.element_types import float8_e8m0fnu, uint8
from nki.base.errors import DTypeError, PartitionError, ShapeError
from nki.ir.instruction import Rule
from nki.ir.sample import Draw
from nki.ir.types import Access, Buffer, coalesced
from nki.isa.rules.operand_rules import buffer, rule
from nki.target.memory_spaces import MX_SCALE_PARTITIONS, QUADRANT
from nki.target.model import Target

PER_QUADRANT: Final = QUADRANT // MX_SCALE_PARTITIONS
"""Partitions of scales in a quadrant."""
_GUIDE: Final = "MXFP Matrix Multiplication with NKI on AWS Neuron, Packing Scale Values"


def regrouped(tile: Access, offset: int, partitions: tuple[tuple[int, int], ...], dtype: Any = None) -> Access:
    """``tile`` from ``offset`` partitions on, its partitions as the dimensions ``(step in partitions, count)``."""
    step = tile.strides[0]
    strides = (*(s * step for s, _ in partitions), *tile.strides[1:])
    shape = (*(n for _, n in partitions), *tile.shape[1:])
    return Access(tile.tensor, tile.offset + offset * step, shape, strides, dtype or tile.dtype)


def held(scale: Access, partitions: int) -> Access:
    """The scales of a tile of so many partitions, as (quadrants, 4, elements)."""
    return regrouped(scale, 0, ((QUADRANT, partitions // QUADRANT), (1, PER_QUADRANT)))


def spread(scale: Access, partitions: int) -> Access:
    """The scale of every element: (quadrants, 4, 8, elements), powers of two."""
    quadrants = (QUADRANT, partitions // QUADRANT)
    return regrouped(scale, 0, (quadrants, (1, PER_QUADRANT), (0, MX_SCALE_PARTITIONS)), float8_e8m0fnu)


def needed(partitions: int) -> int:
    """Partitions of a scale tile, from the first on, that so many partitions of data need."""
    return partitions // QUADRANT * QUADRANT - QUADRANT + PER_QUADRANT


def _starts(scale: Access, data: Access, t: Target) -> bool:
    quadrant, shift = divmod(scale.start_partition, t.quadrant_partitions)
    return shift in t.mx_scale_shifts and quadrant == data.start_partition // t.quadrant_partitions


def scale_rules(name: str, data: str, elements: str, source: str) -> tuple[Rule, ...]:
    """The operand ``name`` can hold the scales of ``data``, which has the packed elements of ``elements``."""
    return (
        buffer(name, Buffer.sbuf),
        rule(
            "SC01",
            f"{name} {{o[{name}]}} holds no scales: those are float8_e8m0fnu or uint8",
            lambda i, t: getattr(i, name).dtype in (float8_e8m0fnu, uint8),
            source,
            error=DTypeError,
            fix="allocate it as nl.float8_e8m0fnu, or view it so",
        ),
        rule(
            "SC02",
            f"{name} {{o[{name}]}} has other free dimensions than {elements} {{o[{elements}]}}: one scale for each "
            "packed element",
            lambda i, t: getattr(i, name).free_elements == getattr(i, elements).free_elements,
            source,
            error=ShapeError,
            fix=f"slice both to the same number of elements per partition, {{i.{elements}.free_elements}}",
        ),
        rule(
            "SC03",
            f"{name} '{{i.{name}.name}}' starts at partition {{i.{name}.start_partition}}, {data} "
            f"'{{i.{data}.name}}' at {{i.{data}.start_partition}}: scales start in the quadrant of 32 partitions where "
            "the data starts, 0, 4, 8 or 12 partitions from its beginning",
            lambda i, t: _starts(getattr(i, name), getattr(i, data), t),
            _GUIDE,
            error=PartitionError,
            fix="slice the scales as scale[0:], scale[4:], scale[8:] or scale[12:]",
        ),
        rule(
            "SC04",
            f"{name} {{o[{name}]}} has too few partitions for the scales of {data} {{o[{data}]}}: four in each "
            "quadrant of 32",
            lambda i, t: getattr(i, name).partitions >= needed(getattr(i, data).partitions),
            _GUIDE,
            error=PartitionError,
            fix=f"allocate the scales with as many partitions as {data} (up to 32 partitions need only 4)",
        ),
        rule(
            "SC05",
            f"{name} '{{i.{name}.name}}' steps {{i.{name}.strides[0]}} elements between partitions; its tensor has "
            f"{{i.{name}.partition_step}}: an engine reads neighbouring partitions",
            lambda i, t: getattr(i, name).strides[0] == getattr(i, name).partition_step,
            _GUIDE,
            error=PartitionError,
            fix="use nisa.dma_copy to rearrange partitions",
        ),
    )


def scales(draw: Draw, partitions: int, columns: int) -> Access:
    """A random tile for the scales of so many partitions and packed elements."""
    shift, dtype = draw.choice(draw.target.mx_scale_shifts), draw.choice((float8_e8m0fnu, uint8))
    return draw.shifted(draw.integer(needed(partitions), partitions - shift), columns, dtype, shift)


def quarters(tile: Access, index: int) -> Access:
    """Every fourth element of each partition of ``tile`` from ``index`` on; see :func:`in_fours`."""
    shape, strides = _joined(tile)
    size, step = shape[-1], strides[-1]
    return Access(
        tile.tensor, tile.offset + index * step, (*shape[:-1], size // 4), (*strides[:-1], 4 * step), tile.dtype
    )


def in_fours(tile: Access) -> bool:
    """True if four elements that follow each other in ``tile`` are always equally far apart in memory."""
    return _joined(tile)[0][-1] % 4 == 0


def _joined(tile: Access) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shape and steps with free dimensions joined where one continues the other."""
    free = coalesced(zip(tile.strides[1:], tile.shape[1:], strict=True))
    return (tile.shape[0], *(count for _, count in free)), (tile.strides[0], *(step for step, _ in free))
