"""Published times of single instructions and transfers, from profiles of trn1, inf2 and trn2."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from nki import target as targets
from nki.base.element_types import DType, bfloat16, float16, float32
from nki.cost import dma_costs
from nki.ir.estimate import Dma, Estimate, Matmul
from nki.ir.instruction import REGISTRY
from nki.ir.types import Access, Buffer, Tensor
from nki.isa.tables.enums import engine
from nki.isa.tables.operators import OPS
from nki.target.model import Target

Quantity = Literal["duration", "interval", "throttled", "dependent", "data", "first data", "data to reader", "packet"]
INF2 = "npu_profiling_code by AnchovyPark: profiles of fp16 matmuls on inf2"
TRN2 = "public hardware profiles of ten kernels on trn2, 2026-03"
GUIDE = "NKI performance guide, profiles on trn1"
TUTORIAL = "NKI kernel-optimization tutorial, profiles on trn2"
DMA = "Introduction to DMA with NKI, profiles on trn2"


@dataclass(frozen=True)
class Microcase:
    """One published time of an instruction, in ns.

    ``quantity``: ``duration``, from start to completion; ``interval``, from its start to the start of the next one of
    its kind; ``throttled``, the same at the slow clock of the Tensor engine; ``dependent``, the same where that one
    needs its result; of transfers, ``data``, from the first byte to the last, ``first data``, from the trigger, ``data
    to reader``, and ``packet``, between the packets that one engine moves, of 128 rows.
    """

    name: str
    target: str
    quantity: Quantity
    measured: tuple[float, float]
    source: str
    estimate: Callable[[Target], Estimate]

    def predicted(self) -> float:
        """The model's time in ns."""
        target = targets.find(self.target)
        estimate = self.estimate(target)
        match self.quantity, estimate:
            case "duration", _:
                return estimate.latency - target.semaphore_ns
            case "interval", Dma():
                return estimate.issue or estimate.occupancy
            case "interval", Matmul() if "same weights" in self.name:
                return estimate.occupancy - estimate.weight_load_saving
            case "interval", _:
                return estimate.occupancy
            case "throttled", Matmul():
                return estimate.occupancy * max(1.0, estimate.clocked / target.tensor_throttle_fraction)
            case "dependent", _:
                return estimate.occupancy + estimate.dependent
            case "data", Dma():
                return estimate.transfer
            case "first data", Dma():
                return estimate.issue + estimate.start
            case "packet", Dma():
                return estimate.occupancy * target.dma_engines / 128
            case "data to reader", Dma():
                return estimate.completion
            case _:
                raise TypeError(f"{self.name}: no {self.quantity} of a {type(estimate).__name__}")

    @property
    def error(self) -> float:
        """Relative error: 0 within what was measured, else against the nearer end."""
        low, high = self.measured
        predicted = self.predicted()
        return predicted / min(max(predicted, low), high) - 1


def tile(columns: int, dtype: DType = float32, buffer: Buffer = Buffer.sbuf, partitions: int = 128) -> Access:
    """A whole tile on chip."""
    return Access.whole(Tensor("t", (partitions, columns), dtype, buffer))


def instruction(mnemonic: str, **arguments: Any) -> Callable[[Target], Estimate]:
    """The estimate of an instruction."""
    declaration: Any = REGISTRY[mnemonic]
    return lambda target: declaration(**arguments).cost(target)


def product(columns: int, dtype: DType, rows: int = 128, loaded: int = 128) -> Callable[[Target], Estimate]:
    """A matmul of ``loaded`` stationary columns and ``columns`` moving ones."""
    return instruction(
        "nc_matmul",
        dst=tile(columns, float32, Buffer.psum, loaded),
        stationary=tile(loaded, dtype, partitions=rows),
        moving=tile(columns, dtype, partitions=rows),
    )


def copy(columns: int, of: str, source: Buffer = Buffer.psum) -> Callable[[Target], Estimate]:
    """A float32 copy to SBUF by the engine of that name."""
    return instruction("tensor_copy", dst=tile(columns), src=tile(columns, buffer=source), engine=engine[of])


def exp(columns: int, source: Buffer = Buffer.sbuf) -> Callable[[Target], Estimate]:
    """The exponential of a float32 tile with a bias."""
    return instruction("activation", dst=tile(columns), op=OPS["exp"], data=tile(columns, buffer=source), bias=tile(1))


def converting_store(columns: int) -> Callable[[Target], Estimate]:
    """A store of 128 rows of float32 that makes them two bytes wide."""
    result = Access.whole(Tensor("result", (128, columns), bfloat16, Buffer.hbm))
    return lambda target: dma_costs.transfer(result, (tile(columns),), target)


def load(rows: int, row_bytes: int, mode: str = "unknown", dtype: DType = bfloat16) -> Callable[[Target], Estimate]:
    """A transfer of dense rows from HBM."""
    columns = row_bytes // dtype.itemsize
    source = Access.whole(Tensor("source", (rows, columns), dtype, Buffer.hbm))

    def estimate(target: Target) -> Estimate:
        dge = dma_costs.dge_of(mode, "unknown", target)
        return dma_costs.transfer(tile(columns, dtype, partitions=rows), (source,), target, dge=dge)

    return estimate


def store(rows: int, row_bytes: int, dtype: DType = bfloat16) -> Callable[[Target], Estimate]:
    """A transfer of dense rows to HBM."""
    columns = row_bytes // dtype.itemsize
    result = Access.whole(Tensor("result", (rows, columns), dtype, Buffer.hbm))
    return lambda target: dma_costs.transfer(result, (tile(columns, dtype, partitions=rows),), target)


def _inf2() -> Iterator[Microcase]:
    for columns, low, high in ((8, 145, 145), (64, 165, 165), (128, 194, 211), (256, 237, 244), (512, 328, 357)):
        name = f"matmul, {columns} columns, fp16"
        yield Microcase(name, "trn1", "duration", (low, high), INF2, product(columns, float16))
    name = "matmul, 512 columns, fp16, same weights"
    yield Microcase(name, "trn1", "interval", (188, 211), INF2, product(512, float16))
    source = "published rates of matmuls on trn1"
    yield Microcase("matmul, 512 columns, bf16", "trn1", "interval", (212.4, 213.7), source, product(512, bfloat16))
    for columns, nanoseconds in ((128, 248), (256, 340), (512, 522)):
        name = f"Scalar copy from PSUM, {columns} float32"
        yield Microcase(name, "trn1", "duration", (nanoseconds, nanoseconds), INF2, copy(columns, "scalar"))
        steady = 15.0 + columns / 1.401
        yield Microcase(name, "trn1", "interval", (steady, steady), INF2, copy(columns, "scalar"))
    yield Microcase("Scalar copy, 1 float32", "trn1", "duration", (159, 159), GUIDE, copy(1, "scalar", Buffer.sbuf))
    yield Microcase("Scalar copy, 1 float32", "trn1", "dependent", (189, 189), GUIDE, copy(1, "scalar", Buffer.sbuf))
    yield Microcase("exp, 8192 float32", "trn1", "duration", (6040, 6040), GUIDE, exp(8192))
    wide = {"dst": tile(8192), "data1": tile(8192), "data2": tile(8192), "engine": engine.vector}
    added = instruction("tensor_tensor", op=OPS["add"], **wide)
    yield Microcase("tensor_tensor, 8192 float32", "trn1", "duration", (14968, 14987), GUIDE, added)
    yield Microcase("software DMA, 128 rows", "trn1", "interval", (648, 649), INF2, load(128, 1024))
    yield Microcase("software DMA", "trn1", "first data", (702, 930), INF2, load(128, 1024))
    yield Microcase("static DMA", "trn1", "first data", (234, 581), INF2, load(128, 256, "none"))
    yield Microcase("DMA", "trn1", "data to reader", (326, 503), INF2, load(128, 1024))
    for columns, nanoseconds in ((128, 21), (256, 40), (512, 77.5)):
        name, estimate = f"converting store, {columns} float32", converting_store(columns)
        yield Microcase(name, "trn1", "packet", (nanoseconds, nanoseconds), INF2, estimate)
    yield Microcase("DMA, 128 rows of 256 bytes", "trn1", "data", (204, 758), INF2, load(128, 128))
    yield Microcase("DMA, 128 rows of 4 KiB", "trn1", "data", (1950, 2070), GUIDE, load(128, 4096))
    yield Microcase("store, 128 rows of 4 KiB", "trn1", "data", (1480, 1810), GUIDE, store(128, 4096))
    yield Microcase("DMA, 4 MiB", "trn1", "data", (16500, 16955), GUIDE, load(128, 32768))


def _trn2_engines() -> Iterator[Microcase]:
    source = "neuron-agentic-development, profile of 2048 matmuls (77.2 TFLOPS)"
    yield Microcase("matmul, 512 columns, bf16", "trn2", "interval", (217.3, 217.4), source, product(512, bfloat16))
    yield Microcase("matmul, 512 columns, fp32", "trn2", "interval", (858.6, 859), TUTORIAL, product(512, float32))
    yield Microcase("matmul, 128 columns, fp32", "trn2", "interval", (219, 224), TRN2, product(128, float32))
    for columns, dtype, low, high in ((512, bfloat16, 427, 427), (128, bfloat16, 105, 107), (128, float32, 426, 426)):
        name = f"matmul, {columns} columns, {'fp32' if dtype is float32 else 'bf16'}"
        yield Microcase(name, "trn2", "throttled", (low, high), TRN2, product(columns, dtype))
    for columns, low, high in ((128, 265, 265), (512, 585, 585)):
        name = f"Scalar copy from PSUM, {columns} float32"
        yield Microcase(name, "trn2", "duration", (low, high), TRN2, copy(columns, "scalar"))
    for columns, low, high in ((128, 157, 157), (512, 465, 482)):
        name = f"Scalar copy from PSUM, {columns} float32"
        yield Microcase(name, "trn2", "interval", (low, high), TRN2, copy(columns, "scalar"))
    yield Microcase("exp with bias, 512 float32", "trn2", "duration", (686, 707), TRN2, exp(512))
    yield Microcase("exp with bias, 512 float32", "trn2", "interval", (570, 612), TRN2, exp(512))
    yield Microcase("exp, 128 bf16", "trn2", "duration", (400, 400), DMA, exp(128))
    yield Microcase("exp, 4096 bf16", "trn2", "duration", (3709, 3709), DMA, exp(4096))
    reduced = {"dst": tile(1), "op": OPS["add"], "axis": (1,)}
    for columns, low, high in ((512, 680, 685), (4, 148, 169), (16, 148, 169)):
        estimate = instruction("tensor_reduce", data=tile(columns), **reduced)
        yield Microcase(f"tensor_reduce, {columns} float32", "trn2", "duration", (low, high), TRN2, estimate)
    estimate = instruction("tensor_reduce", data=tile(512), **reduced)
    yield Microcase("tensor_reduce, 512 float32", "trn2", "interval", (593, 608), TRN2, estimate)
    for columns, low, high in ((128, 290, 290), (512, 690, 690)):
        name = f"Vector copy from PSUM, {columns} float32"
        yield Microcase(name, "trn2", "duration", (low, high), TRN2, copy(columns, "vector"))
    name = "Vector copy from PSUM, 512 float32"
    yield Microcase(name, "trn2", "interval", (598, 608), TRN2, copy(512, "vector"))
    within = copy(512, "vector", Buffer.sbuf)
    yield Microcase("Vector copy within SBUF, 512 float32", "trn2", "duration", (415, 424), TUTORIAL, within)
    for columns, buffer, quantity, nanoseconds in _SCALED:
        scaled = {"dst": tile(columns), "data": tile(columns, buffer=buffer), "op0": OPS["add"], "operand0": tile(1)}
        estimate = instruction("tensor_scalar", engine=engine.vector, **scaled)
        name = f"tensor_scalar from {buffer.value}, column operand, {columns} float32"
        yield Microcase(name, "trn2", quantity, (nanoseconds, nanoseconds), TRN2, estimate)
    both = {"data1": tile(512), "data2": tile(512, buffer=Buffer.psum), "engine": engine.vector}
    added = instruction("tensor_tensor", dst=tile(512), op=OPS["add"], **both)
    yield Microcase("tensor_tensor, 512 float32 of PSUM", "trn2", "duration", (685, 685), TUTORIAL, added)
    for columns, nanoseconds in ((4, 178), (8, 202)):
        estimate = instruction("reciprocal", dst=tile(columns), data=tile(columns))
        yield Microcase(f"reciprocal, {columns}", "trn2", "duration", (nanoseconds, nanoseconds), TRN2, estimate)


_SCALED: tuple[tuple[int, Buffer, Quantity, float], ...] = (
    (128, Buffer.psum, "duration", 349),
    (512, Buffer.sbuf, "duration", 481),
    (512, Buffer.sbuf, "interval", 396),
)


def _trn2_transfers() -> Iterator[Microcase]:
    yield Microcase("hardware DMA, 128 rows", "trn2", "interval", (540, 600), TRN2, load(128, 2048, "hwdge"))
    yield Microcase("hardware DMA", "trn2", "first data", (1326, 1345), TRN2, load(128, 2048, "hwdge"))
    yield Microcase("software DMA, 128 rows", "trn2", "interval", (576, 598), TRN2, load(128, 2048, "swdge"))
    yield Microcase("software DMA", "trn2", "first data", (624, 640), TRN2, load(128, 2048, "swdge"))
    yield Microcase("converting store, 128 float32", "trn2", "packet", (39, 41), TRN2, converting_store(128))
    yield Microcase("static DMA", "trn2", "first data", (1006, 1006), DMA, load(4, 8192, "none"))
    yield Microcase("DMA", "trn2", "data to reader", (374, 398), TRN2, load(128, 2048))
    yield Microcase("DMA, 4 rows of 8 KiB", "trn2", "data", (1416, 1416), DMA, load(4, 8192))
    yield Microcase("store, 4 rows of 8 KiB", "trn2", "data", (1222, 1222), DMA, store(4, 8192))
    yield Microcase("DMA, 128 rows of 4 KiB", "trn2", "data", (1254, 1528), TRN2, load(128, 4096))
    for row_bytes, nanoseconds in ((256, 14), (512, 23)):
        name = f"DMA, rows of {row_bytes} bytes side by side"
        yield Microcase(name, "trn2", "packet", (nanoseconds, nanoseconds), TRN2, load(128, row_bytes))
    yield Microcase("DMA, 128 rows of 512 bytes", "trn2", "data", (417, 641), TRN2, load(128, 512))


MICROCASES: tuple[Microcase, ...] = (*_inf2(), *_trn2_engines(), *_trn2_transfers())
"""All published times of instructions that the project holds."""
