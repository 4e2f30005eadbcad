"""``nisa.nc_n_gather`` and ``nisa.local_gather``: GpSimd picks elements by number."""

from __future__ import annotations

from typing import Any

from nki.base.element_types import int32, uint16, uint32
from nki.base.errors import ArgumentError, PartitionError, ShapeError
from nki.cost import engines as cost
from nki.ir.algebra import Algebra, as_moved
from nki.ir.estimate import Estimate
from nki.ir.instruction import Inst, instruction
from nki.ir.sample import COMPUTING, PACKED, Draw
from nki.ir.types import Access, Buffer, In, Out, Tile
from nki.isa.rules.operand_rules import buffer, dtypes, rule, same_dtype, same_elements, same_partitions, tiles
from nki.isa.tables import enums
from nki.target.memory_spaces import GPSIMD_CORE
from nki.target.model import Target

_LOCAL = "NKI reference, nki.isa.local_gather"


@instruction(engines=(enums.engine.gpsimd,))
class NcNGather(Inst):
    """``dst[p, i] = data[p, indices[p, i]]``, free dimensions counted as one.

    All tiles are in SBUF; ``indices`` is uint32 and has as many elements per partition as ``dst``, which has the dtype
    of ``data``. Bits are moved unchanged. An index outside the partition gives an undefined element: here it is
    the initial contents of the memory.
    """

    dst: Out[Tile]
    data: In[Tile]
    indices: In[Tile]
    name: str | None = None

    rules = (
        *tiles("dst", "data", any_dtype=True),
        *tiles("indices"),
        buffer("dst", Buffer.sbuf),
        buffer("data", Buffer.sbuf),
        buffer("indices", Buffer.sbuf),
        same_partitions("dst", "data", "indices"),
        same_elements("dst", "indices"),
        same_dtype("dst", "data"),
        dtypes("indices", uint32),
    )

    def semantics(self, m: Algebra[Any]) -> None:
        m.store(as_moved(self.dst), m.gather(m.load(as_moved(self.data)), m.load(self.indices)))

    def cost(self, target: Target) -> Estimate:
        """``N + 150 * ceil(N / 512)`` GpSimd cycles for N gathered elements per partition."""
        passes = -(-self.dst.free_elements // target.gpsimd_elements_per_start)
        cycles = target.gpsimd_issue_cycles * (passes - 1) + self.dst.free_elements
        return cost.guessed(self, target, cycles, "one start for every 512 elements, as GpSimd's iota")

    @classmethod
    def sample(cls, draw: Draw) -> NcNGather:
        partitions, free, dtype = draw.partitions(), draw.free(), draw.choice((*COMPUTING, *PACKED))
        data = draw.tile(partitions, draw.choice((1, 16, 100, 256)), dtype)
        return cls(draw.tile(partitions, free, dtype), data, draw.tile(partitions, free, uint32))


@instruction(engines=(enums.engine.gpsimd,))
class LocalGather(Inst):
    """Each group of 16 partitions has one list of indices, by which all of them gather from ``src_buffer``.

    The list is the group's part of ``index`` (uint16), down its 16 partitions first; ``num_valid_indices`` cuts it off.
    For each number in it, a partition of ``dst`` receives ``num_elem_per_idx`` (1, 2, 4, 8, 16 or 32) elements of its
    own partition of ``src_buffer`` from that element on, free dimensions counted as one. All tiles are in SBUF and have
    a multiple of 16 partitions; at most 4096 indices a group are used. Bits are moved unchanged. Elements outside
    the partition are undefined: here they are the initial contents of the memory.
    """

    dst: Out[Tile]
    src_buffer: In[Tile]
    index: In[Tile]
    num_elem_per_idx: int = 1
    num_valid_indices: int | None = None
    name: str | None = None

    rules = (
        *tiles("dst", "src_buffer", any_dtype=True),
        *tiles("index"),
        buffer("dst", Buffer.sbuf),
        buffer("src_buffer", Buffer.sbuf),
        buffer("index", Buffer.sbuf),
        same_partitions("dst", "src_buffer", "index"),
        same_dtype("dst", "src_buffer"),
        dtypes("index", uint16),
        rule(
            "LG01",
            "index '{i.index.name}' has {i.index.partitions} partitions, not a multiple of 16",
            lambda i, t: i.index.partitions % t.gpsimd_core_partitions == 0,
            _LOCAL,
            error=PartitionError,
            fix="use whole groups of 16 partitions, one for each GpSimd core",
        ),
        rule(
            "LG02",
            "num_elem_per_idx={i.num_elem_per_idx}",
            lambda i, t: i.num_elem_per_idx in t.local_gather_runs,
            _LOCAL,
            error=ArgumentError,
            fix="use 1, 2, 4, 8, 16 or 32",
        ),
        rule(
            "LG03",
            "num_valid_indices={i.num_valid_indices}; a group of 16 partitions of index '{i.index.name}' "
            "{i.index.shape} holds 1 to 16 times the elements of a partition",
            lambda i, t: 1 <= i.count <= t.gpsimd_core_partitions * i.index.free_elements,
            _LOCAL,
            error=ArgumentError,
            fix="pass a number in that range, or leave it out to use all",
        ),
        rule(
            "LG04",
            "a group of 16 partitions of index '{i.index.name}' {i.index.shape} would use {i.count} indices; the limit "
            "is {t.local_gather_indices_max}",
            lambda i, t: i.count <= t.local_gather_indices_max,
            _LOCAL,
            error=ShapeError,
            fix="gather in several instructions",
        ),
        rule(
            "LG05",
            "dst '{i.dst.name}' {i.dst.shape} has {i.dst.free_elements} elements per partition, not "
            "{i.num_elem_per_idx} for each of {i.count} indices",
            lambda i, t: i.dst.free_elements == i.count * i.num_elem_per_idx,
            "Release notes of NKI 0.6 (the vendor's compiler ignores num_elem_per_idx otherwise)",
            error=ShapeError,
            fix="size dst so, and pass num_valid_indices: without it all indices of 16 partitions are used",
        ),
    )

    @property
    def count(self) -> int:
        """Indices that each core uses."""
        return GPSIMD_CORE * self.index.free_elements if self.num_valid_indices is None else self.num_valid_indices

    def semantics(self, m: Algebra[Any]) -> None:
        index, run = self.index, self.num_elem_per_idx
        partitions, count = index.partitions, self.count
        # For each partition the list of its group: each column down the group's partitions.
        over = index.strides[0]
        shape, strides = (
            (partitions // GPSIMD_CORE, GPSIMD_CORE, *index.shape[1:], GPSIMD_CORE),
            (GPSIMD_CORE * over, 0, *index.strides[1:], over),
        )
        listed = m.load(Access(index.tensor, index.offset, shape, strides, index.dtype))
        indices = m.strided(m.reshape(listed, partitions), 0, 1, count)
        if run > 1:
            each = m.gather(indices, m.iota(((1, count), (0, run)), 0, 0, 1))
            indices = m.integer("add", each, m.iota(((0, count), (1, run)), 0, 0, 1), int32)
        m.store(as_moved(self.dst), m.gather(m.load(as_moved(self.src_buffer)), indices))

    def cost(self, target: Target) -> Estimate:
        """``N * (28 + 4 r) / (4 r) / min(4 / b, r)`` GpSimd cycles: N elements of b bytes, in runs of r per index."""
        run, size = self.num_elem_per_idx, self.dst.dtype.itemsize
        each = ((28 + 4 * run) / (4 * run)) / min(4 / size, run)
        why = "release 2.26.1 of the reference divides the elements by this factor, so that long runs would be slower"
        return cost.guessed(self, target, self.count * run * each, why)

    @classmethod
    def sample(cls, draw: Draw) -> LocalGather:
        partitions, dtype = draw.choice((16, 32, 64, 128)), draw.choice((*COMPUTING, *PACKED))
        index = draw.tile(partitions, draw.choice((1, 2, 5)), uint16)
        valid = draw.integer(1, GPSIMD_CORE * index.free_elements)
        run = draw.choice(draw.target.local_gather_runs[:4])
        count = valid if draw.flag() else GPSIMD_CORE * index.free_elements
        data = draw.tile(partitions, draw.choice((1, 16, 100, 256)), dtype)
        every = count == GPSIMD_CORE * index.free_elements and draw.flag()
        return cls(draw.tile(partitions, count * run, dtype), data, index, run, None if every else count)
