"""Random programs over tiles, and a machine that runs them on bytes that remember their owner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from hypothesis import strategies as st

from nki.base.element_types import bfloat16, float32, int32, uint8
from nki.ir.instruction import Inst
from nki.ir.loop import For, Statement, declared
from nki.ir.program import CoreProgram, Program, Signature
from nki.ir.types import Access, Buffer, Tensor
from nki.isa.instructions.tensor_copy import Memset, TensorCopy

ROUNDS = 3


@st.composite
def programs(draw: Any, addresses: bool = False, largest: int = 60_000, parts: bool = False) -> Program:
    """Tiles of all sizes in both memories, filled and copied, in loops and outside. ``parts``: also parts of them."""
    maker = _Maker(draw, addresses, largest, parts)
    body, tensors = maker.block(0, [])
    core = CoreProgram(0, body, (*tensors, *maker.registers, *declared(body)))
    return Program("random", "trn2", (), Signature((), (), True), (core,), spills=False)


class _Maker:
    def __init__(self, draw: Any, addresses: bool, largest: int, parts: bool) -> None:
        self.draw, self.addresses, self.largest, self.parts = draw, addresses, largest, parts
        self.count = 0
        self.registers: list[Tensor] = []

    def block(self, depth: int, known: list[Tensor]) -> tuple[tuple[Statement, ...], tuple[Tensor, ...]]:
        body: list[Statement] = []
        made: list[Tensor] = []
        for _ in range(self.draw(st.integers(1, 12 if depth == 0 else 4))):
            kind = self.draw(st.integers(0, 9))
            everything = [*known, *made]
            if kind < 4 or not everything:
                made.append(self.tile())
                body.append(Memset(self.window(made[-1]), 0.0))
            elif kind < 5:
                made.append(self.tile())  # what is read first, or never touched at all
            elif kind < 9 or depth == 2:
                dst, src = self.draw(st.sampled_from(everything)), self.draw(st.sampled_from(everything))
                body.append(TensorCopy(*alike(self.window(dst), self.window(src))))
            else:
                register = Tensor(f"i{len(self.registers)}", (1, 1), int32, Buffer.register)
                self.registers.append(register)
                inner, tensors = self.block(depth + 1, everything)
                body.append(For(Access.whole(register), 0, ROUNDS, 1, inner, tensors))
        return tuple(body), tuple(made)

    def window(self, tensor: Tensor) -> Access:
        """All of the tensor, or some columns of some partitions, with or without gaps."""
        if not self.parts or self.draw(st.booleans()):
            return Access.whole(tensor)
        rows, step = self.draw(st.integers(1, tensor.shape[0])), self.draw(st.integers(1, 2))
        start = self.draw(st.integers(0, tensor.shape[1] - 1))
        columns = self.draw(st.integers(1, (tensor.shape[1] - 1 - start) // step + 1))
        return Access(tensor, start, (rows, columns), (tensor.shape[1], step), tensor.dtype)

    def tile(self) -> Tensor:
        self.count += 1
        partitions = self.draw(st.sampled_from((1, 16, 32, 64, 100, 128)))
        dtype = self.draw(st.sampled_from((uint8, bfloat16, float32)))
        if self.draw(st.integers(0, 3)) == 0:
            columns = self.draw(st.integers(1, 4096 // dtype.itemsize))
            return Tensor(f"t{self.count}", (partitions, columns), dtype, Buffer.psum)
        columns = self.draw(st.one_of(st.integers(1, 8), st.integers(1, self.largest // dtype.itemsize)))
        address = None
        if self.addresses and self.draw(st.integers(0, 2)) == 0:
            address = (0, self.draw(st.integers(0, 300 if self.parts else 50_000)) * 4)
            columns = min(columns, 500)
        return Tensor(f"t{self.count}", (partitions, columns), dtype, Buffer.sbuf, address)


def alike(one: Access, two: Access) -> tuple[Access, Access]:
    """The windows with as many partitions and columns as both have."""
    shape = (min(one.shape[0], two.shape[0]), min(one.shape[1], two.shape[1]))
    made = [Access(a.tensor, a.offset, shape, a.strides, a.dtype) for a in (one, two)]
    return made[0], made[1]


class Lost(AssertionError):
    """Bytes that a tile holds were overwritten before they were read."""


def check(kernel: CoreProgram, places: Mapping[Tensor, tuple[int, int]]) -> None:
    """Run ``kernel``; no instruction may find, where a tile was written, what another one has written.

    Raises :class:`Lost`. Tiles without a place do not count.
    """
    sizes = {Buffer.sbuf: 224 * 1024, Buffer.psum: 16 * 1024}
    memory = {buffer: np.zeros((128, size), np.int32) for buffer, size in sizes.items()}
    numbers = {tensor: number for number, tensor in enumerate(kernel.tensors, 1)}
    written: dict[Tensor, Any] = {}

    def held(tensor: Tensor) -> Any:
        partition, offset = places[tensor]
        size = tensor.free_size * tensor.dtype.itemsize
        found = memory[tensor.buffer][partition : partition + tensor.shape[0], offset : offset + size]
        assert found.shape == (tensor.shape[0], size), f"{tensor.name} leaves the memory"
        return found

    def seen(access: Access) -> tuple[slice, Any]:
        """The rows and bytes of a tile that a window sees."""
        size, (rows, columns) = access.dtype.itemsize, access.shape
        starts = np.arange(columns) * access.strides[1] + access.offset
        return slice(rows), (starts[:, None] * size + np.arange(size)).reshape(-1)

    def find(access: Access) -> None:
        tensor = access.tensor
        if tensor in places and tensor in written:
            window = seen(access)
            if (held(tensor)[window][written[tensor][window]] != numbers[tensor]).any():
                raise Lost(f"{tensor.name} was overwritten")

    def write(access: Access) -> None:
        tensor = access.tensor
        if tensor in places:
            mask, window = written.setdefault(tensor, np.zeros(held(tensor).shape, np.bool_)), seen(access)
            held(tensor)[window] = numbers[tensor]
            mask[window] = True

    def run(body: tuple[Statement, ...]) -> None:
        for statement in body:
            if not isinstance(statement, Inst):
                for tensor in statement.tensors:
                    written.pop(tensor, None)  # it is a new one each time that the loop begins
                for _ in range(ROUNDS):
                    run(statement.body)
                continue
            for read in statement.reads():
                find(read)
            for access in statement.writes():
                write(access)
            for access in statement.accesses():  # an instruction's own tiles, too, are apart from one another
                find(access)

    run(kernel.body)
