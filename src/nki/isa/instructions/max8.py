"""``nisa.max8``, ``nisa.nc_find_index8`` and ``nisa.nc_match_replace8``: eight values of each partition at a time."""

from __future__ import annotations

from typing import Any

from nki.base.element_types import float32, uint16, uint32
from nki.base.errors import DTypeError
from nki.cost import engines as cost
from nki.ir.algebra import Algebra
from nki.ir.estimate import Estimate
from nki.ir.instruction import Inst, Rule, instruction
from nki.ir.sample import COMPUTING, FLOATS, Draw
from nki.ir.types import In, Out, Scalar, Tile
from nki.isa.rules.operand_rules import (
    dimensions,
    elements,
    elements_within,
    rule,
    same_elements,
    same_partitions,
    tiles,
)
from nki.isa.tables import enums
from nki.target.model import Target

_INDEX = (uint16, uint32)
_OLDER = "NKI reference of release 2.26.1, nki.isa.nc_match_replace8"


def _is_index(name: str, source: str) -> Rule:
    return rule(
        "M801",
        f"{name} '{{i.{name}.name}}' is {{i.{name}.dtype}}; indices are uint16 or uint32",
        lambda i, t: getattr(i, name) is None or getattr(i, name).dtype in _INDEX,
        source,
        error=DTypeError,
        fix="allocate it as uint32, and convert with nisa.tensor_copy",
    )


def _wide(name: str, least: int, source: str) -> Rule:
    count = f"{least} to {{t.max8_free_max}}"
    return elements_within(name, lambda t: range(least, t.max8_free_max + 1), count, source)


def _free(draw: Draw) -> int:
    return max(8, draw.free())


@instruction(engines=(enums.engine.vector,))
class Max8(Inst):
    """The eight largest elements of each partition of ``src`` in descending order, compared as float32.

    ``src`` has 8 to 16384 elements per partition in up to two free dimensions, ``dst`` eight in one. An element that
    occurs several times appears as often. NaN counts as larger than any number, -0 as smaller than 0.
    """

    dst: Out[Tile]
    src: In[Tile]
    name: str | None = None

    rules = (
        *tiles("dst", "src"),
        same_partitions("dst", "src"),
        dimensions("src", 2, 3, "NKI reference, nki.isa.max8"),
        dimensions("dst", 2, 2, "NKI reference, nki.isa.max8"),
        _wide("src", 8, "NKI reference, nki.isa.max8"),
        elements("dst", 8, 8, "NKI reference, nki.isa.max8"),
    )

    def semantics(self, m: Algebra[Any]) -> None:
        m.store(self.dst, m.cast(m.top8(m.load(self.src)), self.dst.dtype))

    def cost(self, target: Target) -> Estimate:
        """``max(64, N) + issue`` Vector cycles for N elements of ``src`` per partition."""
        return cost.streaming(self, target, self.src.free_elements, "max8")

    @classmethod
    def sample(cls, draw: Draw) -> Max8:
        partitions = draw.partitions()
        return cls(
            draw.block(partitions, (8,), draw.choice(COMPUTING)), draw.tile(partitions, _free(draw), _repeating(draw))
        )


def _repeating(draw: Draw) -> Any:
    """A dtype of few values, so that equal elements are likely, or any other."""
    return draw.choice([d for d in COMPUTING if d.itemsize == 1]) if draw.flag() else draw.choice(COMPUTING)


@instruction(engines=(enums.engine.vector,))
class NcFindIndex8(Inst):
    """The position of each of the eight ``vals`` in its partition of ``data``, counted from 0; all ones if absent.

    Compared as float32 numbers: NaN is nowhere, the two zeros are equal. The first of several equal ``vals`` gets the
    first place of that value, the next one the next. ``data`` has 8 to 16384 elements per partition, ``vals`` and
    ``dst`` eight; free dimensions, at most two, count in row-major order. ``dst`` is uint16 or uint32.
    """

    dst: Out[Tile]
    data: In[Tile]
    vals: In[Tile]
    name: str | None = None

    rules = (
        *tiles("dst", "data", "vals"),
        same_partitions("dst", "data", "vals"),
        dimensions("data", 2, 3, "NKI reference, nki.isa.nc_find_index8"),
        dimensions("vals", 2, 3, "NKI reference, nki.isa.nc_find_index8"),
        dimensions("dst", 2, 2, "NKI reference, nki.isa.nc_find_index8"),
        _wide("data", 8, "NKI reference, nki.isa.nc_find_index8"),
        elements("vals", 8, 8, "NKI reference, nki.isa.nc_find_index8"),
        elements("dst", 8, 8, "NKI reference, nki.isa.nc_find_index8"),
        _is_index("dst", "NKI reference, nki.isa.nc_find_index8"),
    )

    def semantics(self, m: Algebra[Any]) -> None:
        places = m.find(m.load(self.data), m.load(self.vals), last_first=False)
        m.store(self.dst, m.cast(places, self.dst.dtype))

    def cost(self, target: Target) -> Estimate:
        """``max(64, N) + issue`` Vector cycles for N elements of ``data`` per partition."""
        return cost.streaming(self, target, self.data.free_elements, "nc_find_index8")

    @classmethod
    def sample(cls, draw: Draw) -> NcFindIndex8:
        partitions, kind = draw.partitions(), _repeating(draw)
        return cls(
            draw.block(partitions, (8,), draw.choice(_INDEX)),
            draw.tile(partitions, _free(draw), kind),
            draw.tile(partitions, 8, kind if draw.flag() else draw.choice(FLOATS)),
        )


@instruction(engines=(enums.engine.vector,))
class NcMatchReplace8(Inst):
    """``dst`` = ``data`` with a place of each of the eight ``vals`` of its partition replaced by ``imm``.

    Compared as float32 numbers in ``data`` as it was: NaN is nowhere, the two zeros are equal. The ``vals`` take their
    turns from the last to the first: the last of several equal ones gets the first place of that value, the one before
    it the next. ``dst_idx``, if there is one, receives the places, counted from 0 in row-major order, all ones for
    values that are nowhere; it is uint16 or uint32. ``data`` and ``dst`` have up to 16384 elements per partition,
    ``vals`` and ``dst_idx`` eight.
    """

    dst: Out[Tile]
    data: In[Tile]
    vals: In[Tile]
    imm: Scalar
    dst_idx: Out[Tile] | None = None
    name: str | None = None

    rules = (
        *tiles("dst", "data", "vals", "dst_idx"),
        same_partitions("dst", "data", "vals", "dst_idx"),
        same_elements("dst", "data"),
        _wide("data", 1, _OLDER),
        elements("vals", 8, 8, _OLDER),
        elements("dst_idx", 8, 8, "NKI reference, nki.isa.nc_match_replace8"),
        _is_index("dst_idx", "NKI reference, nki.isa.nc_match_replace8"),
    )

    def semantics(self, m: Algebra[Any]) -> None:
        data = m.load(self.data)
        places = m.find(data, m.load(self.vals), last_first=True)
        m.store(self.dst, m.cast(data, self.dst.dtype))
        m.put(self.dst, places, m.cast(m.const(self.imm, float32), self.dst.dtype))
        if self.dst_idx is not None:
            m.store(self.dst_idx, m.cast(places, self.dst_idx.dtype))

    def cost(self, target: Target) -> Estimate:
        """``max(64, N) + issue`` Vector cycles for N elements of ``data`` per partition."""
        return cost.streaming(self, target, self.data.free_elements, "nc_match_replace8")

    @classmethod
    def sample(cls, draw: Draw) -> NcMatchReplace8:
        partitions, free, kind = draw.partitions(), draw.free(), _repeating(draw)
        return cls(
            draw.tile(partitions, free, kind if draw.flag() else draw.choice(COMPUTING)),
            draw.tile(partitions, free, kind),
            draw.tile(partitions, 8, kind if draw.flag() else draw.choice(FLOATS)),
            draw.number(),
            draw.tile(partitions, 8, draw.choice(_INDEX)) if draw.flag() else None,
        )
