"""Tensors that a program may read before it has written them."""

from __future__ import annotations

from nki.analysis.definite_initialization import maybe_uninitialized
from nki.base.element_types import float32
from nki.ir.instruction import Inst
from nki.ir.program import CoreProgram, Signature
from nki.ir.types import Access, Buffer, Tensor
from nki.isa.instructions.tensor_copy import TensorCopy


def test_a_tile_written_in_part_is_told_from_others_written_alike() -> None:
    """Of tiles that are written by halves and then read, one lacks a half, and one gets it too late."""
    source = Tensor("source", (128, 64), float32, Buffer.hbm, role="input")
    result = Tensor("result", (128, 64), float32, Buffer.sbuf)
    tiles = [Tensor(f"tile{number}", (128, 64), float32, Buffer.sbuf) for number in range(4)]
    halves = [[Access(tile, first, (128, 32), (64, 1), float32) for first in (0, 32)] for tile in tiles]
    part = Access(source, 0, (128, 32), (64, 1), float32)
    body: list[Inst] = []
    for number, (tile, (left, right)) in enumerate(zip(tiles, halves, strict=True)):
        read = TensorCopy(Access.whole(result), Access.whole(tile))
        writes = [TensorCopy(left, part), TensorCopy(right, part)]
        body += {1: [writes[0], read], 2: [writes[0], read, writes[1], read]}.get(number, [*writes, read, read])
    core = CoreProgram(0, tuple(body), (source, result, *tiles))
    assert maybe_uninitialized(core, Signature((source,), (), False)) == {tiles[1], tiles[2]}
