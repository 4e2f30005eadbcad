"""Tiles that the user has placed on the same bytes: whether one loses there what is still read of it.

The program is gone through once, loops twice (what a round leaves, the next one finds), with a note for each byte of
memory whose it is. That is exact but for what only a run tells: a window that a run-time index moves counts as its
whole tile, and an instruction that may leave places as they were is not known to fill any. Loops that may not run at
all are looked at both ways.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from nki.ir.access_bounds import byte_window
from nki.ir.instruction import Inst
from nki.ir.loop import Loop, Statement
from nki.ir.program import CoreProgram
from nki.ir.types import Access, Tensor

_NOBODY = -1
"""The owner of bytes that are lost for sure, and may or may not have been written anew since."""


@dataclass(frozen=True, slots=True)
class Loss:
    """``writer`` writes ``over`` on bytes of ``victim`` that ``reader`` needs afterwards, or itself meanwhile."""

    victim: Tensor
    over: Tensor
    reader: Inst
    writer: Inst


def loss(kernel: CoreProgram, placed: Iterable[Tensor]) -> Loss | None:
    """The first of these tiles, which the user has placed in one memory, that loses what is read of it."""
    tiles = list(dict.fromkeys(placed))
    tiles = [tensor for tensor in tiles if any(_meet(tensor, other) for other in tiles if other is not tensor)]
    return _Bytes(tiles).body(kernel.body) if tiles else None


class _Bytes:
    """Whose the bytes are on which the tiles lie."""

    def __init__(self, tiles: list[Tensor]) -> None:
        self.numbers = {tensor: number for number, tensor in enumerate(tiles, 1)}
        self.tiles = tiles
        areas = [(*_address(tensor), tensor.shape[0], _size(tensor)) for tensor in tiles]
        self.low = (min(p for p, _, _, _ in areas), min(b for _, b, _, _ in areas))
        rows, columns = max(p + n for p, _, n, _ in areas), max(b + size for _, b, _, size in areas)
        self.owner = np.zeros((rows - self.low[0], columns - self.low[1]), np.int32)
        self.written = {tensor: np.zeros(tensor.nbytes, np.bool_) for tensor in tiles}
        self.writers: dict[int, tuple[Tensor, Inst]] = {}

    def body(self, statements: Iterable[Statement]) -> Loss | None:
        for statement in statements:
            found = self.step(statement) if isinstance(statement, Inst) else self.loop(statement)
            if found is not None:
                return found
        return None

    def loop(self, loop: Loop) -> Loss | None:
        for tensor in loop.tensors:
            if tensor in self.numbers:  # it ends with the loop
                self.written[tensor][...] = False
        before = None if loop.runs() else (self.owner.copy(), {t: w.copy() for t, w in self.written.items()})
        found = self.body(loop.body) or self.body(loop.body)
        if before is not None:
            self._join(*before)
        return found

    def _join(self, owner: NDArray[np.int32], written: dict[Tensor, NDArray[np.bool_]]) -> None:
        """The loop may not have run: who owned bytes there that another one then got may be without them."""
        for tensor, number in self.numbers.items():
            now, was = self._all(self.owner, tensor), self._all(owner, tensor)
            held = written[tensor].reshape(tensor.shape[0], -1)
            now[(now == number) & (was != number) & held] = _NOBODY

    def step(self, inst: Inst) -> Loss | None:
        reads = [access for access in inst.reads() if access.tensor in self.numbers]
        writes = [access for access in inst.writes() if access.tensor in self.numbers]
        found = self._lost(inst, reads)
        if found is None and writes:
            certain = not inst.may_leave_unwritten()
            for access in writes:
                self._write(inst, access, certain)
            found = self._lost(inst, reads)
        return found

    def _lost(self, inst: Inst, reads: list[Access]) -> Loss | None:
        for access in reads:
            tensor, whole = access.tensor, _reach(access)
            owners = self._window(whole)
            gone = (owners != self.numbers[tensor]) & byte_window(self.written[tensor], whole)
            if gone.any():
                by = int(owners[gone].max())
                over, writer = self.writers[by] if by in self.writers else self._rival(tensor)
                return Loss(tensor, over, inst, writer)
        return None

    def _rival(self, tensor: Tensor) -> tuple[Tensor, Inst]:
        """Of the others that lie there, one that was written."""
        mine = self.numbers[tensor]
        for number, (other, writer) in self.writers.items():
            if number != mine and _meet(tensor, other):
                return other, writer
        raise AssertionError(f"'{tensor.name}' lost bytes to nobody")

    def _write(self, inst: Inst, access: Access, certain: bool) -> None:
        tensor, number, whole = access.tensor, self.numbers[access.tensor], _reach(access)
        owners, written = self._window(whole), byte_window(self.written[tensor], whole)
        if certain and access.dynamic is None:
            owners[...] = number
        else:
            owners[...] = np.where((owners == number) | ~written, number, _NOBODY)
        written[...] = True
        self.writers[number] = (tensor, inst)

    def _all(self, owner: NDArray[np.int32], tensor: Tensor) -> NDArray[np.int32]:
        row, column = (given - low for given, low in zip(_address(tensor), self.low, strict=True))
        return owner[row : row + tensor.shape[0], column : column + _size(tensor)]

    def _window(self, access: Access) -> NDArray[np.int32]:
        """The owners of the bytes that a window sees, in its shape and one dimension more."""
        size, pitch = access.dtype.itemsize, access.partition_step
        row, column = divmod(access.offset, pitch)
        tile, (down, right) = self._all(self.owner, access.tensor), self.owner.strides
        steps = (access.strides[0] // pitch * down, *(step * size * right for step in access.strides[1:]), right)
        return as_strided(tile[row:, column * size :], (*access.shape, size), steps)


def _address(tensor: Tensor) -> tuple[int, int]:
    assert tensor.address is not None
    return tensor.address


def _size(tensor: Tensor) -> int:
    return tensor.bytes_per_partition


def _reach(access: Access) -> Access:
    return access if access.dynamic is None else Access.whole(access.tensor)


def _meet(one: Tensor, two: Tensor) -> bool:
    (p, b), (q, c) = _address(one), _address(two)
    return p < q + two.shape[0] and q < p + one.shape[0] and b < c + _size(two) and c < b + _size(one)
