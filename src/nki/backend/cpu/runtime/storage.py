"""Addresses of tensors in native memory: a slot of the frame, and a byte offset from the pointer in it.

Memory on chip and internal HBM become one arena; tensors with live ranges that do not interfere share its bytes, which
also keeps a long unrolled loop in the processor's cache.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from operator import attrgetter
from typing import Final

from nki.analysis.liveness import tensor_ranges
from nki.backend.cpu.native.frame import ARENA, FIRST_IO, aligned
from nki.ir.layout import DENSE
from nki.ir.program import CoreProgram, Signature
from nki.ir.types import Access, Tensor

_LEAST_CLASS: Final = 4 << 10
_LARGEST_CLASS: Final = 8 << 20
"""Bytes of blocks with sizes that are powers of two."""


@dataclass(slots=True)
class _Arena:
    """Size-class allocator: a block that was freed is reused for tensors of its own size class.

    Sizes of tiles are classed by powers of two, so that a tile that is longer in each round of a loop takes memory that
    is still in the cache. What a tensor leaves of its block is not touched, and so not resident.
    """

    size: int = 0
    free_blocks: dict[int, list[int]] = field(default_factory=dict[int, list[int]])

    def allocate(self, nbytes: int) -> tuple[int, int]:
        """The start and the size of a block of at least ``nbytes``."""
        rounded = aligned(nbytes)
        if _LEAST_CLASS < rounded <= _LARGEST_CLASS:
            rounded = 1 << (rounded - 1).bit_length()
        blocks = self.free_blocks.get(rounded)
        if blocks:
            return blocks.pop(), rounded
        start = self.size
        self.size += rounded
        return start, rounded

    def free(self, block: tuple[int, int]) -> None:
        """Take a block back."""
        self.free_blocks.setdefault(block[1], []).append(block[0])


class Storage:
    """The native memory of one core.

    Inputs, outputs, constants and the ``shared`` tensors have a slot of the frame each; all other tensors that the core
    uses lie in the arena. Tensors in ``fills`` are filled once, before the outermost loop that accesses
    them; no other tensor takes their bytes in that loop.
    """

    def __init__(
        self,
        core: CoreProgram,
        signature: Signature,
        shared: Sequence[Tensor],
        fills: Collection[Tensor] = (),
    ) -> None:
        self.bases: dict[Tensor, tuple[int, int]] = {}
        """Slot and byte offset of the first byte of each tensor."""
        external = (*signature.inputs, *signature.outputs, *core.constants(), *shared)
        for slot, tensor in enumerate(external, FIRST_IO):
            self.bases.setdefault(tensor, (slot, 0))
        self.free_slot = FIRST_IO + len(external)
        """The first slot of the frame that no tensor has."""
        self.arena_bytes = self._allocate(core, fills)

    def _allocate(self, core: CoreProgram, fills: Collection[Tensor]) -> int:
        """Place all other tensors in the arena; its size."""
        arena = _Arena()
        live: list[tuple[int, int, tuple[int, int]]] = []
        """Last point, number, and block of each tensor that may be live."""
        for number, live_range in enumerate(sorted(tensor_ranges(core, fills).values(), key=attrgetter("first"))):
            tensor = live_range.tensor
            if tensor in self.bases:
                continue
            while live and live[0][0] < live_range.first:
                arena.free(heappop(live)[2])
            block = arena.allocate(native_bytes(tensor))
            self.bases[tensor] = (ARENA, block[0])
            heappush(live, (live_range.last, number, block))
        return arena.size

    def arguments(self, *accesses: Access) -> list[int]:
        """Slot and byte offset of the first element of each access, one after the other: arguments of a routine."""
        args: list[int] = []
        bases = self.bases
        for access in accesses:  # without a call for each operand, which would be a tenth of linking
            tensor, place = access.tensor, access.offset
            slot, start = bases[tensor]
            if tensor.layout is not DENSE:
                place = tensor.layout.place(tensor.shape[0], tensor.free_size, place)
            args.append(slot)
            args.append(start + place * access.dtype.itemsize)
        return args

    def strided(self, access: Access) -> tuple[int, int, list[int]]:
        """Slot, byte offset and byte strides of ``access``."""
        assert access.tensor.layout is DENSE, "run-time indices are in dense tensors"
        slot, offset = self.arguments(access)
        return slot, offset, [step * access.dtype.itemsize for step in access.strides]


def native_bytes(tensor: Tensor) -> int:
    """Bytes that ``tensor`` takes in its layout."""
    if tensor.layout is DENSE:
        return tensor.nbytes
    return tensor.layout.elements(tensor.shape[0], tensor.free_size) * tensor.dtype.itemsize
