"""Routines that take a range of partitions: ranges that cover all of them give the bits of one call, in any order."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from llvmlite import ir

from nki.backend.cpu.codegen.routine import EmittedRoutine, emit_routine
from nki.backend.cpu.kernel_ir.accesses import aliases
from nki.backend.cpu.kernel_ir.nodes import GRANULE
from nki.backend.cpu.native.frame import FIRST_IO, SCRATCH, STATUS
from nki.ir.instruction import REGISTRY, Inst
from nki.ir.sample import Draw
from nki.ir.types import Tensor
from nki.numerics.llvm_jit import engine
from nki.target import GEN4
from tests.support import instruction_bench

SAMPLES = max(3, instruction_bench.EXAMPLES // 12)
"""Instructions per mnemonic."""
EVERY = (1 << 63) - 1
WHOLE = {
    "core_barrier",
    "prepare_exchange",
    "local_gather",  # groups of partitions share indices
    "nonzero_with_count",  # results are in one partition
    "quantize_mx",  # scales of groups of partitions
    "register_load",  # registers have one partition
    "register_move",
    "register_store",
    "scalar_arithmetic",
    "scalar_load",
    "scalar_store",
    "sequence_bounds",  # one partition
    "tensor_partition_reduce",
    "topk",  # groups of partitions rank together
}
"""Instructions that are never split."""


def instructions(mnemonic: str) -> Iterator[Inst]:
    """Instructions that can be split, some of them with operands that share memory."""
    draw = Draw(instruction_bench.source(mnemonic, "partitions"), GEN4)
    chosen = 0
    for number in range(40 * SAMPLES):
        inst: Inst | None = instruction_bench.sample(REGISTRY[mnemonic], draw)
        if number % 3:
            inst = (instruction_bench.in_place, instruction_bench.crowded)[number % 3 - 1](inst, draw)
        if inst is None or inst.indexed_by():
            continue
        if emit(ir.Module("sample"), "r", inst).partitions:
            yield inst
            chosen += 1
            if chosen == SAMPLES:
                return


def emit(module: ir.Module, name: str, inst: Inst) -> EmittedRoutine:
    return emit_routine(module, name, inst, aliases(inst), engine().vector_width)


class Call:
    """The routine of one instruction, and memory to call it on."""

    def __init__(self, inst: Inst, emitted: EmittedRoutine, address: int) -> None:
        self.inst, self.partitions, self.scratch = inst, emitted.partitions, emitted.scratch
        self.routine = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 2)(address)
        self.tensors = list(dict.fromkeys(a.tensor for a in inst.accesses()))

    def fill(self, rng: np.random.Generator) -> dict[Tensor, Any]:
        """Random contents of every tensor."""
        return {tensor: instruction_bench.contents(tensor.dtype, tensor.shape, rng) for tensor in self.tensors}

    def run(self, contents: dict[Tensor, Any], ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """The tensors after a call per range, each with scratch memory of its own."""
        memory = [np.ascontiguousarray(contents[tensor]).copy() for tensor in self.tensors]
        args: list[int] = []
        for access in self.inst.accesses():
            args += [FIRST_IO + self.tensors.index(access.tensor), access.offset * access.dtype.itemsize]
        args += [struct.unpack("<q", struct.pack("<d", float(number)))[0] for number in self.inst.immediates()]
        words = np.array(args, np.int64)
        for first, last in ranges:
            scratch = np.full(self.scratch + 64, 0xA5, np.uint8)
            status = np.zeros(3, np.int64)
            frame = np.zeros(FIRST_IO + len(memory), np.int64)
            frame[SCRATCH], frame[STATUS] = -(-scratch.ctypes.data // 64) * 64, status.ctypes.data
            frame[FIRST_IO:] = [array.ctypes.data for array in memory]
            self.routine(frame.ctypes.data, words.ctypes.data, first, last)
        return [array.tobytes() for array in memory]


def calls(insts: list[Inst]) -> list[Call]:
    module = ir.Module("partitions")
    emitted = [emit(module, f"r{number}", inst) for number, inst in enumerate(insts)]
    addresses = engine().compile(module)
    return [Call(inst, e, addresses[f"r{n}"]) for n, (inst, e) in enumerate(zip(insts, emitted, strict=True))]


def splits(partitions: int) -> Iterator[list[tuple[int, int]]]:
    """Two ranges in either order, three of them, and boundaries that are no multiples of the granule."""
    for bounds in (
        [0, partitions // 2, EVERY],
        [0, partitions // 3, 2 * partitions // 3, partitions],
        [0, 1, GRANULE, GRANULE + 1, partitions - 1, EVERY],
    ):
        ranges = list(pairwise(sorted(bounds)))
        yield ranges
        yield ranges[::-1]


@pytest.mark.parametrize(
    "mnemonic", [n for n in instruction_bench.WRITING if REGISTRY[n].effects.collective is None and n != "sendrecv"]
)
def test_ranges_give_the_bits_of_one_call(mnemonic: str) -> None:
    rng = np.random.default_rng(instruction_bench.source(mnemonic, "contents").getrandbits(64))
    insts = list(instructions(mnemonic))
    assert bool(insts) == (mnemonic not in WHOLE)
    for call in calls(insts):
        contents = call.fill(rng)
        whole = call.run(contents, [(0, EVERY)])
        for ranges in splits(call.partitions):
            assert call.run(contents, ranges) == whole, (ranges, call.inst)
