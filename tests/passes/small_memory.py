"""Kernels in a smaller memory than trn2 has: what fits is a legal program with the bits of a larger memory.

And the parts of such kernels, on tiles of COLUMNS float32 in all partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import nki.isa as nisa
import nki.language as nl
from nki import target
from nki.base.element_types import DType, float32, int32
from nki.compilation import pipeline, simulated_run
from nki.compilation.executable import Executable
from nki.compilation.vendor_options import CompileConfig
from nki.ir.loop import Statement
from nki.ir.ordering import Pairs
from nki.ir.program import Program
from nki.ir.text import parser, printer
from nki.ir.types import Buffer, TensorSpec
from nki.passes.allocate import Allocate
from nki.passes.verify import Verify
from nki.target.fact_rows import Fact
from nki.target.model import Target

TRN2 = target.find("trn2")
BANK = TRN2.psum_bank_bytes
P, COLUMNS = 128, 64
ROW = COLUMNS * 4
"""Bytes per partition of a tile."""
Array = NDArray[Any]
Shape = tuple[int, ...] | tuple[tuple[int, ...], DType]


def small(sbuf: int = TRN2.sbuf_usable_partition_bytes, psum: int = TRN2.psum_partition_bytes) -> Target:
    """trn2 with less memory."""
    return TRN2.with_facts(
        {
            "sbuf_usable_partition_bytes": Fact(sbuf, "bytes", "this test"),
            "psum_partition_bytes": Fact(psum, "bytes", "this test"),
        }
    )


def compiled(
    kernel: Callable[..., Any],
    machine: Target = TRN2,
    *,
    stop: str = "allocate",
    spills: bool = False,
    grid: tuple[int, ...] = (),
    edges: Pairs = (),
    **shapes: Shape,
) -> Program:
    """The program of ``kernel``, which may spill or not; a shape is of float32, or stands in a pair with its dtype."""
    pairs = {name: shape if isinstance(shape[0], tuple) else (shape, float32) for name, shape in shapes.items()}
    specs: dict[str, Any] = {name: TensorSpec(name, *pair) for name, pair in pairs.items()}
    configs = (CompileConfig(nki_alloc_fallback=spills), None)
    kernel = getattr(kernel, "func", kernel)
    return pipeline.compile(kernel, specs, machine, stop=stop, configs=configs, grid=grid, edges=edges)


def outputs(program: Program, *arrays: Array) -> list[Array]:
    """What ``program`` returns: native and reference executor agree."""
    expected = simulated_run.run(program, [array.view(np.uint8).reshape(-1).copy() for array in arrays])
    results = [np.zeros(t.nbytes, np.uint8) for t in program.outputs]
    Executable(program).launch([a.ctypes.data for a in (*arrays, *results)])
    for one, other in zip(expected, results, strict=True):
        np.testing.assert_array_equal(np.asarray(one).view(np.uint8).reshape(-1), other)
    return [result.view(np.float32) for result in results]


def inputs(program: Program) -> list[Array]:
    """Normal numbers, and indices of rows that count down."""
    random = np.random.default_rng(7)
    return [
        np.arange(t.shape[0] - 1, -1, -1, np.int32).reshape(t.shape)
        if t.dtype is int32
        else random.standard_normal(t.shape, np.float32)
        for t in program.inputs
    ]


def assert_same_bits(one: Program, other: Program) -> None:
    """Programs with places return the same on the same arguments."""
    arrays = inputs(one)
    results = [outputs(program, *(array.copy() for array in arrays)) for program in (one, other)]
    for found, expected in zip(*results, strict=True):
        np.testing.assert_array_equal(found.view(np.uint8), expected.view(np.uint8))


def placed(program: Program, machine: Target) -> Program:
    return pipeline.run_stages(program, machine, [Allocate()])


def fits(program: Program, machine: Target) -> None:
    """The result is a legal program of ``machine``, without memory beyond it, and has a text form."""
    Verify().check(program, program, machine)
    most = {Buffer.sbuf: machine.sbuf_usable_partition_bytes, Buffer.psum: machine.psum_partition_bytes}
    for core in program.cores:
        for tensor, (_, offset) in core.placement.items():
            assert offset + tensor.bytes_per_partition <= most[tensor.buffer]
    assert parser.parse(printer.show(program)) == program


def agree(kernel: Callable[..., Any], machine: Target, **options: Any) -> Program:
    """``kernel`` fits ``machine``, with the bits of a larger one; the program."""
    program = compiled(kernel, machine, **options)
    fits(program, machine)
    assert_same_bits(program, compiled(kernel, TRN2, **options))
    return program


def names(program: Program, part: str) -> list[str]:
    """The names of tensors, also of loops, that have ``part`` in them."""
    return [tensor.name for tensor in program.core.tensors if part in tensor.name]


def with_body(program: Program, body: Iterable[Statement]) -> Program:
    return program.with_cores([program.core.with_body(body)])


# Parts of kernels


def tile(columns: int = COLUMNS, dtype: Any = nl.float32, **options: Any) -> Any:
    return nl.ndarray((P, columns), dtype=dtype, buffer=nl.sbuf, **options)


def psum(columns: int, dtype: Any = nl.float32) -> Any:
    return nl.ndarray((P, columns), dtype=dtype, buffer=nl.psum)


def hbm(*shape: int, **options: Any) -> Any:
    """A tensor in HBM that the cores share, or that a kernel returns."""
    return nl.ndarray(shape, dtype=nl.float32, buffer=nl.shared_hbm, **options)


def private(*shape: int) -> Any:
    """Memory of one core in HBM."""
    return nl.ndarray(shape, dtype=nl.float32, buffer=nl.private_hbm)


def loaded(source: Any, **options: Any) -> Any:
    """A tile of all columns of an input."""
    result = tile(source.shape[-1])
    nisa.dma_copy(dst=result, src=source, **options)
    return result


def stored(*tiles: Any) -> Any:
    """An output of tiles with one shape."""
    out = hbm(len(tiles), *tiles[0].shape)
    for number, each in enumerate(tiles):
        nisa.dma_copy(dst=out[number], src=each)
    return out


def scaled(source: Any, by: Any = 2.0, **options: Any) -> Any:
    result = tile(**options)
    nisa.tensor_scalar(result, source, nl.multiply, by)
    return result


def total(source: Any) -> Any:
    """The sum of each row."""
    result = tile(1)
    nisa.tensor_reduce(result, nl.add, source, 1)
    return result
