"""Kernels around instructions: every tile is filled from an input, the instruction runs, every tile is read back.

So whatever an instruction does shows, also where it should not have written.
"""

from __future__ import annotations

import os
import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import nki.isa  # noqa: F401  # declares the instructions
from nki.backend.numpy import executor
from nki.base.element_types import DType, uint8, uint32
from nki.base.errors import NkiError
from nki.compilation import pipeline
from nki.compilation.executable import Executable
from nki.ir.instruction import REGISTRY, Inst
from nki.ir.loop import is_register, is_scalar_register, touched
from nki.ir.program import CoreProgram, Program, Signature
from nki.ir.sample import Draw
from nki.ir.text.printer import show_inst
from nki.ir.types import Access, Buffer, Role, Tensor, row_major
from nki.ir.verifier import verify
from nki.isa.instructions.activation import Activation
from nki.isa.instructions.dma_copy import DmaCopy
from nki.isa.instructions.register import RegisterLoad, RegisterStore
from nki.isa.instructions.rng import RandGetState, RandSetState
from nki.isa.instructions.scalar_registers import ScalarLoad, ScalarStore
from nki.isa.instructions.tensor_copy import TensorCopy
from nki.isa.tables.enums import engine, reduce_cmd
from nki.isa.tables.operators import OPS
from nki.target import GEN4, GENERATIONS, Target
from nki.target.memory_spaces import VECTOR_RNG_WORDS
from tests.isa.lively import LIVELY

Array = np.ndarray[Any, Any]
Random = np.random.Generator
WRITING = [name for name, cls in REGISTRY.items() if cls.write_names]
"""The instructions that write tensors: all but ``device_print``."""
REGISTERS = ("registers", "states")
"""The operands that the builder supplies."""
EXAMPLES = int(os.environ.get("NKI_TEST_EXAMPLES", "50"))
SEED = os.environ.get("NKI_TEST_SEED", "0")
"""Any text; ``random`` draws a new one for each run, and every failure names it."""
if SEED == "random":
    SEED = os.urandom(4).hex()


def source(*what: object) -> random.Random:
    """Choices that depend on the seed of the run and on what they are for."""
    return random.Random("/".join(map(str, (SEED, *what))))


# Contents

SPECIAL = (
    0.0, -0.0, np.inf, -np.inf, np.nan, 1e-42, -1e-45, 3e38, -3e38, 1.0, -1.0, 0.5, -1.5, 2.5, 255.5, -128.5, 6e4,
)  # fmt: skip


def contents(dtype: DType, shape: tuple[int, ...], rng: Random) -> Array:
    """Random elements: numbers of everyday size, special values among them, or any bits at all."""
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.element is not None and rng.integers(0, 3):
        return _packed(rng.standard_normal((*shape, 4)), dtype)
    kind = rng.integers(0, 3)
    if kind == 0 or not dtype.is_float:
        words = rng.integers(0, 256, (*shape, dtype.itemsize), np.uint8)
        if kind == 1 and dtype.itemsize > 1:
            words[..., 1:] = 0  # small integers: products that fit, shifts that do something
        return _stored(words.view(dtype.plain).reshape(shape), dtype)
    numbers = rng.standard_normal(shape) * rng.choice((1.0, 10.0, 1e-3))
    if kind == 1:
        numbers = np.where(rng.random(shape) < 0.3, rng.choice(SPECIAL, shape), numbers)
    with np.errstate(all="ignore"):
        return _stored(numbers.astype(np.float32).astype(dtype.plain), dtype)


def _packed(numbers: Array, dtype: DType) -> Array:
    """Packed elements of four numbers each."""
    codes = numbers.astype(np.float32).astype(dtype.element).view(np.uint8).astype(np.uint32)
    places = np.arange(4, dtype=np.uint32) * (2 * dtype.itemsize)
    return np.bitwise_or.reduce(codes << places, axis=-1).astype(dtype.plain)


def _stored(array: Array, dtype: DType) -> Array:
    """tfloat32 is kept in float32 words with zeros as the low 13 bits."""
    return (array.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32) if dtype.name == "tfloat32" else array


# Programs


@dataclass
class Bench:
    """A kernel around ``trials``; ``tensors`` holds theirs in the order of the kernel's inputs and outputs."""

    kernel: Program
    trials: tuple[Inst, ...]
    tensors: tuple[Tensor, ...]

    def fill(self, rng: Random) -> list[Array]:
        """Random contents of every tensor. Registers add up from +0 and never hold -0."""
        made = [contents(t.dtype, t.shape, rng) for t in self.tensors]
        for inst in self.trials:
            name, lively = LIVELY.get(inst.mnemonic, ("", None))
            access = getattr(inst, name, None)
            if lively is not None and access.dynamic is None and rng.random() < 0.75:
                place = window(made[self.tensors.index(access.tensor)], access)
                place[...] = lively(inst, rng).view(place.dtype)
        return [
            np.where(a == 0, 0, a) if t.buffer is Buffer.register else a
            for t, a in zip(self.tensors, made, strict=True)
        ]

    def at(self, arrays: Sequence[Array], access: Access) -> Array:
        """What ``access`` addresses in ``arrays``, which are inputs or outputs; a copy."""
        return window(arrays[self.tensors.index(access.tensor)], access).copy().view(access.dtype.plain)

    def differences(self, one: Sequence[Array], two: Sequence[Array]) -> Iterator[str]:
        """Where two runs differ."""
        for inst in self.trials:
            for tensor in dict.fromkeys(a.tensor for a in touched(inst)):
                index = self.tensors.index(tensor)
                x, y = (arrays[index].view(f"u{tensor.dtype.itemsize}") for arrays in (one, two))
                wrong = np.argwhere(x != y)
                if len(wrong):
                    at = tuple(int(i) for i in wrong[0])
                    values = f"{one[index][at]!r} and {two[index][at]!r}"
                    where = f"{len(wrong)} of {x.size}, first at {tensor.name}{list(at)}"
                    yield f"seed {SEED}: {where}: {values}: {show_inst(inst)}"


def program(trials: Sequence[Inst], target: Target, fresh: Collection[Tensor] = (), *, by_bytes: bool = False) -> Bench:
    """A kernel that runs each instruction on tiles of its own; ``fresh`` ones are not filled before.

    All tensors need different names. ``by_bytes``: tiles are filled and read back as bytes. Few routines then do it for
    all dtypes, which is much less to compile, but no copy is eliminated any more.
    """
    tensors = tuple(dict.fromkeys(a.tensor for inst in trials for a in touched(inst)))
    inputs = {t: Tensor(f"in_{t.name}", t.shape, t.dtype, Buffer.hbm, role="input") for t in tensors}
    outputs = {t: Tensor(f"out_{t.name}", t.shape, t.dtype, Buffer.shared_hbm, role="output") for t in tensors}
    # What a DMA cannot reach is copied by an engine from and to SBUF.
    if any(t.buffer is Buffer.register and t.dtype is uint32 for t in tensors):
        target = GEN4  # which alone can set and read all generators; what an instruction does is the same everywhere
    stages = {t: _stage(t, by_bytes) for t in tensors if not (t.buffer.is_hbm or t.buffer is Buffer.sbuf)}
    body: list[Inst] = []
    for inst in trials:
        own = {a.tensor: Access.whole(a.tensor) for a in touched(inst)}
        for tensor, tile in own.items():
            if tensor not in fresh:
                body.append(_transfer(stages.get(tensor, tile), Access.whole(inputs[tensor]), by_bytes))
                if tensor in stages:
                    body.append(_moving(tile, stages[tensor], by_bytes))
        body.append(inst)
        for tensor, tile in own.items():
            if tensor in stages:
                body.append(_moving(stages[tensor], tile, by_bytes))
            body.append(_transfer(Access.whole(outputs[tensor]), stages.get(tensor, tile), by_bytes))
    every = (*inputs.values(), *outputs.values(), *tensors, *(a.tensor for a in stages.values()))
    signature = Signature(tuple(inputs.values()), tuple(outputs.values()), True)
    kernel = Program("trial", target.name, (), signature, (CoreProgram(0, tuple(body), every),))
    return Bench(pipeline.compile(None, {}, target, start=kernel), tuple(trials), tensors)


def _transfer(dst: Access, src: Access, by_bytes: bool) -> Inst:
    """A DMA of a whole tensor: of its elements or, if both sides are dense, of its bytes."""
    sides = (dst, src)
    if not by_bytes or any(side.strides != row_major(side.shape) for side in sides):
        return DmaCopy(dst, src)
    return DmaCopy(*(_as_bytes(side) for side in sides))


def _as_bytes(whole: Access) -> Access:
    """The bytes of a whole tensor, as rows of its partitions."""
    width = whole.free_elements * whole.dtype.itemsize
    return Access(whole.tensor, 0, (whole.partitions, width), (width, 1), uint8)


def _stage(tensor: Tensor, by_bytes: bool) -> Access:
    """A tile for the contents of ``tensor``: every second column of one, as what moves registers needs a spare tile."""
    if by_bytes and tensor.buffer is Buffer.psum:
        return Access.whole(Tensor(f"via_{tensor.name}", tensor.shape, tensor.dtype, Buffer.sbuf))
    storage = Tensor(f"via_{tensor.name}", (*tensor.shape, 2), tensor.dtype, Buffer.sbuf)
    return Access(storage, 0, tensor.shape, row_major(storage.shape)[:-1], tensor.dtype)


def _moving(dst: Access, src: Access, by_bytes: bool) -> Inst:
    """An instruction that copies between PSUM or registers and the stage: registers by a sum with 0."""
    if Buffer.register not in (dst.buffer, src.buffer):
        return TensorCopy(_as_bytes(dst), _as_bytes(src)) if by_bytes else TensorCopy(dst, src)
    if is_register(dst):
        return RegisterLoad(dst, src)
    if is_register(src):
        return RegisterStore(dst, src)
    if is_scalar_register(dst):
        return ScalarLoad(dst, src)
    if is_scalar_register(src):
        return ScalarStore(dst, src)
    fills = dst.buffer is Buffer.register
    if (dst if fills else src).dtype is uint32:
        by = engine.vector if dst.shape[1] == VECTOR_RNG_WORDS else engine.gpsimd
        return RandSetState(src, by, states=dst) if fills else RandGetState(dst, by, states=src)
    registers, stage = (dst, src) if fills else (src, dst)
    spare = Access(stage.tensor, 1, stage.shape, stage.strides, stage.dtype)
    command = reduce_cmd.reset_reduce if fills else reduce_cmd.idle
    held = None if fills else stage
    return Activation(spare, OPS["copy"], stage, None, 1.0, OPS["add"], held, command, registers=registers)


def run_native(kernel: Program, inputs: Sequence[Array]) -> list[Array]:
    """The kernel's outputs from compiled code. They start out as garbage that no instruction writes."""
    return launch(Executable(kernel), inputs)


def launch(executable: Executable, inputs: Sequence[Array]) -> list[Array]:
    """The outputs of a compiled kernel."""
    kernel = executable.kernel
    outputs = [np.frombuffer(b"\xa5" * t.nbytes, t.dtype.plain).reshape(t.shape).copy() for t in kernel.outputs]
    given = [np.ascontiguousarray(a) for a in inputs]
    executable.launch([a.ctypes.data for a in (*given, *outputs)])
    return outputs


def run_reference(kernel: Program, inputs: Sequence[Array]) -> list[Array]:
    """The kernel's outputs from NumPy."""
    return executor.run(kernel, [a.copy() for a in inputs])


def window(array: Array, access: Access) -> Array:
    """The words that ``access`` addresses in ``array``, as unsigned integers; a writable view."""
    size = access.dtype.itemsize
    words = array.reshape(-1).view(f"u{size}")[access.offset :]
    return as_strided(words, access.shape, tuple(s * size for s in access.strides))


# Trials


def exists(cls: type[Inst], target: Target) -> bool:
    """Whether the generation has the instruction at all."""
    return not any(r.code == "GE01" and r.since <= target.generation <= r.until for r in cls.rules)


ON_GENERATIONS = [
    pytest.param(name, target, id=f"{target.name}-{name}")
    for name, cls in REGISTRY.items()
    for target in GENERATIONS
    if exists(cls, target)
]
"""Every instruction with each generation that has it."""


def sample(cls: type[Inst], draw: Draw) -> Inst:
    """A random instruction, with the engine's registers where it needs them."""
    made: Any = cls.sample(draw)
    implicit = cls.effects.implicit
    if implicit is not None:

        def state(name: str, dtype: DType, lanes: int, words: int, first: int) -> Access:
            storage = (draw.target.partitions, words)
            tensor = Tensor(f"{name}{draw.integer(0, 1 << 60)}", storage, dtype, Buffer.register)
            return Access(tensor, first * words, (lanes, words), (words, 1), dtype)

        setattr(made, implicit.name, implicit.supply(made, state))
    return made


def in_place(inst: Inst, draw: Draw) -> Inst | None:
    """The same instruction with one of its inputs in exactly the place of its output; None if there is no such."""
    outs = [a for f, a in inst.operands() if f.role is not Role.IN and f.name not in REGISTERS]
    changes = [
        {number: Access(out.tensor, out.offset, out.shape, out.strides, out.dtype)}
        for out in outs
        for number, (f, a) in enumerate(inst.operands())
        if f.role is Role.IN and a.size == out.size
    ]
    draw.source.shuffle(changes)
    return next((made for change in changes if (made := _legal(inst.with_operands(change), draw.target))), None)


def crowded(inst: Inst, draw: Draw) -> Inst | None:
    """The same instruction with an output and all inputs of its memory at random places of one tensor.

    Bytes then belong to several windows, in different orders and as different dtypes. None where nothing can overlap,
    or where a dtype gives some bytes no meaning.
    """
    operands = {number: (f, a) for number, (f, a) in enumerate(inst.operands()) if f.name not in REGISTERS}
    if any(a.dtype.name in ("bool", "tfloat32") for _, a in operands.values()):
        return None
    outs = [number for number, (f, _) in operands.items() if f.role is not Role.IN]
    if not outs:
        return None
    written = draw.choice(outs)
    out = operands[written][1]
    hbm = inst.mnemonic in ("dma_copy", "dma_compute")  # from HBM to SBUF nothing overlaps: within HBM it may
    chosen = {
        number: a
        for number, (f, a) in operands.items()
        if number == written or (f.role is Role.IN and (hbm or a.buffer is out.buffer))
    }
    if len(chosen) < 2:
        return None
    place = {number: draw.choice((0, 0, 1, 2, 3, 8)) for number in chosen}
    ends = [(place[n] + (a.size if hbm else a.free_elements)) * a.dtype.itemsize for n, a in chosen.items()]
    width = -(-max(ends) // 4) * 4
    shape = (width,) if hbm else (draw.target.partitions, width)
    buffer = Buffer.hbm if hbm else out.buffer
    pool = Tensor(f"pool{draw.integer(0, 1 << 60)}", shape, uint8, buffer)
    changes = {number: _moved(a, pool, place[number], hbm) for number, a in chosen.items()}
    return _legal(inst.with_operands(changes), draw.target)


def _moved(access: Access, pool: Tensor, place: int, hbm: bool) -> Access:
    if hbm:
        return Access(pool, place, access.shape, row_major(access.shape), access.dtype)
    step = pool.free_size // access.dtype.itemsize
    strides = (step, *row_major(access.shape)[1:])
    return Access(pool, access.start_partition * step + place, access.shape, strides, access.dtype)


def _legal(inst: Inst, target: Target) -> Inst | None:
    try:
        verify(inst, target, {})
    except NkiError:
        return None
    return inst
