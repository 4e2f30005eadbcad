"""Layouts: the bytes of a memory at which the elements of a tensor lie.

Executors ask a layout for every displacement, so that another layout is one class.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Generic, NamedTuple, TypeVar

from nki.ir.instruction import Inst
from nki.ir.types import Access, Buffer, Dynamic, Tensor

B = TypeVar("B")
_PARTITIONED = (Buffer.sbuf, Buffer.psum)


class Address(NamedTuple, Generic[B]):
    """An access in memory: the base of a block of bytes, the offset of the first element, bytes per step."""

    base: B
    offset: int
    strides: tuple[int, ...]


class Layout:
    """The dense layout: all elements of a tensor one after the other, in row-major order."""

    def nbytes(self, tensor: Tensor) -> int:
        """Bytes that ``tensor`` takes."""
        return tensor.nbytes

    def displacement(self, access: Access, elements: int) -> int:
        """Bytes between two elements of the tensor of ``access`` that are ``elements`` apart in it."""
        return elements * access.dtype.itemsize

    def physical(self, inst: Inst) -> Inst:
        """The instruction on operands whose dense layout is this layout of the operands of ``inst``."""
        return inst


class PartitionLayout(Layout):
    """A layout in which the partitions of SBUF and PSUM tensors lie :meth:`pitch` bytes apart; others are dense."""

    @abstractmethod
    def pitch(self, tensor: Tensor) -> int:
        """Bytes from one partition of ``tensor`` to the next: a multiple of the size of all its elements."""

    def nbytes(self, tensor: Tensor) -> int:
        return self.pitch(tensor) * tensor.shape[0] if tensor.buffer in _PARTITIONED else tensor.nbytes

    def displacement(self, access: Access, elements: int) -> int:
        if access.buffer not in _PARTITIONED:
            return elements * access.dtype.itemsize
        # Any dimension may step over partitions: MX instructions take their scales from four partitions in 32.
        partitions, columns = divmod(abs(elements), access.partition_step)
        distance = partitions * self.pitch(access.tensor) + columns * access.dtype.itemsize
        return distance if elements >= 0 else -distance

    def physical(self, inst: Inst) -> Inst:
        tensors: dict[Tensor, Tensor] = {}
        return inst.with_operands({i: self._access(a, tensors) for i, a in enumerate(inst.accesses())})

    def _access(self, access: Access, tensors: dict[Tensor, Tensor]) -> Access:
        tensor, size, dynamic = access.tensor, access.dtype.itemsize, access.dynamic
        if tensor.buffer in _PARTITIONED and tensor not in tensors:
            shape = (tensor.shape[0], self.pitch(tensor) // tensor.dtype.itemsize)
            tensors[tensor] = Tensor(tensor.name, shape, tensor.dtype, tensor.buffer)
        if dynamic is not None:
            step = self.displacement(access, dynamic.step) // size
            dynamic = Dynamic(self._access(dynamic.source, tensors), step, dynamic.kind)
        offset, *strides = (self.displacement(access, n) // size for n in (access.offset, *access.strides))
        return Access(tensors.get(tensor, tensor), offset, access.shape, tuple(strides), access.dtype, dynamic)


class PaddedPartitions(PartitionLayout):
    """Partitions of SBUF and PSUM tensors begin at multiples of ``align`` bytes."""

    def __init__(self, align: int) -> None:
        self.align = align

    def pitch(self, tensor: Tensor) -> int:
        return -(-tensor.bytes_per_partition // self.align) * self.align


DENSE = Layout()
