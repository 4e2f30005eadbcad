"""Contents of the tensors of a program, each in a block of bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nki.ir.program import Program
from nki.ir.rng_state import initial
from nki.ir.types import Access, Tensor

Array = NDArray[Any]
Bytes = NDArray[np.uint8]


class SharedBytes:
    """The bytes of SBUF or PSUM of one core, ``size`` in all, ``pitch`` of them in a partition, which tiles share."""

    __slots__ = ("_array", "pitch", "size")

    def __init__(self, partitions: int, pitch: int) -> None:
        self._array: Bytes | None = None
        self.size = partitions * pitch
        self.pitch = pitch

    @property
    def array(self) -> Bytes:
        """All of them; there from the first use on."""
        if self._array is None:
            self._array = np.full(self.size, 0xFF, np.uint8)
        return self._array


class Memory:
    """A block of bytes for each tensor, allocated when first touched and poisoned until written."""

    def __init__(self) -> None:
        self._blocks: dict[Tensor, Bytes] = {}
        self._borrowed: set[Tensor] = set()

    def bind(self, tensor: Tensor, array: Array) -> None:
        """Let ``tensor``, which is in HBM, be ``array`` (dense, of its shape and dtype), which the caller owns."""
        self._blocks[tensor] = array.reshape(-1).view(np.uint8)
        self._borrowed.add(tensor)

    def begin(self, program: Program, inputs: Sequence[Array]) -> None:
        """Take the inputs of ``program``, which stay as they are: what the program changes is a copy."""
        for tensor, array in zip(program.inputs, inputs, strict=True):
            self.bind(tensor, array)
            if tensor in program.outputs:
                self.own(tensor)

    def own(self, tensor: Tensor) -> None:
        """Replace the caller's array by a copy, because the tensor is about to be written."""
        if tensor in self._borrowed:
            self._borrowed.remove(tensor)
            self._blocks[tensor] = self._blocks[tensor].copy()

    def forget(self, tensor: Tensor) -> None:
        """Free the block of ``tensor``, which is not used any more."""
        self._blocks.pop(tensor, None)

    def share(self, other: Memory) -> None:
        """Have the tensors of ``other``, the memory of another core of the launch."""
        self._blocks, self._borrowed = other._blocks, other._borrowed

    def _block(self, tensor: Tensor) -> Bytes:
        block = self._blocks.get(tensor)
        if block is None:
            block = self._blocks[tensor] = self._allocate(tensor)
        return block

    def _allocate(self, tensor: Tensor) -> Bytes:
        if tensor.data is not None:
            return np.frombuffer(tensor.data.data, np.uint8)
        contents = initial(tensor)
        if contents is not None:
            return contents.reshape(-1).view(np.uint8)
        return np.frombuffer(tensor.dtype.poison * tensor.elements, np.uint8).copy()

    def home(self, tensor: Tensor) -> Tensor | SharedBytes:
        """The tensor itself, if it has a block of its own; the bytes that tiles share, if it lies in them."""
        return tensor

    def address(self, access: Access) -> tuple[int, tuple[int, ...]]:
        """Byte offset and byte strides of ``access`` in the home of its tensor."""
        size = access.dtype.itemsize
        return access.offset * size, tuple([step * size for step in access.strides])

    def window(self, access: Access) -> Array:
        """A writable view of the elements of ``access``, in its shape."""
        block = self._block(access.tensor)
        offset, strides = self.address(access)
        # NumPy does not stride over element types that it did not define itself: the view is taken on plain words.
        words = np.ndarray(access.shape, f"u{access.dtype.itemsize}", block, offset, strides)
        return words.view(access.dtype.plain)

    def array(self, tensor: Tensor) -> Array:
        """All elements of ``tensor``."""
        return self.window(Access.whole(tensor))

    def results(self, program: Program) -> list[Array]:
        """The outputs of ``program``."""
        specs = zip(program.outputs, program.signature.output_specs(), strict=True)
        return [self.array(tensor).reshape(-1).view(spec.dtype.dtype).reshape(spec.shape) for tensor, spec in specs]
