"""``nisa.nc_stream_shuffle``: partitions change places within quadrants of 32."""

from __future__ import annotations

from typing import Any

from nki.base.errors import ArgumentError, PartitionError
from nki.cost import engines as cost
from nki.ir.algebra import Algebra
from nki.ir.effects import Effects
from nki.ir.estimate import Estimate
from nki.ir.instruction import Inst, instruction
from nki.ir.sample import COMPUTING, PACKED, Draw
from nki.ir.types import Access, Buffer, In, Out, Tile
from nki.isa.rules.operand_rules import rule, same_dtype, same_elements, tiles
from nki.isa.tables import enums
from nki.target.memory_spaces import QUADRANT, start_partitions
from nki.target.model import Target

LEAVE = 255
_SOURCE = "NKI reference, nki.isa.nc_stream_shuffle"
Run = tuple[int, int, int, int]
"""Target partition, source partition, its step, how many: all within a quadrant."""


def _well_formed(i: Any) -> bool:
    return len(i.shuffle_mask) == QUADRANT and all(n in range(QUADRANT) or n == LEAVE for n in i.shuffle_mask)


def _active(i: Any) -> int:
    """Partitions that the engine streams."""
    return -(-max(i.dst.partitions, i.src.partitions) // QUADRANT) * QUADRANT


def _runs(mask: tuple[int, ...]) -> list[Run]:
    """The moves of a mask, neighbours with evenly spaced sources together."""
    runs: list[Run] = []
    for target, source in enumerate(mask):
        if source == LEAVE:
            continue
        if runs:
            first, start, step, count = runs[-1]
            if first + count == target and (count == 1 or start + step * count == source):
                runs[-1] = (first, start, source - start if count == 1 else step, count + 1)
                continue
        runs.append((target, source, 0, 1))
    return runs


def _rows(access: Access, start: int, step: int, count: int, quadrants: int) -> Access:
    """``count`` partitions from ``start``, of each of several quadrants; the elements stand side by side."""
    over = access.strides[0]
    shape, strides = (count, quadrants, *access.shape[1:]), (step * over, QUADRANT * over, *access.strides[1:])
    return Access(access.tensor, access.offset + start * over, shape, strides, access.dtype)


@instruction(
    engines=(enums.engine.vector,), effects=Effects(partial=lambda i: LEAVE in i.shuffle_mask[: i.dst.partitions])
)
class NcStreamShuffle(Inst):
    """Partition p of ``dst`` receives partition ``shuffle_mask[p % 32]`` of the same quadrant of ``src``.

    ``shuffle_mask`` has 32 numbers from 0 to 31; 255 leaves a partition of ``dst`` as it is. Quadrants are counted from
    the first partition of each tile, and use the same mask. Same dtype and elements per partition; bits are moved
    unchanged, and ``dst`` may be ``src``. A mask that asks for partitions which ``src`` does not have is refused, where
    hardware would read what lies behind it.
    """

    dst: Out[Tile]
    src: In[Tile]
    shuffle_mask: tuple[int, ...]
    name: str | None = None

    rules = (
        *tiles("dst", "src", any_dtype=True),
        same_dtype("dst", "src"),
        same_elements("dst", "src"),
        rule(
            "SH01",
            "shuffle_mask={i.shuffle_mask} is not a list of 32 numbers from 0 to 31, or 255",
            lambda i, t: _well_formed(i),
            _SOURCE,
            error=ArgumentError,
            fix="write the source partition of each of the 32 partitions of a quadrant, or 255 to leave it alone",
        ),
        rule(
            "SH02",
            "dst '{i.dst.name}' has {i.dst.partitions} partitions from {i.dst.start_partition} on, src '{i.src.name}' "
            "{i.src.partitions} from {i.src.start_partition} on: if one has more than 32, both start at 0 or "
            "64, if one has more than 64, both at 0",
            lambda i, t: all(a.start_partition in start_partitions(t, _active(i)) for a in (i.dst, i.src)),
            _SOURCE,
            error=PartitionError,
            fix="shuffle one quadrant at a time, or place the tiles there",
        ),
        rule(
            "SH03",
            "for dst {o[dst]} the shuffle_mask asks for partition {i.reached}, which src {o[src]} does not have",
            lambda i, t: i.reached < i.src.partitions,
            _SOURCE,
            error=PartitionError,
            fix="shuffle one quadrant at a time from a source that has the partitions, or write 255 for those",
        ),
    )

    @property
    def reached(self) -> int:
        """The last partition of ``src`` that one of ``dst`` asks for, counted from the first; -1 if none."""
        asked = [(p - p % QUADRANT, self.shuffle_mask[p % QUADRANT]) for p in range(self.dst.partitions)]
        return max((first + number for first, number in asked if number != LEAVE), default=-1)

    def semantics(self, m: Algebra[Any]) -> None:
        whole, rest = divmod(self.dst.partitions, QUADRANT)
        parts = [(0, whole, self.shuffle_mask), (whole * QUADRANT, min(rest, 1), self.shuffle_mask[:rest])]
        moves = [
            (
                _rows(self.dst, first + target, 1, count, quadrants),
                m.load(_rows(self.src, first + source, step, count, quadrants)),
            )
            for first, quadrants, mask in parts
            if quadrants
            for target, source, step, count in _runs(mask)
        ]
        for target, value in moves:
            m.store(target, value)

    def cost(self, target: Target) -> Estimate:
        """``max(64, N) + issue`` Vector cycles for N elements per partition."""
        return cost.streaming(self, target, self.dst.free_elements, "nc_stream_shuffle")

    @classmethod
    def sample(cls, draw: Draw) -> NcStreamShuffle:
        rows, free, dtype = draw.choice((1, 7, 32, 40, 64, 96, 128)), draw.free(), draw.choice((*COMPUTING, *PACKED))
        shift = draw.integer(0, QUADRANT - 1)
        kinds = (
            [0] * QUADRANT,
            [(p + shift) % QUADRANT for p in range(QUADRANT)],
            [QUADRANT - 1 - p for p in range(QUADRANT)],
            [draw.choice((LEAVE, draw.integer(0, QUADRANT - 1))) for _ in range(QUADRANT)],
            [shift, *[LEAVE] * (QUADRANT - 1)],
        )
        full = -(-rows // QUADRANT) * QUADRANT
        where = draw.choice((Buffer.sbuf, Buffer.psum))
        dst = draw.tile(full, free, dtype, where)
        if rows < full:
            dst = Access(dst.tensor, dst.offset, (rows, *dst.shape[1:]), dst.strides, dtype)
        return cls(dst, draw.tile(full, free, dtype), tuple(draw.choice(kinds)))
