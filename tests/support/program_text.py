"""A kernel with every kind of argument that the text form knows, and its text."""

from __future__ import annotations

import numpy as np

import nki
import nki.isa as nisa
import nki.language as nl
from nki.ir.program import Program
from nki.ir.text import parser, printer
from nki.passes.verify import Verify
from nki.target import find


@nki.jit
def everything(a, b):
    left, right = nl.load(a), nl.load(b)
    total = nl.ndarray((32, 48), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(total, left, right, tile_position=(0, 0), tile_size=(64, 128))
    placed = nl.ndarray((32, 48), dtype=nl.float32, address=(0, 4096), name="a tile, [placed] = (there)")
    nisa.tensor_copy(placed, total, name='with "quotes" and \\')
    sums = nl.ndarray((32, 1), dtype=nl.float32)
    nisa.activation(
        placed, nl.exp, placed, scale=0.1, reduce_op=nl.add, reduce_res=sums, reduce_cmd=nisa.reduce_cmd.reset_reduce
    )
    nisa.tensor_scalar(placed[:, 0:48:3], placed[:, 1:48:3], nl.multiply, sums, op1=nl.add, operand1=-1e-30)
    nisa.memset(placed[:, 47:48], float("inf"))
    numbers = nl.ndarray((32, 6, 8), dtype=nl.int32)
    nisa.iota(numbers, [[8, 6], [-1, 8]], offset=-5, channel_multiplier=3)
    nisa.affine_select(placed, [[-1, 48]], 1, placed, float("nan"), cmp_op=nl.greater_equal)
    out = nl.ndarray((32, 48), dtype=nl.float32, buffer=nl.shared_hbm)
    other = nl.ndarray((8, 6, 32), dtype=nl.int32, buffer=nl.shared_hbm)
    nisa.dma_copy(out, placed, dge_mode=nisa.dge_mode.hwdge, engine=nisa.engine.sync, priority=2)
    nisa.dma_copy(other, numbers)
    return out, other


ARGUMENTS = [np.zeros((64, 32), np.float32), np.zeros((64, 48), np.float32)]
KERNEL: Program = everything.compile(*ARGUMENTS).kernel
TEXT = printer.show(KERNEL)


def accept(kernel: Program) -> Program:
    """What happens to every kernel that did not come from source, before native code trusts it."""
    target = find(kernel.target)
    return Verify().run(kernel, target)


def edited(old: str, new: str) -> Program:
    """KERNEL with one part of its text replaced."""
    assert TEXT.count(old) >= 1, old
    return parser.parse(TEXT.replace(old, new, 1))
