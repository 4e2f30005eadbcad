"""Collectives in native code: an entry that calls Python, where ranks meet.

The NumPy executor carries the instruction out on the memory of the launch, so both executors have one exchange. A
collective moves tensors between ranks that wait for each other, and what Python adds is a few ten microseconds.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

import numpy as np
from llvmlite import ir

from nki.backend.cpu.native import library
from nki.backend.cpu.native.frame import WORD
from nki.backend.numpy.executor import Reference
from nki.backend.numpy.memory import Bytes, Memory
from nki.ir.instruction import Inst
from nki.ir.layout import DENSE
from nki.ir.types import Tensor
from nki.numerics.floating_point import default_environment
from nki.numerics.llvm import POINTER
from nki.numerics.llvm_jit import engine

_word: Final = ctypes.c_int64.from_address
Places = Mapping[Tensor, tuple[int, int]]
"""Slot of the frame and byte offset of the first byte of each tensor."""


class _FrameMemory(Memory):
    """The tensors of one launch, where native code has them."""

    def __init__(self, frame: int, places: Places) -> None:
        super().__init__()
        self._frame, self._places = frame, places

    def _block(self, tensor: Tensor) -> Bytes:
        slot, offset = self._places[tensor]
        address = _word(self._frame + WORD * slot).value + offset
        return np.ctypeslib.as_array((ctypes.c_uint8 * tensor.nbytes).from_address(address))


class CollectiveCall:
    """The function that native code calls, with the address of its frame, for one collective."""

    def __init__(self, inst: Inst, places: Places) -> None:
        tensors = {access.tensor for access in (*inst.accesses(), *inst.indexed_by())}
        assert all(tensor.layout is DENSE for tensor in tensors), "other ranks see dense tensors"
        self._inst, self._places = inst, {tensor: places[tensor] for tensor in tensors}

    def __call__(self, frame: int) -> None:
        """Exchange with the other ranks. What it raises ends the launch."""
        with default_environment():
            Reference(_FrameMemory(frame, self._places)).execute(self._inst)


@cache
def collective_routine() -> int:
    """The address of the routine with the callable, as Python knows it, as its one argument."""
    module = ir.Module("nki_collective")
    kind = ir.FunctionType(ir.VoidType(), [POINTER, POINTER, ir.IntType(64), ir.IntType(64)])
    function = ir.Function(module, kind, "nki_collective")
    b: Any = ir.IRBuilder(function.append_basic_block("entry"))
    frame, args = function.args[:2]
    target = b.load(args, typ=POINTER)
    called = ir.FunctionType(ir.VoidType(), [POINTER, POINTER, POINTER])
    b.call(engine().declared(module, library.address("print"), called), [frame, frame, target])
    b.ret_void()
    return engine().compile(module)["nki_collective"]
