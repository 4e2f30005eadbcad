"""Random legal operands, from which instruction declarations build samples of themselves."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

from nki.base import element_types as dt
from nki.base.element_types import DType
from nki.ir.types import Access, Buffer, Tensor, row_major
from nki.target.memory_spaces import start_partitions
from nki.target.model import Target

T = TypeVar("T")

FLOATS = (dt.float32, dt.bfloat16, dt.float16, dt.float8_e4m3, dt.float8_e5m2, dt.float8_e4m3fn, dt.tfloat32)
INTEGERS = (dt.int8, dt.uint8, dt.int16, dt.uint16, dt.int32, dt.uint32)
COMPUTING = (*FLOATS, *INTEGERS, dt.bool_)
PACKED = (dt.float8_e4m3fn_x4, dt.float8_e5m2_x4, dt.float4_e2m1fn_x4)


class Draw:
    """A source of choices. Tiles are strided windows of larger tensors as often as they are dense."""

    def __init__(self, source: random.Random, target: Target) -> None:
        self.source = source
        self.target = target
        self._count = 0

    def integer(self, low: int, high: int) -> int:
        """A whole number from ``low`` to ``high``, both possible."""
        return self.source.randint(low, high)

    def choice(self, items: Sequence[T]) -> T:
        """One of ``items``."""
        return items[self.source.randrange(len(items))]

    def flag(self) -> bool:
        """True or False."""
        return self.source.random() < 0.5

    def number(self) -> float:
        """A float32 value of moderate size; small integers and zeros are more frequent than in a uniform draw."""
        pick = self.source.random()
        if pick < 0.3:
            return float(self.integer(-3, 3))
        return float(dt.float32.dtype.type(self.source.uniform(-8, 8)))

    def partitions(self) -> int:
        """A partition count, the whole machine among them."""
        return self.choice((1, 2, 5, 32, 33, 64, 96, self.target.partitions))

    def free(self) -> int:
        """Elements per partition, around the widths of vectors."""
        return self.choice((1, 2, 3, 8, 15, 16, 17, 24, 40, 64))

    def copied(self) -> tuple[DType, DType]:
        """The dtypes of a destination and of the source copied to it: equal, or converted by the copy."""
        single = (*COMPUTING, dt.float8_e8m0fnu)
        dtype = self.choice((*single, *PACKED))
        return dtype, dtype if self.flag() or dtype.is_packed else self.choice(single)

    def tile(self, partitions: int, free: int, dtype: DType, buffer: Buffer = Buffer.sbuf) -> Access:
        """A window of ``partitions`` by ``free`` elements, free in one or two dimensions, dense or with a step."""
        outer = self.choice([n for n in range(1, free + 1) if free % n == 0][:4])
        shape = (partitions, free) if outer == 1 or self.flag() else (partitions, outer, free // outer)
        step = self.choice((1, 1, 1, 2)) if buffer is not Buffer.psum else 1
        pad = self.choice((0, 0, 3))
        start = self.choice(
            [s for s in start_partitions(self.target, partitions) if s + partitions <= self.target.partitions]
        )
        inner = shape[-1] * step + pad
        storage = (self.target.partitions, *shape[1:-1], inner)
        self._count += 1
        tensor = Tensor(f"t{self._count}", storage, dtype, buffer)
        strides = row_major(storage)
        offset = start * strides[0] + (pad // 2)
        return Access(tensor, offset, shape, (*strides[:-1], step), dtype)

    def block(self, partitions: int, free: tuple[int, ...], dtype: DType, buffer: Buffer = Buffer.sbuf) -> Access:
        """A dense tile of exactly this free shape, in a tensor of its own that may be wider."""
        self._count += 1
        storage = (partitions, *free[:-1], free[-1] + self.choice((0, 0, 5)))
        strides = row_major(storage)
        return Access(Tensor(f"t{self._count}", storage, dtype, buffer), 0, (partitions, *free), strides, dtype)

    def shifted(self, partitions: int, free: int, dtype: DType, shift: int) -> Access:
        """A tile that starts ``shift`` partitions from the beginning of its tensor."""
        self._count += 1
        tensor = Tensor(f"t{self._count}", (shift + partitions, free + self.choice((0, 0, 3))), dtype, Buffer.sbuf)
        return Access(tensor, shift * tensor.free_size, (partitions, free), (tensor.free_size, 1), dtype)

    def column(self, partitions: int, dtype: DType = dt.float32, buffer: Buffer = Buffer.sbuf) -> Access:
        """A vector operand of one element per partition."""
        return self.tile(partitions, 1, dtype, buffer)

    def registers(self, partitions: int) -> Access:
        """An engine's reduction registers, as the builder supplies them."""
        storage = Tensor("registers", (self.target.partitions, 1), dt.float32, Buffer.register)
        return Access(storage, 0, (partitions, 1), (1, 1), dt.float32)

    def register(self, dtype: DType = dt.int32) -> Access:
        """A scalar register."""
        self._count += 1
        return Access.whole(Tensor(f"r{self._count}", (1, 1), dtype, Buffer.register))

    def scalar(self, partitions: int) -> float | Access:
        """A number or a float32 vector operand."""
        return self.number() if self.flag() else self.column(partitions)

    def hbm(self, shape: tuple[int, ...], dtype: DType) -> Access:
        """A whole HBM tensor."""
        self._count += 1
        return Access.whole(Tensor(f"h{self._count}", shape, dtype, Buffer.hbm))
