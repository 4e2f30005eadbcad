"""The matrix units of processors, one row each: what they multiply, the layouts that they read, their micro-kernel.

A unit multiplies register tiles of ``tile`` rows, columns and depth. Its operands lie in ``stationary`` and ``moving``;
of layouts of pairs, ``half`` is the order of rows in words (:mod:`nki.numerics.matmul.conversions`). ``emit`` adds the
micro-kernel to a module, and what comes before and after products. All have the order of sums of
:mod:`nki.numerics.matmul.contract`, which :mod:`nki.numerics.matmul.host` proves of the processor at hand before it
takes a unit: add a row and a file with its emitter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Final

from llvmlite import ir

from nki.ir.layout import Layout
from nki.numerics.llvm import taken
from nki.numerics.llvm_jit import Module, Passes, engine
from nki.numerics.matmul.amx import add_amx_matmul
from nki.numerics.matmul.bf16_pairs import add_pair_matmul
from nki.numerics.matmul.contract import BLOCKS, CHAIN, GROUP, PAIR_COLUMNS, PAIR_PANELS, PANEL, PANELS
from nki.numerics.matmul.conversions import (
    BY_CHAIN,
    COLUMNS_TO_BLOCKS,
    TO_FLOAT32,
    TO_PAIRS,
    VNNI,
    add_conversion,
    add_least_magnitude,
)
from nki.numerics.matmul.f32_microkernel import add_matmul


@dataclass(frozen=True, slots=True, eq=False)
class MatrixUnit:
    """A row of the table; operands of pairs are bfloat16, of others float32."""

    name: str
    tile: tuple[int, int, int]
    stationary: Layout
    moving: Layout
    emit: Callable[[ir.Module], object]
    exists: Callable[[], bool]
    half: int = VNNI
    nanoseconds: float = 0.01
    """An estimate for a multiplication and an addition, with the conversion of operands; 0.01 is 200 GFLOP/s."""
    passes: Passes = Passes.full
    is_timed: bool = False
    """Some processors have it, but take longer than with float32: it is timed once in a process."""

    @property
    def takes_pairs(self) -> bool:
        """True if its operands are bfloat16, two in a word."""
        return self.moving.pairs

    def depth(self, rows: int) -> int:
        """The depth of operands of so many rows, as the micro-kernel takes it: in register tiles."""
        return -(-rows // self.tile[2])

    def address(self, routine: str = "") -> int:
        """The address of the micro-kernel, or of another routine of the unit; 0 if there is none of that name."""
        return engine().fixed(*self.module).get(routine or f"nki_matmul_{self.name}", 0)

    @property
    def module(self) -> Module:
        """The module with all its routines."""
        return f"nki_matmul_{self.name}", self._made, self.passes

    def _made(self) -> str:
        module = ir.Module(f"nki_matmul_{self.name}")
        self.emit(module)
        if self.takes_pairs:
            for conversion in (*TO_PAIRS, *TO_FLOAT32):
                add_conversion(module, conversion, self.half)
            add_least_magnitude(module)
        return taken(module)


def _add_float32(module: ir.Module, by_groups: bool) -> None:
    add_matmul(module, engine().vector_width, by_groups)


AMX: Final = MatrixUnit(
    "amx",
    (CHAIN, CHAIN, GROUP),
    PAIR_COLUMNS,
    PAIR_PANELS,
    add_amx_matmul,
    lambda: engine().has_tiles,
    half=BY_CHAIN,
    nanoseconds=0.0018,
)
BF16_PAIRS: Final = MatrixUnit(
    "pairs",
    (4, PANEL, CHAIN),
    PAIR_COLUMNS,
    PAIR_PANELS,
    add_pair_matmul,
    lambda: engine().has_bfloat16,
    nanoseconds=0.0045,
    is_timed=True,
)
FLOAT32, FLOAT32_BY_GROUPS = (
    MatrixUnit(
        name,
        (12, PANEL, 1),
        BLOCKS,
        PANELS,
        partial(_add_float32, by_groups=by_groups),
        lambda: True,
        passes=Passes.brief,
    )
    for name, by_groups in (("float32", False), ("float32_by_groups", True))
)
UNITS: Final = (AMX, BF16_PAIRS, FLOAT32, FLOAT32_BY_GROUPS)
"""In the order of choice."""


def float32_unit(by_groups: bool) -> MatrixUnit:
    """The unit for numbers of float32, which add in this order."""
    return FLOAT32_BY_GROUPS if by_groups else FLOAT32


@cache
def columns_to_blocks() -> int:
    """The address of a conversion that few kernels need."""
    module = ir.Module("nki_columns_to_blocks")
    add_conversion(module, COLUMNS_TO_BLOCKS)
    return engine().compile(module)[COLUMNS_TO_BLOCKS.name]
