"""Run-time indices of operands: an index that holds k reads and writes what an operand k steps further on does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nki import target
from nki.base import element_types as dt
from nki.base.errors import DynamicIndexError, MemoryRegionError, OutOfBoundsError
from nki.compilation import pipeline
from nki.ir.instruction import REGISTRY, Inst
from nki.ir.program import CoreProgram, Program, Signature
from nki.ir.sample import Draw
from nki.ir.text.parser import parse
from nki.ir.text.printer import show
from nki.ir.types import Access, Buffer, Dynamic, IndexKind, Tensor
from nki.ir.verifier import verify
from nki.isa.instructions.dma_copy import DmaCopy
from nki.isa.instructions.register import RegisterLoad
from nki.isa.instructions.tensor_copy import Memset, TensorCopy
from nki.isa.tables.enums import oob_mode
from tests.support import instruction_bench

FIXED = {
    *("register_move", "register_load", "register_store", "scalar_arithmetic", "scalar_load", "scalar_store"),
    *("dma_compute", "psum_zero", "rank_id", "processing_rank_id"),
}
"""Instructions on registers, a single element of a tensor, known addresses, or PSUM only."""
COUNT = max(1, instruction_bench.EXAMPLES // 10)


def moved(inst: Inst, draw: Draw, number: int) -> tuple[Inst, Inst, Tensor, int] | None:
    """``inst`` with one operand in a wider tensor, there at a fixed place and at a run-time index; and the index."""
    operands = [
        (slot, a)
        for slot, (f, a) in enumerate(inst.operands())
        if f.name not in instruction_bench.REGISTERS and a.buffer not in (Buffer.psum, Buffer.register)
    ]
    if not operands:
        return None
    slot, access = draw.choice(operands)
    step, index = draw.choice((1, 3)), draw.integer(0, 4)
    if access.buffer.on_chip:
        room = access.partition_step + 12
        wide = Tensor(f"wide{number}", (access.tensor.shape[0], room), access.tensor.dtype, access.buffer)
        place = access.start_partition * room + access.offset % access.partition_step
        strides = (access.strides[0] // access.partition_step * room, *access.strides[1:])
    else:
        wide = Tensor(f"wide{number}", (access.tensor.elements + 12,), access.tensor.dtype, access.buffer)
        place, strides = access.offset, access.strides
    source = Tensor(f"index{number}", (1, 1), draw.choice((dt.int32, dt.uint32, dt.uint8, dt.int16)), Buffer.sbuf)
    fixed = Access(wide, place + index * step, access.shape, strides, access.dtype)
    loose = Access(wide, place, access.shape, strides, access.dtype, Dynamic(Access.whole(source), step))
    return inst.with_operands({slot: fixed}), inst.with_operands({slot: loose}), source, index


@pytest.mark.parametrize("mnemonic", sorted(set(instruction_bench.WRITING) - FIXED))
def test_an_index_is_an_offset(mnemonic: str) -> None:
    choices = instruction_bench.source("dynamic", mnemonic)
    draw = Draw(choices, target.GEN4)
    found = [
        made
        for n in range(COUNT)
        if (made := moved(instruction_bench.sample(REGISTRY[mnemonic], draw), draw, n)) is not None
    ]  # fmt: skip
    assert found
    dynamic = instruction_bench.program([loose for _, loose, _, _ in found], target.GEN4)
    static = instruction_bench.program([fixed for fixed, _, _, _ in found], target.GEN4)
    filled = dynamic.fill(np.random.default_rng(choices.getrandbits(64)))
    contents = dict(zip(dynamic.tensors, filled, strict=True))
    for _, _, source, index in found:
        contents[source] = np.full((1, 1), index, source.dtype.dtype)
    inputs = [contents[t] for t in dynamic.tensors]
    native, eager = (
        instruction_bench.run_native(dynamic.kernel, inputs),
        instruction_bench.run_reference(dynamic.kernel, inputs),
    )
    assert not list(dynamic.differences(native, eager))
    fixed = instruction_bench.run_reference(static.kernel, [contents[t] for t in static.tensors])
    for tensor, array in zip(static.tensors, fixed, strict=True):
        assert array.tobytes() == native[dynamic.tensors.index(tensor)].tobytes() or tensor.dtype.is_float
        np.testing.assert_array_equal(
            array.astype(np.float32), eager[dynamic.tensors.index(tensor)].astype(np.float32), strict=True
        )
    assert parse(show(dynamic.kernel)) == dynamic.kernel


def copies(body: list[Inst], inputs: list[Tensor], output: Tensor) -> Program:
    tensors = tuple(dict.fromkeys(a.tensor for inst in body for a in (*inst.accesses(), *inst.indexed_by())))
    kernel = Program(
        "copies", "trn2", (), Signature(tuple(inputs), (output,), False), (CoreProgram(0, tuple(body), tensors),)
    )
    return pipeline.compile(None, {}, target.GEN3, start=kernel)


def rows_of(tensor: Tensor, index: Tensor, width: int, start: int = 0) -> Access:
    """As many rows of a matrix as there are indices, ``width`` elements from column ``start``."""
    step = tensor.free_size
    return Access(
        tensor,
        start,
        (index.shape[0], width),
        (step, 1),
        tensor.dtype,
        Dynamic(Access.whole(index), step, IndexKind.rows),
    )


@pytest.mark.parametrize("kind", [dt.int32, dt.uint32, dt.int16, dt.uint8], ids=str)
@pytest.mark.parametrize("both", [False, True])
def test_rows_are_gathered_and_scattered_in_order(kind: dt.DType, both: bool) -> None:
    """From one matrix to another; a row that is named twice holds what came last, one outside is left alone."""
    rng = np.random.default_rng(7)
    source = Tensor("source", (9, 6), dt.float32, Buffer.hbm, role="input")
    given = [Tensor(f"given{i}", (5, 1), kind, Buffer.hbm, role="input") for i in range(2)]
    index = [Tensor(f"index{i}", (5, 1), kind, Buffer.sbuf) for i in range(2)]
    result = Tensor("result", (7, 4), dt.bfloat16, Buffer.shared_hbm, role="output")
    zeros = Tensor("zeros", (7, 4), dt.bfloat16, Buffer.sbuf)
    there = rows_of(result, index[1], 4) if both else Access(result, 0, (5, 4), (4, 1), result.dtype)
    body: list[Inst] = [DmaCopy(Access.whole(i), Access.whole(g)) for i, g in zip(index, given, strict=True)]
    body += [Memset(Access.whole(zeros), 0), DmaCopy(Access.whole(result), Access.whole(zeros))]
    body.append(DmaCopy(there, rows_of(source, index[0], 4, 1), oob_mode=oob_mode.skip))
    kernel = copies(body, [source, *given], result)
    data = rng.standard_normal((9, 6)).astype(np.float32)
    take, put = np.array([[3], [100], [0], [8], [3]]), np.array([[6], [1], [2], [2], [50]])
    inputs = [data, take.astype(kind.dtype), put.astype(kind.dtype)]
    want = np.zeros((7, 4), dt.bfloat16.dtype)
    for number, (row, target_row) in enumerate(zip(take[:, 0], put[:, 0], strict=True)):
        to = target_row if both else number
        if row < 9 and to < 7:
            want[to] = data[row, 1:5].astype(dt.bfloat16.dtype)
    for run in (instruction_bench.run_native, instruction_bench.run_reference):
        np.testing.assert_array_equal(run(kernel, inputs)[0].astype(np.float32), want.astype(np.float32))


OUTSIDE: list[Any] = [
    (np.array([[4]], np.int32), 4, 1),
    (np.array([[-1]], np.int32), 2**32 - 1, -1),
    (np.array([[200]], np.uint8), 200, 200),
]


@pytest.mark.parametrize("run", [instruction_bench.run_native, instruction_bench.run_reference])
@pytest.mark.parametrize(("value", "shown", "_signed"), OUTSIDE)
@pytest.mark.parametrize("skip", [False, True])
def test_an_index_outside_is_an_error_or_skipped(run: Any, value: Any, shown: int, _signed: int, skip: bool) -> None:
    kind = dt.of(value.dtype)
    source = Tensor("source", (6, 5), dt.float32, Buffer.hbm, role="input")
    given = Tensor("given", (1, 1), kind, Buffer.hbm, role="input")
    index = Tensor("index", (1, 1), kind, Buffer.sbuf)
    result = Tensor("result", (3, 5), dt.float32, Buffer.shared_hbm, role="output")
    tile = Tensor("tile", (3, 5), dt.float32, Buffer.sbuf)
    window = Access(source, 0, (3, 5), (5, 1), source.dtype, Dynamic(Access.whole(index), 5))
    body: list[Inst] = [
        DmaCopy(Access.whole(index), Access.whole(given)),
        Memset(Access.whole(tile), 7),
        DmaCopy(Access.whole(tile), window, oob_mode=oob_mode.skip if skip else oob_mode.error),
        DmaCopy(Access.whole(result), Access.whole(tile)),
    ]
    kernel = copies(body, [source, given], result)
    data = np.arange(30, dtype=np.float32).reshape(6, 5)
    np.testing.assert_array_equal(run(kernel, [data, np.full_like(value, 3)])[0], data[3:6])
    if skip:
        np.testing.assert_array_equal(run(kernel, [data, value])[0], np.full((3, 5), 7))
        return
    with pytest.raises(OutOfBoundsError, match=rf"src 'source' \(6, 5\) was accessed at run-time index {shown}\b"):
        run(kernel, [data, value])


def test_only_dma_follows_an_index_for_each_row() -> None:
    tile, index = Tensor("tile", (4, 8), dt.float32, Buffer.sbuf), Tensor("index", (4, 1), dt.int32, Buffer.sbuf)
    out = Access.whole(Tensor("out", (4, 8), dt.float32, Buffer.sbuf))
    with pytest.raises(DynamicIndexError, match="only DMA follows"):
        verify(TensorCopy(out, rows_of(tile, index, 8)), target.GEN4, {})


def test_registers_are_no_tiles() -> None:
    register = Access.whole(Tensor("count", (1, 1), dt.int32, Buffer.register))
    tile = Access.whole(Tensor("tile", (1, 1), dt.int32, Buffer.sbuf))
    verify(RegisterLoad(register, tile), target.GEN4, {})
    with pytest.raises(MemoryRegionError, match="'count', which only loops"):
        verify(TensorCopy(tile, register), target.GEN4, {})
