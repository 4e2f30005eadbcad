"""A kernel that was read, rather than recorded, is refused before native code trusts its numbers."""

from __future__ import annotations

import random
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nki
import nki.isa as nisa
import nki.language as nl
from nki.backend.numpy import executor
from nki.base.element_types import float32
from nki.base.errors import (
    ArgumentError,
    CapacityError,
    InputWrittenError,
    MemoryRegionError,
    NkiError,
    OutputUnwrittenError,
    PartitionError,
    ShapeError,
    StructureError,
    UnknownTargetError,
    WindowError,
    WriteOverlapError,
)
from nki.compilation import pipeline
from nki.compilation.executable import Executable
from nki.ir.program import Program
from nki.ir.text import parser
from nki.ir.types import TensorSpec
from nki.target import find
from tests.support.program_text import accept, edited
from tests.support.shared_launches import outputs_of

SMALL = """\
kernel "small" target=trn2 grid=() version="1" {
  input a : hbm float32[64,32]
  input bytes : hbm uint8[7]
  tensor t : sbuf float32[64,32]
  tensor u : sbuf float32[128,40]
  tensor line : sbuf uint8[64,3]
  tensor state : register float32[128,1]
  output c : shared_hbm float32[64,32]
  dma_copy dst=t[0 | 32x64, 1x32] src=a[0 | 32x64, 1x32]
  dma_copy dst=c[0 | 32x64, 1x32] src=t[0 | 32x64, 1x32]
  return c
}
"""


def with_line(line: str) -> Program:
    """SMALL with one more instruction, before its last."""
    at = SMALL.index("  dma_copy dst=c")
    return parser.parse(f"{SMALL[:at]}  {line}\n{SMALL[at:]}")


def test_the_kernel_is_accepted_and_runs() -> None:
    kernel = accept(parser.parse(SMALL))
    a = np.arange(64 * 32, dtype=np.float32).reshape(64, 32)
    assert np.array_equal(executor.run(kernel, [a, np.zeros(7, np.uint8)])[0], a)


REFUSED = [
    # Windows that leave their tensor.
    ("dma_copy dst=t[0 | 32x64, 1x32] src=a[1 | 32x64, 1x32]", "leaves the tensor"),
    ("dma_copy dst=t[0 | 32x64, 1x32] src=a[-1 | 32x64, 1x32]", "leaves the tensor"),
    ("dma_copy dst=t[0 | 32x64, 1x32] src=a[0 | 33x64, 1x32]", "leaves the tensor"),
    ("dma_copy dst=t[0 | 32x64, 1x32] src=a[0 | -32x64, 1x32]", "leaves the tensor"),
    ("dma_copy dst=t[0 | 32x64, 1x32] src=a[2015 | -32x64, 1x32]", "leaves the tensor"),
    ("dma_copy dst=t[0 | 32x64, 1x32] src=a[9223372036854775807 | 0x64, 0x32]", "leaves the tensor"),
    ("dma_copy dst=t[0 | 32x1, 1x1] src=a[0 | 4611686018427387904x1, 1x1]", "longer steps"),
    ("dma_copy dst=u[0 | 40x128, 1x40] src=a[0 | 0x4294967296, 0x4294967296]", "has more elements"),
    ("dma_copy dst=u[0 | 40x128, 1x40] src=a[0 | 0x9999999999999999]", "has more elements"),
    (f"dma_copy dst=t[0 | 32x1, 1x1] src=a[0 | {', '.join(['1x1'] * 31)}]", "31 dimensions"),
    # Windows of other types.
    ("dma_copy dst=t[0 | 32x1, 1x1] src=bytes[1 | 1x1 as float32]", "leaves the tensor"),
    ("dma_copy dst=t[0 | 32x1, 1x1] src=bytes[0 | 1x1, 1x2 as float32]", "leaves the tensor"),
    ("memset dst=line[0 | 0x64, 1x1 as float32] value=1.0", "sees partitions of 3 bytes as float32"),
    ("memset dst=line[0 | 1x64, 1x1 as int16] value=1", "sees partitions of 3 bytes as int16"),
    ("memset dst=t[0 | 16x64, 1x32 as bfloat16] value=1", "moves by 16 elements from partition to partition of 64"),
    # Windows that leave their partition.
    ("memset dst=t[1 | 32x32, 1x32] value=0.0", "leaves its partition"),
    ("memset dst=t[31 | 32x32, 1x2] value=0.0", "leaves its partition"),
    ("memset dst=t[0 | 32x1, 32x64] value=0.0", "leaves its partition"),
    ("memset dst=t[31 | 32x64, -1x32] value=0.0", "goes backwards"),
    ("memset dst=t[0 | 1x64, 1x32] value=0.0", "moves by 1 elements from partition to partition"),
    ("dma_copy dst=t[2016 | -32x64, 1x32] src=a[0 | 32x64, 1x32]", "moves by -32 elements"),
    # Shapes.
    ("memset dst=t[0 | 32x0, 1x32] value=0.0", "a dimension without elements"),
    ("memset dst=t[0 | 1x32] value=0.0", "at least (partitions, elements)"),
    # Engine state is no tile.
    ("memset dst=state[0 | 1x64, 1x1] value=0.0", "is in register"),
    ("dma_copy dst=t[0 | 32x64, 1x1] src=state[0 | 1x64, 1x1]", "is in register"),
    ("activation dst=t[0 | 32x64, 1x32] op=exp data=t[0 | 32x64, 1x32] registers=u[0 | 40x64, 1x1]", "is in sbuf"),
]


@pytest.mark.parametrize(("line", "why"), REFUSED, ids=[why for _, why in REFUSED])
def test_windows(line: str, why: str) -> None:
    with pytest.raises((WindowError, ShapeError)) as caught:
        accept(with_line(line))
    assert why in caught.value.message


@pytest.mark.parametrize(
    "line",
    [
        "memset dst=t[0 | 0x64, 1x32] value=0.0",
        "memset dst=t[0 | 32x64, 1x16, 0x2] value=0.0",
        "memset dst=t[0 | 32x64, 1x4, 2x4] value=0.0",
        "dma_copy dst=c[0 | 0x64, 1x32] src=t[0 | 32x64, 1x32]",
        "dma_copy dst=c[0 | 31x64, 1x32] src=t[0 | 32x64, 1x32]",
        "tensor_copy_predicated dst=t[0 | 32x64, 0x3, 1x1] src=1.0 predicate=line[0 | 3x64, 1x3]",
    ],
)
def test_windows_that_write_twice_to_one_place(line: str) -> None:
    with pytest.raises(WriteOverlapError) as caught:
        accept(with_line(line))
    assert "more than once" in caught.value.message


def test_a_written_window_of_many_dimensions_is_refused_soon() -> None:
    """To find out if such steps meet takes a time that is exponential in their number."""
    source, size = random.Random(1), 10**11
    steps = sorted(source.randrange(size // 96, size // 48) for _ in range(24))
    window = ", ".join(f"{step}x2" for step in steps)
    text = f"""kernel "k" target=trn3 grid=() version="1" {{
  tensor b : hbm uint8[{size}]
  output o : shared_hbm uint8[{2**24}]
  dma_copy dst=b[0 | {window}] src=o[0 | 1x{2**24}]
  return o
}}
"""
    started = time.perf_counter()
    with pytest.raises(WriteOverlapError):
        accept(parser.parse(text))
    assert time.perf_counter() - started < 10


@pytest.mark.parametrize("shape", ["1," * 30 + "1", "1," * 100 + "1"])
def test_tensors_of_many_dimensions(shape: str) -> None:
    with pytest.raises(ShapeError, match="at most 30"):
        accept(parser.parse(SMALL.replace("tensor t : ", f"tensor many : hbm float32[{shape}]\n  tensor t : ", 1)))


@pytest.mark.parametrize(
    "line",
    [
        "dma_copy dst=t[0 | 32x64, 1x32] src=a[0 | 0x64, 1x32]",
        "dma_copy dst=t[0 | 32x64, 1x32] src=a[2016 | -32x64, 1x32]",
        "dma_copy dst=t[0 | 64x32, 1x32] src=t[32 | 64x32, 1x32]",
        "tensor_copy dst=t[0 | 32x64, 1x32] src=t[0 | 32x64, 0x32]",
        "memset dst=t[0 | 64x64, 1x64 as bfloat16] value=1.0",
    ],
)
def test_windows_that_are_unusual_and_legal(line: str) -> None:
    kernel = pipeline.compile(None, {}, find("trn2"), start=with_line(line))
    arrays = np.random.default_rng(1).random((64, 32), np.float32), np.zeros(7, np.uint8)
    assert np.array_equal(outputs_of(Executable(kernel), *arrays)[0], executor.run(kernel, arrays)[0])


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("target=trn2", "target=trn7", UnknownTargetError),
        ("grid=()", "grid=(2)", StructureError),
        ("sbuf float32[64,32]", "sbuf float32[129,32]", PartitionError),
        ("sbuf float32[64,32]", "sbuf float32[64,320000]", CapacityError),
        ("sbuf float32[64,32]", "sbuf float32[64,0]", ShapeError),
        ("sbuf float32[64,32]", "sbuf float32[,]", ShapeError),
        ("sbuf float32[64,32]", "sbuf float32[64,32] at=(100, 0)", ArgumentError),
        ("sbuf float32[64,32]", "sbuf float32[64,32] at=(0, 99999999)", ArgumentError),
        ("hbm uint8[7]", "hbm uint8[9999999999,9999999999]", CapacityError),
        ("register float32[128,1]", "register float32[128,4000]", CapacityError),
        ("register float32[128,1]", "register float32[12800,1]", PartitionError),
        ("input a : hbm", "input a : sbuf", StructureError),
        ("output c : shared_hbm", "output c : sbuf", StructureError),
        ("output c : shared_hbm", "tensor c : shared_hbm", StructureError),
        ("tensor u : sbuf", "output u : hbm", StructureError),
        ("return c", "return (c, c)", StructureError),
        ("return c", "return ()", StructureError),
        ("return c", "return a", StructureError),
        ("dma_copy dst=c[0", "dma_copy dst=a[0", InputWrittenError),
        ("  dma_copy dst=c[0 | 32x64, 1x32] src=t[0 | 32x64, 1x32]\n", "", OutputUnwrittenError),
        ("tensor t : sbuf", "tensor t : psum", MemoryRegionError),
    ],
)
def test_kernels_as_a_whole(old: str, new: str, error: type[NkiError]) -> None:
    assert old in SMALL
    kernel = parser.parse(SMALL.replace(old, new, 1))
    with pytest.raises(error):
        pipeline.compile(None, {}, find(kernel.target), start=kernel)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("registers=scalar.reduce[0 | 1x32, 1x1]", ""),
        ("registers=scalar.reduce[0 | 1x32, 1x1]", "registers=scalar.reduce[0 | 1x31, 1x1]"),
        ("registers=scalar.reduce[0 | 1x32, 1x1]", "registers=scalar.reduce[0 | 1x32, 1x1 as int32]"),
        ("registers=scalar.reduce[0 | 1x32, 1x1]", "registers=scalar.reduce[32 | 1x32, 1x1]"),
        ("reduce_op=add reduce_res=sums[0 | 1x32, 1x1] reduce_cmd=reset_reduce", ""),
        ("reduce_res=sums", "reduce_res=1.0 bias=sums"),
        ("pattern=((8, 6), (-1, 8))", "pattern=((8, 6), (-1, 8.0))"),
        ("pattern=((8, 6), (-1, 8))", "pattern=((8, 6), (-1, (8,)))"),
        ("pattern=((8, 6), (-1, 8))", "pattern=((8, 6), (-1, None))"),
        ("pattern=((8, 6), (-1, 8))", 'pattern=((8, 6), (-1, "8"))'),
        ("pattern=((8, 6), (-1, 8))", "pattern=((99999999999, 6), (-1, 8))"),
        ("pattern=((8, 6), (-1, 8))", "pattern=()"),
        ("pattern=((8, 6), (-1, 8))", "pattern=48"),
        ("offset=-5", "offset=99999999999"),
        ("offset=-5", "offset=nan"),
        ("offset=-5", "offset=0.5"),
        ("tile_position=(0, 0)", 'tile_position=("0", 0)'),
        ("tile_size=(64, 128)", "tile_size=(0, 128)"),
        ("accumulate=False", "accumulate=2"),
        ("accumulate=False", 'accumulate="no"'),
        ("scale=0.1", "scale=True"),
        ("scale=0.1", "scale=(0.1,)"),
        ("op0=multiply", "op0=None"),
        ("op0=multiply", "op0=right[0 | 48x64, 1x48]"),
        ("name=", "engine=vector dge_mode="),
        ("priority=2", "priority=2.0"),
        ("priority=2", "priority=7"),
    ],
)
def test_arguments_of_a_wrong_kind(old: str, new: str) -> None:
    with pytest.raises(NkiError):
        accept(edited(old, new))


STEPS = st.integers(-70, 70)
WINDOWS = st.tuples(
    st.integers(-3, 2100), st.lists(st.tuples(STEPS, st.integers(0, 70)), min_size=1, max_size=4),
    st.sampled_from(["", " as bfloat16", " as uint8", " as int32"]),
)  # fmt: skip


@given(st.sampled_from(["t", "u", "a", "c"]), WINDOWS)
def test_what_is_accepted_stays_inside(name: str, window: tuple[int, list[tuple[int, int]], str]) -> None:
    """Whatever window is accepted touches only bytes of its tensor, and only its partition's; checked one by one."""
    offset, dims, kind = window
    pattern = ", ".join(f"{step}x{count}" for step, count in dims)
    count = int(np.prod([n for _, n in dims]))
    kernel = with_line(f"dma_copy dst=t[0 | 32x{count}, 1x1{kind}] src={name}[{offset} | {pattern}{kind}]")
    try:
        accept(kernel)
    except NkiError:
        return
    access = kernel.core.body[1].reads()[0]
    touched = np.full(1, access.offset, object)
    for step, n in access.pattern():
        touched = (touched[:, None] + step * np.arange(n)).reshape(-1)
    size = access.dtype.itemsize
    assert min(touched) >= 0 and (max(touched) + 1) * size <= access.tensor.nbytes
    if access.buffer.on_chip:
        partition = [element // access.partition_step for element in touched]
        first = np.array(partition).reshape(access.shape[0], -1)
        assert (first == first[:, :1]).all()


@nki.jit
def _with_bias(a):
    """Legal on trn2; on trn1 a bias is no number."""
    out = nl.ndarray((64, 64), dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.load(a)
    sum_of = nl.ndarray((64, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation_reduce(tile, nl.exp, tile, reduce_op=nl.add, reduce_res=sum_of, bias=0.5)
    nl.store(out, tile)
    return out


def test_what_was_recorded_for_one_target_is_verified_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPEN_NKI_CHECK_STAGES")
    specs = {"a": TensorSpec("a", (64, 64), float32)}
    program = pipeline.compile(_with_bias.func, specs, find("trn2"), stop="specialise")
    assert all(inst.verified_for is find("trn2") for inst in program.instructions())
    pipeline.compile(None, {}, find("trn2"), start=program, stop="verify")
    with pytest.raises(NkiError):  # trn1 takes no number as bias
        pipeline.compile(None, {}, find("trn1"), start=program, stop="verify")


def test_a_changed_instruction_is_verified_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPEN_NKI_CHECK_STAGES")
    specs = {"a": TensorSpec("a", (64, 64), float32)}
    program = pipeline.compile(_with_bias.func, specs, find("trn2"), stop="specialise")
    assert all(inst.replace().verified_for is None for inst in program.instructions())
    assert all(inst.with_schedule(queue="x").verified_for is find("trn2") for inst in program.instructions())
