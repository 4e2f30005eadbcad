"""Planted flaws: the advice that each is to get, and a kernel with it and without, in three shapes each."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations
from typing import Any

import nki
from nki.profiling.advice import SERIAL_LOOP
from tests.profiling import flawed_kernels as kernels
from tests.profiling import flawed_products
from tests.profiling import kernels as loops

CLOCK = "The Tensor engine runs at a throttled clock"
OVERLAP = "Engines work one after the other"
CHAINS = "Instructions that need the result of the one before on their engine"
GENERATOR = "One generator of DMA descriptors"
SHORT = "Short rows in DMA transfers"
NARROW = "Tiles of few partitions"
RELOADS = "Inputs loaded again"
RETURNS = "Results that wait in HBM"
TWO = "Two instructions that one could do"
REPEATED = "Tiles in which each partition repeats one number"
FEW = "Instructions on few elements"
SUMS = "Sums of products on Vector"
ROWS = "Products of few rows"
ROWS_BACK = "Rows that go through HBM to be repeated"
AGAIN = "The same results computed again"
IDLE = "Vector computes what GpSimd could"
MOVES = {f"{one} computes what {two} could" for one, two in permutations(("Vector", "GpSimd", "Scalar"), 2)}
"""Advice that any kernel may get beside another: the model is asked what it gains."""
WAITS = "Loads wait for their memory"
ROUNDS = "One tile for all rounds"
EXCHANGE = "The short operand of products is stationary"


def shape(*sizes: int, dtype: str = "bfloat16") -> Any:
    return nki.ShapeDtype(sizes, dtype)


@dataclass(frozen=True)
class Flaw:
    """Advice, a kernel, and for three shapes the arguments with which it gets the advice, and those with which not;
    ``also``: other advice that the first flawed one may get, and ``still``: that the first mended one may get.
    """

    title: str
    kernel: Any
    cases: tuple[tuple[tuple[Any, ...], tuple[Any, ...]], ...]
    also: tuple[str, ...] = ()
    still: tuple[str, ...] = ()
    targets: tuple[str, ...] = ("trn2", "trn3")
    cores: int = 1


def ending(flawed: tuple[Any, ...], mended: tuple[Any, ...], *shapes: tuple[Any, ...]) -> Any:
    """The cases of a kernel: the arguments of each shape, with those behind them that make it flawed, or mended."""
    return tuple(((*each, *flawed), (*each, *mended)) for each in shapes)


LONG = shape(128, 8192)
WIDE = shape(128, 4096)
WIDE8 = shape(128, 32768)
FLOATS = (shape(128, 8192, dtype="float32"),) * 2
COLUMN = (shape(128, 16384), shape(128, 1, dtype="float32"))
ALL = ("trn1", "trn2", "trn3")
BALANCED = (*(kernels.SCALAR,) * 3, kernels.VECTOR)
FLAWS = [
    Flaw(
        SHORT,
        kernels.scale,
        (
            ((LONG, 64), (LONG, 2048)),
            ((shape(128, 4096), 128), (shape(128, 4096), 2048)),
            ((shape(128, 16384, dtype="float32"), 32), (shape(128, 16384, dtype="float32"), 1024)),
        ),
        also=(GENERATOR,),
        targets=ALL,
    ),
    Flaw(
        NARROW,
        kernels.copies,
        (
            ((shape(8, 16384),), (shape(128, 1024),)),
            ((shape(16, 8192),), (shape(128, 1024),)),
            ((shape(4, 32768, dtype="float32"),), (shape(128, 1024, dtype="float32"),)),
        ),
        targets=ALL,
    ),
    Flaw(
        RELOADS,
        kernels.products,
        ending(
            (False,),
            (True,),
            (shape(128, 1024), shape(128, 2048)),
            (shape(128, 2048), shape(128, 1024)),
            (shape(128, 512), shape(128, 4096)),
        ),
        also=(SHORT, GENERATOR),
    ),
    Flaw(
        NARROW,
        kernels.polynomial,
        (
            ((shape(128, 1024), 8), (shape(128, 1024), 128)),
            ((shape(128, 2048), 16), (shape(128, 2048), 128)),
            ((shape(128, 512), 32), (shape(128, 512), 128)),
        ),
        also=(OVERLAP, TWO),  # the first product by a number could be part of the next one
        still=(CHAINS, TWO),  # each step of Horner's rule needs the one before
        targets=ALL,
    ),
    Flaw(
        OVERLAP,
        kernels.exponential,
        (
            ((shape(128, 16384), 16384), (shape(128, 16384), 2048)),
            ((shape(128, 8192), 8192), (shape(128, 8192), 1024)),
            ((shape(128, 32768), 32768), (shape(128, 32768), 4096)),
        ),
        targets=ALL,
    ),
    Flaw(
        CHAINS,
        kernels.chains,
        ending((False,), (True,), (shape(128, 256),), (shape(128, 128),), (shape(128, 512),)),
        (TWO,),
        (TWO,),
        ALL,
    ),  # two sums in a row could be one instruction
    Flaw(
        "Transposes on the Tensor engine",
        kernels.turned_products,
        ending(
            (True,),
            (False,),
            (WIDE, shape(128, 128)),
            (shape(128, 8192), shape(128, 128)),
            (shape(128, 4096), shape(128, 256)),
        ),
        still=("One generator of DMA descriptors",),  # on trn3, 2 % of what is left: one engine issues all loads,
    ),
    Flaw(
        "Products of float32",
        kernels.sums_of_products,
        (
            (
                (shape(128, 1024, dtype="float32"), shape(128, 512, dtype="float32")),
                (shape(128, 1024), shape(128, 512)),
            ),
            ((shape(128, 512, dtype="float32"), shape(128, 512, dtype="float32")), (shape(128, 512), shape(128, 512))),
            (
                (shape(128, 2048, dtype="float32"), shape(128, 512, dtype="float32")),
                (shape(128, 2048), shape(128, 512)),
            ),
        ),
        targets=ALL,
    ),
    Flaw(
        "Sums leave PSUM through the busiest engine",
        kernels.evictions,
        ending(
            ((kernels.VECTOR,),),
            (BALANCED,),
            (WIDE, shape(128, 512)),
            (shape(128, 3072), shape(128, 512)),
            (shape(128, 5120), shape(128, 512)),
        ),
        also=(OVERLAP,),
    ),
    Flaw(
        "GpSimd computes what Vector could",
        kernels.squared_beside,
        ending(
            ((kernels.GPSIMD,),),
            ((kernels.VECTOR, kernels.VECTOR, kernels.GPSIMD),),
            (WIDE8,),
            (shape(128, 49152),),
            (shape(128, 16384),),
        ),
        targets=("trn2", "trn3"),
    ),
    Flaw(
        ROUNDS,
        kernels.buffered,
        ending((1,), (4,), (shape(128, 32768),), (shape(128, 65536),), (shape(128, 16384, dtype="float32"),)),
        still=(CHAINS,),  # the maximum is a chain
        targets=ALL,
    ),
    Flaw(
        "Swaps of activation tables",
        kernels.activations,
        (
            ((shape(128, 8192), 1), (shape(128, 8192), 8)),
            ((shape(128, 16384), 1), (shape(128, 16384), 16)),
            ((shape(128, 4096), 1), (shape(128, 4096), 4)),
        ),
        still=(OVERLAP,),  # the second function waits until the first has seen all tiles,
    ),
    Flaw(
        RELOADS,
        kernels.normalised,
        ending((False,), (True,), (shape(256, 8192),), (shape(512, 8192),), (shape(1024, 8192),)),
        targets=ALL,
    ),
    Flaw(
        RELOADS,
        kernels.scaled_in_a_loop,
        ending(
            (False,),
            (True,),
            (shape(4096, 4096), shape(128, 4096)),
            (shape(2048, 8192), shape(128, 8192)),
            (shape(4096, 2048, dtype="float32"), shape(128, 2048, dtype="float32")),
        ),
        also=(SERIAL_LOOP,),
        still=(SERIAL_LOOP,),
        targets=ALL,
    ),
    Flaw(
        SERIAL_LOOP,
        loops.exponentials_in_turn,
        ending((False,), (True,), (shape(4096, 1024),), (shape(2048, 2048),), (shape(8192, 512),)),
        targets=ALL,
    ),
    Flaw(
        NARROW,
        kernels.exponential_of_rows,
        (
            ((shape(1024, 2048), 16), (shape(1024, 2048), 128)),
            ((shape(512, 4096), 32), (shape(512, 4096), 128)),
            ((shape(1024, 1024, dtype="float32"), 8), (shape(1024, 1024, dtype="float32"), 128)),
        ),
        targets=ALL,
    ),
    Flaw(
        TWO,
        kernels.multiples,
        (
            ((*FLOATS, False), (*FLOATS, True)),
            ((shape(128, 4096, dtype="float32"),) * 2 + (False,), (shape(128, 4096, dtype="float32"),) * 2 + (True,)),
            ((shape(128, 16384, dtype="float32"),) * 2 + (False,), (shape(128, 16384, dtype="float32"),) * 2 + (True,)),
        ),
        also=(AGAIN,),  # each round doubles the same tile
        targets=ALL,
    ),
    Flaw(
        TWO,
        kernels.softmax,
        ending(
            (False,),
            (True,),
            (shape(1024, 2048, dtype="float32"),),
            (shape(512, 4096, dtype="float32"),),
            (shape(1024, 1024, dtype="float32"),),
        ),
    ),
    Flaw(
        TWO,
        kernels.scaled_exponentials,
        ending(
            (False,),
            (True,),
            (FLOATS[0], shape(128, 8, dtype="float32")),
            (shape(128, 4096, dtype="float32"), shape(128, 8, dtype="float32")),
            (shape(128, 8192, dtype="float32"), shape(128, 4, dtype="float32")),
        ),
        targets=ALL,
    ),
    Flaw(
        TWO,
        kernels.scaled_and_shifted,
        ending(
            (False,),
            (True,),
            (FLOATS[0], 6),
            (shape(128, 8192, dtype="float32"), 12),
            (shape(128, 4096, dtype="float32"), 8),
        ),
        targets=ALL,
    ),
    Flaw(
        REPEATED,
        kernels.repeated_column,
        ending(
            (False,),
            (True,),
            (*COLUMN,),
            (shape(128, 8192), shape(128, 1, dtype="float32")),
            (shape(128, 32768), shape(128, 1, dtype="float32")),
        ),
        (CHAINS, TWO),
        (CHAINS, TWO),
        ALL,
    ),
    Flaw(
        FEW,
        kernels.doubled_in_slices,
        (
            ((LONG, 32), (LONG, 2048)),
            ((shape(128, 8192), 16), (shape(128, 8192), 2048)),
            ((shape(128, 4096, dtype="float32"), 32), (shape(128, 4096, dtype="float32"), 2048)),
        ),
        targets=ALL,
    ),
    Flaw(
        SUMS,
        flawed_products.sums_of_blocks,
        ending(
            (False,),
            (True,),
            (shape(512, 512), shape(512, 2048)),
            (shape(1024, 256), shape(1024, 1024)),
            (shape(256, 512), shape(256, 2048)),
        ),
        targets=ALL,
    ),
    Flaw(
        ROWS,
        flawed_products.sums_of_rows,
        (
            ((shape(256, 128), shape(256, 512), 32), (shape(256, 128), shape(256, 512), 128)),
            ((shape(256, 128), shape(256, 512), 64), (shape(256, 128), shape(256, 512), 128)),
            ((shape(512, 128), shape(512, 512), 32), (shape(512, 128), shape(512, 512), 128)),
        ),
        also=(CLOCK, NARROW, SHORT, GENERATOR),  # loads are of 32 rows, too
        still=(SHORT, GENERATOR),
        targets=ALL,
    ),
    Flaw(
        CLOCK,
        flawed_products.products_of_powers,
        ending(
            (False,),
            (True,),
            (shape(128, 512), shape(128, 128), 4, 2),
            (shape(128, 256), shape(128, 128), 8, 4),
            (shape(128, 384), shape(128, 128), 4, 2),
        ),
        also=(OVERLAP, CHAINS),
        still=(OVERLAP, CHAINS),  # each power needs the one before
    ),
    Flaw(
        CLOCK,
        kernels.products_of_half,
        ending(
            (False,),
            (True,),
            (shape(128, 128), shape(128, 512)),
            (shape(128, 128), shape(128, 384)),
            (shape(128, 64), shape(128, 512)),
        ),
        also=(ROWS,),
    ),
    Flaw(
        EXCHANGE,
        flawed_products.few_columns,
        ending(
            (False,),
            (True,),
            (shape(1024, 32), shape(1024, 512)),
            (shape(2048, 32), shape(2048, 512)),
            (shape(1024, 64), shape(1024, 512)),
        ),
        also=(NARROW, SHORT, GENERATOR),
        still=(CLOCK, SHORT, GENERATOR),
        targets=ALL,
    ),
    Flaw(
        RETURNS,
        kernels.two_loops,
        ending((True,), (False,), (WIDE8,), (shape(128, 16384),), (shape(128, 16384, dtype="float32"),)),
        targets=ALL,
    ),
]
