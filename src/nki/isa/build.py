"""Constructors of the instructions that the compiler and its dialects insert: copies, arithmetic, barriers, prints."""

from __future__ import annotations

from typing import Any

from nki.ir.instruction import Inst
from nki.ir.types import Access
from nki.isa.instructions.core_barrier import CoreBarrier
from nki.isa.instructions.device_print import DevicePrint
from nki.isa.instructions.dma_copy import DmaCopy
from nki.isa.instructions.dma_transpose import DmaTranspose
from nki.isa.instructions.psum_zero import PsumZero
from nki.isa.instructions.register import RegisterMove
from nki.isa.instructions.scalar_registers import ScalarArithmetic
from nki.isa.instructions.tensor_copy import TensorCopy
from nki.isa.instructions.tensor_scalar import ScalarTensorTensor, TensorScalar
from nki.isa.instructions.tensor_tensor import TensorTensor
from nki.isa.tables import enums
from nki.isa.tables.operators import OPS, Op


def copy_tile(dst: Access, src: Access) -> Inst:
    """A copy on chip."""
    return TensorCopy(dst, src)


def copy_by_dma(dst: Access, src: Access, **options: Any) -> Inst:
    """A copy between any two memories, by DMA; ``options`` are other arguments of ``dma_copy``."""
    return DmaCopy(dst, src, **options)


def transpose_by_dma(dst: Access, src: Access) -> Inst:
    """``dst`` from ``src`` with its first and last dimensions exchanged, by DMA."""
    return DmaTranspose(dst, src)


def tensor_tensor(
    dst: Access, data1: Access, data2: Access, op: Op, engine: enums.engine = enums.engine.unknown
) -> Inst:
    """``dst = data1 <op> data2``."""
    return TensorTensor(dst, data1, data2, op, engine)


def tensor_scalar(
    dst: Access,
    data: Access,
    op0: Op,
    operand0: Any,
    reverse0: bool = False,
    op1: Op | None = None,
    operand1: Any = None,
    reverse1: bool = False,
    engine: enums.engine = enums.engine.unknown,
) -> Inst:
    """``dst = (data <op0> operand0) <op1> operand1`` with numbers or columns as operands."""
    return TensorScalar(dst, data, op0, operand0, reverse0, op1, operand1, reverse1, engine)


def scalar_tensor_tensor(
    dst: Access,
    data: Access,
    op0: Op,
    operand0: Any,
    op1: Op,
    operand1: Access,
    reverse0: bool = False,
    reverse1: bool = False,
) -> Inst:
    """``dst = (data <op0> operand0) <op1> operand1`` with a number or column, then a tile, as operands."""
    return ScalarTensorTensor(dst, data, op0, operand0, op1, operand1, reverse0, reverse1)


def core_barrier(data: Access, cores: tuple[int, ...], tag: str | None) -> Inst:
    """A barrier named ``tag`` at which ``cores`` wait for each other before they go on with ``data``."""
    return CoreBarrier(data, cores, name=tag)


def zero_psum(dst: Access) -> Inst:
    """The start of an accumulation at 0 in places that nothing has written."""
    return PsumZero(dst)


def move_register(dst: Access, src: Access) -> Inst:
    """``dst = src`` for scalar registers."""
    return RegisterMove(dst, src)


def compute_scalar(dst: Access, op: str, left: int | Access, right: int | Access) -> Inst:
    """``dst = left op right`` for scalars and whole numbers."""
    return ScalarArithmetic(dst, OPS[op], left, right)


def device_print(prefix: str, src: Access) -> Inst:
    """A print of ``src`` behind ``prefix``, each time that the kernel runs it."""
    return DevicePrint(prefix, src)
