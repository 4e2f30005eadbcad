"""Tensor indirection: an instruction on indirect views does what it does on dense tiles, with loops around it.

The loops below are the oracle: written from the reference of NkiTensor.indirect and from what docs/language.md adds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from nki import target
from nki.base import element_types as dt
from nki.base.element_types import DType
from nki.base.errors import WindowError
from nki.compilation import pipeline
from nki.ir.instruction import REGISTRY, Inst
from nki.ir.program import CoreProgram, Program, Signature
from nki.ir.sample import PACKED, Draw
from nki.ir.text.artifact import dumps, loads
from nki.ir.text.parser import parse
from nki.ir.text.printer import show
from nki.ir.types import Access, Buffer, Dynamic, IndexKind, Tensor
from nki.ir.verifier import verify
from nki.isa.instructions.dma_copy import DmaCopy
from nki.isa.instructions.nc_matmul import NcMatmul
from nki.isa.instructions.nc_matmul_mx import NcMatmulMx
from nki.isa.instructions.tensor_copy import Memset, TensorCopy
from tests.support import instruction_bench

Array = np.ndarray[Any, Any]
MNEMONICS = sorted(name for name, cls in REGISTRY.items() if cls.effects.element_indexed)
KINDS = (dt.uint16, dt.uint32, dt.int32)
COUNT = max(6, instruction_bench.EXAMPLES // 4)
NARROW = (dt.bfloat16, dt.float16, dt.float8_e4m3, dt.float8_e5m2)


def test_which_instructions_take_indirect_views() -> None:
    """Instructions with a section "Tensor indirection" in the reference, and the operands that it names."""
    assert {name: REGISTRY[name].effects.element_indexed for name in MNEMONICS} == {
        "activate2": ("dst", "data"),
        "activation": ("dst", "data"),
        "activation_reduce": ("dst", "data"),
        "exponential": ("dst", "src"),
        "nc_matmul": ("dst", "stationary", "moving"),
        "nc_matmul_mx": ("dst", "stationary", "moving", "stationary_scale", "moving_scale"),
        "tensor_copy": ("dst", "src"),
        "tensor_copy_predicated": ("dst", "predicate"),
        "tensor_reduce": ("dst", "data"),
        "tensor_scalar": ("dst", "data"),
        "tensor_scalar_cumulative": ("dst", "src"),
        "tensor_scalar_reduce": ("dst", "data"),
        "tensor_tensor": ("dst", "data1"),
    }


# The oracle


def offset_of(index: Array, partition: int, number: int, group: int) -> int:
    """Offset ``number`` of a partition's group."""
    return int(index[partition // group * group + number % group, number // group])


def gathered(tile: Array, index: Array, count: int, group: int) -> Array:
    found = np.empty((len(tile), count), tile.dtype)
    for partition in range(len(tile)):
        for number in range(count):
            found[partition, number] = tile[partition, offset_of(index, partition, number, group)]
    return found


def scattered(tile: Array, index: Array, values: Array, group: int, chosen: Array | None = None) -> Array:
    made = tile.copy()
    for partition in range(len(tile)):
        for number in range(values.shape[1]):
            if chosen is None or chosen[partition, number]:
                made[partition, offset_of(index, partition, number, group)] = values[partition, number]
    return made


# Instructions


def dense(draw: Draw, name: str, partitions: int, columns: int, dtype: DType, buffer: Buffer = Buffer.sbuf) -> Access:
    tensor = Tensor(f"{name}{draw.integer(0, 1 << 60)}", (partitions, columns), dtype, buffer)
    return Access.whole(tensor)


def matmul(draw: Draw) -> Inst:
    k, m, n = draw.choice((32, 64, 96, 128)), draw.choice((32, 64, 128)), draw.choice((1, 7, 40))
    transposes = draw.integer(0, 3) == 0
    first = draw.choice(NARROW)
    second = first if first.name.startswith("float8") else draw.choice(NARROW[:2])
    if transposes:
        second, n = first, k
    return NcMatmul(
        dense(draw, "dst", m, n, first if transposes else dt.bfloat16, Buffer.psum),
        dense(draw, "stationary", k, m, first),
        dense(draw, "moving", k, n, second),
        is_transpose=transposes,
        accumulate=False if transposes else draw.flag(),
    )


def matmul_mx(draw: Draw) -> Inst:
    k, m, n = draw.choice((32, 64, 128)), draw.choice((32, 64)), draw.choice((2, 7, 40))
    return NcMatmulMx(
        dense(draw, "dst", m, n, draw.choice((dt.float32, dt.bfloat16)), Buffer.psum),
        dense(draw, "stationary", k, m, draw.choice(PACKED)),
        dense(draw, "moving", k, n, draw.choice(PACKED)),
        dense(draw, "stationary_scale", k, m, dt.uint8),
        dense(draw, "moving_scale", k, n, dt.uint8),
        accumulate=draw.flag(),
    )


def plain(mnemonic: str, draw: Draw) -> Inst:
    """An instruction with dense tiles of two dimensions as the operands that may be indirect views."""
    if mnemonic in ("nc_matmul", "nc_matmul_mx"):
        return matmul(draw) if mnemonic == "nc_matmul" else matmul_mx(draw)
    cls = REGISTRY[mnemonic]
    for _ in range(1000):
        made = instruction_bench.sample(cls, draw)
        tiles = {n: a for n, (f, a) in enumerate(made.operands()) if f.name in cls.effects.element_indexed}
        if any(a.shape[0] % 16 or (mnemonic == "tensor_reduce" and a.ndim > 2) for a in tiles.values()):
            continue
        return made.with_operands(
            {n: dense(draw, f"t{n}_", a.shape[0], math.prod(a.shape[1:]), a.dtype, a.buffer) for n, a in tiles.items()}
        )
    raise AssertionError(f"no {mnemonic} with whole groups of partitions")


def pick(inst: Inst, draw: Draw, number: int) -> list[str]:
    """Some of the operands that may be indirect views, packed data with their scales: in turn what is written, one that
    is read, and any.
    """
    if inst.mnemonic == "nc_matmul_mx":
        groups = [["dst"], ["stationary", "stationary_scale"], ["moving", "moving_scale"]]
    else:
        groups = [[name] for name in inst.effects.element_indexed]
    if getattr(inst, "is_transpose", False):
        groups = groups[:2]
    some = [group for group in groups if draw.flag()] or [draw.choice(groups)]
    taken = [[groups[0]], [draw.choice(groups[1:])], some][number % 3]
    return [name for group in taken for name in group]


def through_offsets(inst: Inst, draw: Draw, trial: int) -> tuple[Inst, dict[str, Access]]:
    """``inst`` with some operands as indirect views of wider tiles; and these views."""
    group = 32 if inst.mnemonic.startswith("nc_") else 16
    views: dict[str, Access] = {}
    changes: dict[int, Access] = {}
    chosen = pick(inst, draw, trial)
    for number, (f, a) in enumerate(inst.operands()):
        if f.name not in chosen:
            continue
        before, step, rest = draw.integer(0, 3), draw.choice((1, 1, 2)), draw.integer(0, 2)
        width = before + step * draw.choice((1, 5, 2 * a.shape[1], 4 * a.shape[1])) + rest
        wide = Tensor(f"wide_{a.name}", (a.shape[0], width), a.dtype, a.buffer)
        columns = -(-a.shape[1] // group) + draw.integer(0, 1)
        kept = views.get(f.name.removesuffix("_scale")) if f.name.endswith("_scale") else None
        if kept is not None and kept.dynamic is not None:
            index, wide = kept.dynamic.source, Tensor(wide.name, kept.tensor.shape, a.dtype, a.buffer)
            before, step = kept.offset, kept.dynamic.step
        else:
            skip = draw.integer(0, 2)  # the index may be a part of a tile
            kind = draw.choice(KINDS)
            storage = Tensor(f"index_{a.name}", (a.shape[0], columns + skip), kind, Buffer.sbuf)
            index = Access(storage, skip, (a.shape[0], columns), (columns + skip, 1), kind)
        dynamic = Dynamic(index, step, IndexKind.elements)
        view = Access(wide, before, a.shape, (wide.free_size, 0), a.dtype, dynamic)
        views[f.name] = changes[number] = view
    return inst.with_operands(changes), views


def room(view: Access) -> int:
    assert view.dynamic is not None
    return (view.tensor.free_size - 1 - view.offset) // view.dynamic.step + 1


def elements(array: Array, view: Access) -> Array:
    """The elements that offsets count, of all that the tile holds; a view."""
    assert view.dynamic is not None
    return array[:, view.offset :: view.dynamic.step][:, : room(view)]


def same(one: Array, two: Array, dtype: DType) -> None:
    """Equal bits."""
    np.testing.assert_array_equal(*(np.ascontiguousarray(a).view(f"u{dtype.itemsize}") for a in (one, two)))


TILE_OF = ((32, 24), dt.float32, Buffer.sbuf)
TILE = Tensor("tile", *TILE_OF)
INDEX = Tensor("index", (32, 2), dt.uint16, Buffer.sbuf)


def view(
    tensor: Tensor = TILE,
    shape: tuple[int, ...] = (32, 24),
    strides: tuple[int, ...] = (24, 0),
    step: int = 1,
    **of: Any,
) -> Access:
    given = Access(of.get("index", INDEX), 0, of.get("held", (32, 2)), (2, 1), of.get("index", INDEX).dtype)
    return Access(tensor, 0, shape, strides, tensor.dtype, Dynamic(given, step, IndexKind.elements))


MALFORMED: dict[str, tuple[Access, str]] = {
    "in HBM": (view(Tensor("tile", (32, 24), dt.float32, Buffer.hbm)), "no tile of two dimensions"),
    "a step": (view(strides=(24, 1)), "no tile of two dimensions"),
    "dimensions": (view(shape=(32, 4, 6), strides=(24, 0, 0)), "no tile of two dimensions"),
    "float offsets": (view(index=Tensor("index", (32, 2), dt.float32, Buffer.sbuf)), "no run-time index"),
    "narrow offsets": (view(index=Tensor("index", (32, 2), dt.uint8, Buffer.sbuf)), "holds no offsets"),
    "offsets in PSUM": (view(index=Tensor("index", (32, 2), dt.uint16, Buffer.psum)), "outside sbuf"),
    "fewer partitions": (view(held=(16, 2)), "offsets in 16 partitions"),
    "part of a group": (view(shape=(24, 24), held=(24, 2)), "offsets in 24 partitions"),
    "no step": (view(step=0), "in steps of 0"),
    "outside": (view(shape=(48, 24), held=(48, 2)), "leaves the tensor"),
}


@pytest.mark.parametrize("what", MALFORMED)
def test_a_malformed_view_is_refused(what: str) -> None:
    """Such as only text and artifacts can have; which nothing may run."""
    wrong, says = MALFORMED[what]
    copied = Access.whole(Tensor("copied", wrong.shape, dt.float32, Buffer.sbuf))
    body = TensorCopy(copied, wrong)
    assert wrong.dynamic is not None
    output = Tensor("out", wrong.shape, dt.float32, Buffer.shared_hbm, role="output")
    tensors = (wrong.tensor, wrong.dynamic.source.tensor, copied.tensor, output)
    statements = (body, DmaCopy(Access.whole(output), copied))
    kernel = Program("malformed", "trn3", (), Signature((), (output,), False), (CoreProgram(0, statements, tensors),))
    with pytest.raises(WindowError, match=says):
        pipeline.compile(None, {}, target.GEN4, start=parse(show(kernel)))


def test_unwritten_elements_are_the_same_in_every_run() -> None:
    """Native memory is what another tile left there, unless it is filled before such a read."""
    source = Tensor("source", (32, 24), dt.float32, Buffer.hbm, role="input")
    numbers = Tensor("numbers", (32, 2), dt.uint16, Buffer.hbm, role="input")
    left = Tensor("left", (32, 24), dt.float32, Buffer.sbuf)
    outputs = [Tensor(f"out{n}", (32, 24), dt.float32, Buffer.shared_hbm, role="output") for n in range(2)]
    loaded, tile, index, copied, output = map(Access.whole, (left, TILE, INDEX, Tensor("copied", *TILE_OF), outputs[1]))
    body = (
        DmaCopy(loaded, Access.whole(source)),
        TensorCopy(loaded, loaded),
        DmaCopy(Access.whole(outputs[0]), loaded),
        DmaCopy(index, Access.whole(numbers)),
        Memset(Access(TILE, 0, (32, 4), (24, 1), dt.float32), 1.0),
        TensorCopy(copied, view()),
        DmaCopy(output, copied),
    )
    tensors = (source, numbers, *outputs, *(a.tensor for a in (loaded, tile, index, copied)))
    kernel = Program(
        "unwritten",
        "trn3",
        (),
        Signature((source, numbers), tuple(outputs), True),
        (CoreProgram(0, body, tensors),),
    )
    kernel = pipeline.compile(None, {}, target.GEN4, start=kernel)
    rng = np.random.default_rng(2)
    inputs = [rng.standard_normal((32, 24)).astype(np.float32), rng.integers(0, 24, (32, 2)).astype(np.uint16)]
    native, eager = instruction_bench.run_native(kernel, inputs)[1], instruction_bench.run_reference(kernel, inputs)[1]
    assert native.tobytes() == eager.tobytes()
    assert np.isnan(native).any() and (native == 1).any()


@dataclass
class Trial:
    """An instruction on dense tiles, and on indirect ``views`` in place of some of them."""

    plain: Inst
    loose: Inst
    views: dict[str, Access]
    lists: dict[str, Array] = field(default_factory=dict[str, Array])


def trials(mnemonic: str, draw: Draw) -> list[Trial]:
    found: list[Trial] = []
    while len(found) < COUNT:
        inst = plain(mnemonic, draw)
        loose, views = through_offsets(inst, draw, len(found))
        scattered_by_scalar = "dst" in views and inst.engines[0].name == "scalar" and views["dst"].buffer is Buffer.psum
        if scattered_by_scalar or (mnemonic == "tensor_scalar" and of_addresses(inst)):
            continue
        verify(loose, target.GEN4, {})
        found.append(Trial(inst, loose, views))
    return found


def of_addresses(inst: Any) -> bool:
    return not inst.op0.alu.bits and {inst.dst.dtype, inst.data.dtype} <= {dt.int32, dt.uint32}


@pytest.mark.parametrize("mnemonic", MNEMONICS)
def test_offsets_choose_elements(mnemonic: str) -> None:
    choices = instruction_bench.source("indirect", mnemonic)
    made = trials(mnemonic, Draw(choices, target.GEN4))
    rng = np.random.default_rng(choices.getrandbits(64))
    group = 32 if mnemonic.startswith("nc_") else 16
    program = instruction_bench.program([trial.loose for trial in made], target.GEN4)
    contents = dict(zip(program.tensors, program.fill(rng), strict=True))
    for trial in made:
        for name, view in trial.views.items():
            assert view.dynamic is not None
            index = view.dynamic.source
            if name.removesuffix("_scale") == name:
                contents[index.tensor] = rng.integers(0, room(view), index.tensor.shape).astype(index.dtype.dtype)
            trial.lists[name] = contents[index.tensor][:, index.offset :]
    inputs = [contents[t] for t in program.tensors]
    eager, native = (
        instruction_bench.run_reference(program.kernel, inputs),
        instruction_bench.run_native(program.kernel, inputs),
    )
    after = dict(zip(program.tensors, eager, strict=True))
    for tensor, array in zip(program.tensors, native, strict=True):
        same(array, after[tensor], tensor.dtype)
    assert parse(show(program.kernel)) == program.kernel
    assert loads(dumps(program.kernel)) == program.kernel
    compare(made, contents, after, group)


def compare(made: list[Trial], contents: dict[Tensor, Array], after: dict[Tensor, Array], group: int) -> None:
    """``contents`` became ``after``: the same instructions on dense tiles, and loops, say what that should be."""
    base = instruction_bench.program([trial.plain for trial in made], target.GEN4)
    for trial in made:
        for name, view in trial.views.items():
            tile = elements(contents[view.tensor], view)
            contents[getattr(trial.plain, name).tensor] = gathered(tile, trial.lists[name], view.shape[1], group)
    given = [contents[t] for t in base.tensors]
    found = dict(zip(base.tensors, instruction_bench.run_reference(base.kernel, given), strict=True))
    for tensor, array in found.items():
        if tensor in after:
            same(after[tensor], array, tensor.dtype)
    for trial in made:
        for name, view in trial.views.items():
            want = contents[view.tensor].copy()
            if name == "dst":
                inst: Any = trial.plain
                chosen = None
                if inst.mnemonic == "tensor_copy_predicated":
                    chosen = (base.at(given, inst.predicate).reshape(view.shape) != 0) ^ inst.reverse_pred
                tile = elements(want, view)
                tile[...] = scattered(tile, trial.lists[name], found[inst.dst.tensor], group, chosen)
            same(after[view.tensor], want, view.dtype)
