"""Planted flaws: the advice that each is to get, and a kernel with it and without, in three shapes each."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from itertools import permutations
from typing import Any

from nki.profiling.advice import SERIAL_LOOP
from tests.profiling import flawed_cores, flawed_products, flawed_repeats, flawed_rounds
from tests.profiling import flawed_kernels as kernels
from tests.profiling import kernels as loops
from tests.profiling.flawed_rounds import KEPT, NEW
from tests.profiling.kernels import shape

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
BALANCE = "One core waits for the other"
SAME = "All cores do the same work"


LATER = ("trn2", "trn3")
CHOICE = (False, True)
"""The last argument of most kernels: without what the advice asks for, and with it."""


@dataclass(frozen=True)
class Flaw:
    """Advice, a kernel, and the arguments of three cases, with which the first one of ``last`` behind them gives the
    flaw, and the second one is without it.

    Cases are parted by ``;``. An argument is a shape, such as ``128x512`` of bfloat16 and ``128x512:f32``, or a value
    of Python; of ``64|2048`` the first one gives the flaw, and the second one is without it. ``also``: other advice
    that the first flawed case may get; ``still``: advice that the first mended one may get.
    """

    title: str
    kernel: Any
    cases: str
    last: tuple[Any, Any] | None = None
    also: tuple[str, ...] = ()
    still: tuple[str, ...] = ()
    targets: tuple[str, ...] = ("trn1", "trn2", "trn3")
    cores: int = 1

    def arguments(self, case: int) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """The arguments of a case with the flaw, and without it."""
        words = [word.split("|") for word in self.cases.split(";")[case].split()]
        columns = [(argument(word[0]), argument(word[-1])) for word in words] + ([self.last] if self.last else [])
        flawed, mended = zip(*columns, strict=True)
        return flawed, mended


def argument(word: str) -> Any:
    """A shape with its dtype, or a value."""
    match = re.fullmatch(r"(\d+(?:x\d+)+)(:f32)?", word)
    if match is None:
        return ast.literal_eval(word)
    return shape(*map(int, match[1].split("x")), dtype="float32" if match[2] else "bfloat16")


LONG = shape(128, 8192)
BALANCED = (*(kernels.SCALAR,) * 3, kernels.VECTOR)
FLAWS = [
    Flaw(SHORT, kernels.scale, "128x8192 64|2048; 128x4096 128|2048; 128x16384:f32 32|1024", also=(GENERATOR,)),
    Flaw(NARROW, kernels.copies, "8x16384|128x1024; 16x8192|128x1024; 4x32768:f32|128x1024:f32"),
    Flaw(
        RELOADS,
        kernels.products,
        "128x1024 128x2048; 128x2048 128x1024; 128x512 128x4096",
        CHOICE,
        also=(SHORT, GENERATOR),
        targets=LATER,
    ),
    # the first product by a number could be part of the next one; each step needs the one before
    Flaw(
        NARROW,
        kernels.polynomial,
        "128x1024 8|128; 128x2048 16|128; 128x512 32|128",
        also=(OVERLAP, TWO),
        still=(CHAINS, TWO),
    ),
    Flaw(OVERLAP, kernels.exponential, "128x16384 16384|2048; 128x8192 8192|1024; 128x32768 32768|4096"),
    # two sums in a row could be one instruction
    Flaw(CHAINS, kernels.chains, "128x256; 128x128; 128x512", CHOICE, also=(TWO,), still=(TWO,)),
    # on trn3, 2 % of what is left: one engine issues all loads
    Flaw(
        "Transposes on the Tensor engine",
        kernels.turned_products,
        "128x4096 128x128; 128x8192 128x128; 128x4096 128x256",
        (True, False),
        still=(GENERATOR,),
        targets=LATER,
    ),
    Flaw(
        "Products of float32",
        kernels.sums_of_products,
        "128x1024:f32|128x1024 128x512:f32|128x512; 128x512:f32|128x512 128x512:f32|128x512; "
        "128x2048:f32|128x2048 128x512:f32|128x512",
    ),
    Flaw(
        "Sums leave PSUM through the busiest engine",
        kernels.evictions,
        "128x4096 128x512; 128x3072 128x512; 128x5120 128x512",
        ((kernels.VECTOR,), BALANCED),
        also=(OVERLAP,),
        targets=LATER,
    ),
    Flaw(
        "GpSimd computes what Vector could",
        kernels.squared_beside,
        "128x32768; 128x49152; 128x16384",
        ((kernels.GPSIMD,), (kernels.VECTOR, kernels.VECTOR, kernels.GPSIMD)),
        targets=LATER,
    ),
    # the maximum is a chain
    Flaw(ROUNDS, kernels.buffered, "128x32768; 128x65536; 128x16384:f32", (1, 4), still=(CHAINS,)),
    # the second function waits until the first has seen all tiles
    Flaw(
        "Swaps of activation tables",
        kernels.activations,
        "128x8192 1|8; 128x16384 1|16; 128x4096 1|4",
        still=(OVERLAP,),
        targets=LATER,
    ),
    Flaw(RELOADS, kernels.normalised, "256x8192; 512x8192; 1024x8192", CHOICE),
    Flaw(
        RELOADS,
        kernels.scaled_in_a_loop,
        "4096x4096 128x4096; 2048x8192 128x8192; 4096x2048:f32 128x2048:f32",
        CHOICE,
        also=(SERIAL_LOOP,),
        still=(SERIAL_LOOP,),
    ),
    Flaw(SERIAL_LOOP, loops.exponentials_in_turn, "4096x1024; 2048x2048; 8192x512", CHOICE),
    Flaw(NARROW, kernels.exponential_of_rows, "1024x2048 16|128; 512x4096 32|128; 1024x1024:f32 8|128"),
    # each round doubles the same tile
    Flaw(
        TWO,
        kernels.multiples,
        "128x8192:f32 128x8192:f32; 128x4096:f32 128x4096:f32; 128x16384:f32 128x16384:f32",
        CHOICE,
        also=(AGAIN,),
    ),
    Flaw(TWO, kernels.softmax, "1024x2048:f32; 512x4096:f32; 1024x1024:f32", CHOICE, targets=LATER),
    Flaw(
        TWO,
        kernels.scaled_exponentials,
        "128x8192:f32 128x8:f32; 128x4096:f32 128x8:f32; 128x8192:f32 128x4:f32",
        CHOICE,
    ),
    Flaw(TWO, kernels.scaled_and_shifted, "128x8192:f32 6; 128x8192:f32 12; 128x4096:f32 8", CHOICE),
    Flaw(
        REPEATED,
        kernels.repeated_column,
        "128x16384 128x1:f32; 128x8192 128x1:f32; 128x32768 128x1:f32",
        CHOICE,
        also=(CHAINS, TWO),
        still=(CHAINS, TWO),
    ),
    Flaw(FEW, kernels.doubled_in_slices, "128x8192 32|2048; 128x8192 16|2048; 128x4096:f32 32|2048"),
    Flaw(SUMS, flawed_products.sums_of_blocks, "512x512 512x2048; 1024x256 1024x1024; 256x512 256x2048", CHOICE),
    # loads are of 32 rows, too
    Flaw(
        ROWS,
        flawed_products.sums_of_rows,
        "256x128 256x512 32|128; 256x128 256x512 64|128; 512x128 512x512 32|128",
        also=(CLOCK, NARROW, SHORT, GENERATOR),
        still=(SHORT, GENERATOR),
    ),
    # each power needs the one before
    Flaw(
        CLOCK,
        flawed_products.products_of_powers,
        "128x512 128x128 4 2; 128x256 128x128 8 4; 128x384 128x128 4 2",
        CHOICE,
        also=(OVERLAP, CHAINS),
        still=(OVERLAP, CHAINS),
        targets=LATER,
    ),
    Flaw(
        CLOCK,
        kernels.products_of_half,
        "128x128 128x512; 128x128 128x384; 128x64 128x512",
        CHOICE,
        also=(ROWS,),
        targets=LATER,
    ),
    Flaw(
        EXCHANGE,
        flawed_products.few_columns,
        "1024x32 1024x512; 2048x32 2048x512; 1024x64 1024x512",
        CHOICE,
        also=(NARROW, SHORT, GENERATOR),
        still=(CLOCK, SHORT, GENERATOR),
    ),
    Flaw(RETURNS, kernels.two_loops, "128x32768; 128x16384; 128x16384:f32", (True, False)),
    Flaw(
        WAITS,
        flawed_rounds.maxima,
        "128x262144 65536|16384; 128x196608 65536|8192; 128x131072:f32 32768|8192",
        also=(OVERLAP,),
    ),
    Flaw(ROUNDS, flawed_rounds.streamed, "32x128x2048; 12x128x4096; 64x128x1024:f32", ("in place", NEW)),
    Flaw(ROUNDS, flawed_rounds.streamed, "32x128x2048; 12x128x4096; 64x128x1024:f32", ("one result", NEW)),
    Flaw(ROUNDS, flawed_rounds.streamed, "32x128x2048; 12x128x4096; 64x128x1024:f32", ("two tiles", NEW)),
    Flaw(
        ROWS_BACK,
        flawed_rounds.scaled_by_rows,
        "1024x512 8x512; 512x2048 4x2048; 1024x1024:f32 8x1024:f32",
        (True, False),
        also=(NARROW, SHORT, GENERATOR),
        still=(SHORT, GENERATOR),
    ),
    Flaw(
        ROWS_BACK,
        flawed_rounds.shifted_in_a_loop,
        "4096x1024 1x1024; 2048x2048 1x2048; 8192x512:f32 1x512:f32",
        (True, False),
        also=(SERIAL_LOOP,),
        still=(SERIAL_LOOP, RELOADS),
    ),
    Flaw(
        AGAIN,
        flawed_repeats.sums_of_norms,
        "512x512:f32 1024x512:f32; 768x1024 512x1024; 1024x1024:f32 512x1024:f32",
        CHOICE,
        also=(RELOADS, TWO, GENERATOR, FEW),
        still=(TWO, FEW, GENERATOR),
    ),
    Flaw(
        AGAIN,
        flawed_repeats.weighted_in_a_loop,
        "4096x1024 128x1024; 2048x2048 128x2048; 8192x512:f32 128x512:f32",
        CHOICE,
        also=(SERIAL_LOOP, RELOADS, TWO),
        still=(SERIAL_LOOP,),
    ),
    Flaw(
        AGAIN,
        flawed_repeats.products_with_powers,
        "128x2048 128x512; 128x3072 128x512; 128x1024 128x512",
        CHOICE,
        also=(FEW, CLOCK, SHORT, GENERATOR),
        still=(CLOCK, SHORT, GENERATOR),
        targets=LATER,
    ),
    Flaw(
        IDLE,
        flawed_rounds.scanned,
        "128x512:f32 128x16:f32 16x512:f32 16x512:f32; "
        "128x1024:f32 128x8:f32 8x1024:f32 8x1024:f32; 128x256:f32 128x32:f32 32x256:f32 32x256:f32",
        ((kernels.VECTOR, kernels.VECTOR), (kernels.GPSIMD, kernels.GPSIMD)),
        targets=LATER,
    ),
    *[
        Flaw(  # the more transfers leave to the engines, the more GpSimd must take
            IDLE,
            flawed_rounds.polynomials,
            "128x16384:f32; 128x12288:f32; 128x18432:f32",
            ((kernels.VECTOR,), (*[kernels.GPSIMD] * shared, kernels.VECTOR)),
            still=(OVERLAP,),
            targets=(target,),
        )
        for target, shared in (("trn2", 3), ("trn3", 2))
    ],
    # the scale could be part of the exponential
    Flaw(ROUNDS, flawed_rounds.halved_streams, "32x128x4096; 16x128x8192; 24x128x2048:f32", (KEPT, NEW), also=(TWO,)),
    Flaw(
        ROUNDS,
        flawed_rounds.squares_in_a_loop,
        "8192x2048; 2048x4096; 4096x1024:f32",
        (KEPT, NEW),
        also=(SERIAL_LOOP,),
        still=(SERIAL_LOOP,),
    ),
    Flaw(
        ROUNDS,
        flawed_rounds.summed_products,
        "1024x1024 1024x1024; 512x512 512x2048; 256x1024 256x1024",
        (KEPT, NEW),
        also=(GENERATOR,),
    ),
    Flaw(
        BALANCE,
        flawed_cores.exponentials_of_blocks,
        "2048x1024 12|8 8; 1024x2048 2|4 8; 2048x512:f32 15|8 8",
        targets=LATER,
        cores=2,
    ),
    Flaw(
        BALANCE,
        flawed_cores.squares_that_meet,
        "512x2048 (1,7)|(4,4); 2048x512:f32 (20,0)|(10,10); 1024x2048 (6,2)|(4,4)",
        targets=LATER,
        cores=2,
    ),
    Flaw(
        SAME,
        kernels.scale_on_cores,
        "1024x4096 4096 128; 2048x2048 2048 128; 512x8192:f32 4096 128",
        CHOICE,
        targets=LATER,
        cores=2,
    ),
    Flaw(
        SAME,
        flawed_cores.products_on_cores,
        "512x1024 512x512; 512x512 512x512; 512x2048 512x256",
        CHOICE,
        also=(CLOCK, SHORT, GENERATOR, OVERLAP),
        still=(CLOCK, SHORT, GENERATOR, OVERLAP),
        targets=LATER,
        cores=2,
    ),
]
