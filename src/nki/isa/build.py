"""Constructors of the instructions that the compiler itself inserts: copies, barriers, clears, prints."""

from __future__ import annotations

from nki.ir.instruction import Inst
from nki.ir.types import Access
from nki.isa.instructions.core_barrier import CoreBarrier
from nki.isa.instructions.device_print import DevicePrint
from nki.isa.instructions.dma_copy import DmaCopy
from nki.isa.instructions.psum_zero import PsumZero
from nki.isa.instructions.register import RegisterMove
from nki.isa.instructions.scalar import ScalarArithmetic
from nki.isa.instructions.tensor_copy import TensorCopy
from nki.isa.tables.operators import OPS


def copy_tile(dst: Access, src: Access) -> Inst:
    """A copy on chip."""
    return TensorCopy(dst, src)


def copy_by_dma(dst: Access, src: Access) -> Inst:
    """A copy between any two memories, by DMA."""
    return DmaCopy(dst, src)


def core_barrier(data: Access, cores: tuple[int, ...], tag: str) -> Inst:
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
