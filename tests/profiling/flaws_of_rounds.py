"""Planted flaws of loops: rounds that wait for each other, work that is done again, an engine with too much of it."""

from __future__ import annotations

from typing import Any

from nki.profiling.advice import SERIAL_LOOP
from tests.profiling import flawed_kernels as kernels
from tests.profiling import flawed_repeats, flawed_rounds
from tests.profiling.flawed_rounds import KEPT, NEW
from tests.profiling.flaws import (
    AGAIN,
    ALL,
    CLOCK,
    FEW,
    GENERATOR,
    IDLE,
    NARROW,
    OVERLAP,
    RELOADS,
    ROUNDS,
    ROWS_BACK,
    SHORT,
    TWO,
    WAITS,
    Flaw,
    ending,
    shape,
)

SQUARE = (shape(1024, 1024), shape(1024, 1024))


def scan(rows: int, columns: int, states: int) -> tuple[Any, ...]:
    sizes = (rows, columns), (rows, states), (states, columns), (states, columns)
    return tuple(shape(*each, dtype="float32") for each in sizes)


FLAWS_OF_ROUNDS = [
    Flaw(
        WAITS,
        flawed_rounds.maxima,
        (
            ((shape(128, 262144), 65536), (shape(128, 262144), 16384)),
            ((shape(128, 196608), 65536), (shape(128, 196608), 8192)),
            ((shape(128, 131072, dtype="float32"), 32768), (shape(128, 131072, dtype="float32"), 8192)),
        ),
        targets=ALL,
        also=(OVERLAP,),
    ),
    *[
        Flaw(
            ROUNDS,
            flawed_rounds.streamed,
            ending(
                (form,),
                (NEW,),
                (shape(32, 128, 2048),),
                (shape(12, 128, 4096),),
                (shape(64, 128, 1024, dtype="float32"),),
            ),
            targets=ALL,
        )
        for form in ("in place", "one result", "two tiles")
    ],
    Flaw(
        ROWS_BACK,
        flawed_rounds.scaled_by_rows,
        ending(
            (True,),
            (False,),
            (shape(1024, 512), shape(8, 512)),
            (shape(512, 2048), shape(4, 2048)),
            (*(shape(rows, 1024, dtype="float32") for rows in (1024, 8)),),
        ),
        also=(NARROW, SHORT, GENERATOR),
        still=(SHORT, GENERATOR),
        targets=ALL,
    ),
    Flaw(
        ROWS_BACK,
        flawed_rounds.shifted_in_a_loop,
        ending(
            (True,),
            (False,),
            (shape(4096, 1024), shape(1, 1024)),
            (shape(2048, 2048), shape(1, 2048)),
            (*(shape(rows, 512, dtype="float32") for rows in (8192, 1)),),
        ),
        also=(SERIAL_LOOP,),
        still=(SERIAL_LOOP, RELOADS),
        targets=ALL,
    ),
    Flaw(
        AGAIN,
        flawed_repeats.sums_of_norms,
        ending(
            (False,),
            (True,),
            (shape(512, 512, dtype="float32"), shape(1024, 512, dtype="float32")),
            (shape(768, 1024), shape(512, 1024)),
            (shape(1024, 1024, dtype="float32"), shape(512, 1024, dtype="float32")),
        ),
        also=(RELOADS, TWO, GENERATOR, FEW),
        still=(TWO, FEW, GENERATOR),
        targets=ALL,
    ),
    Flaw(
        AGAIN,
        flawed_repeats.weighted_in_a_loop,
        ending(
            (False,),
            (True,),
            (shape(4096, 1024), shape(128, 1024)),
            (shape(2048, 2048), shape(128, 2048)),
            (shape(8192, 512, dtype="float32"), shape(128, 512, dtype="float32")),
        ),
        also=(SERIAL_LOOP, RELOADS, TWO),
        still=(SERIAL_LOOP,),
        targets=ALL,
    ),
    Flaw(
        AGAIN,
        flawed_repeats.products_with_powers,
        ending(
            (False,),
            (True,),
            (shape(128, 2048), shape(128, 512)),
            (shape(128, 3072), shape(128, 512)),
            (shape(128, 1024), shape(128, 512)),
        ),
        also=(FEW, CLOCK, SHORT, GENERATOR),
        still=(CLOCK, SHORT, GENERATOR),
    ),
    Flaw(
        IDLE,
        flawed_rounds.scanned,
        (
            (
                (*scan(128, 512, 16), (kernels.VECTOR, kernels.VECTOR)),
                (*scan(128, 512, 16), (kernels.GPSIMD, kernels.GPSIMD)),
            ),
            ((*scan(128, 1024, 8), (kernels.VECTOR,) * 2), (*scan(128, 1024, 8), (kernels.GPSIMD,) * 2)),
            ((*scan(128, 256, 32), (kernels.VECTOR,) * 2), (*scan(128, 256, 32), (kernels.GPSIMD,) * 2)),
        ),
    ),
    Flaw(
        IDLE,
        flawed_rounds.polynomials,
        ending(
            ((kernels.VECTOR,),),
            ((kernels.GPSIMD, kernels.GPSIMD, kernels.VECTOR),),
            (shape(128, 16384, dtype="float32"),),
            (shape(128, 12288, dtype="float32"),),
            (shape(128, 18432, dtype="float32"),),
        ),
        still=(OVERLAP,),
    ),
    Flaw(
        ROUNDS,
        flawed_rounds.halved_streams,
        ending(
            (KEPT,), (NEW,), (shape(32, 128, 4096),), (shape(16, 128, 8192),), (shape(24, 128, 2048, dtype="float32"),)
        ),
        also=(TWO,),  # the scale could be part of the exponential
        targets=ALL,
    ),
    Flaw(
        ROUNDS,
        flawed_rounds.squares_in_a_loop,
        ending((KEPT,), (NEW,), (shape(8192, 2048),), (shape(2048, 4096),), (shape(4096, 1024, dtype="float32"),)),
        also=(SERIAL_LOOP,),
        still=(SERIAL_LOOP,),
        targets=ALL,
    ),
    Flaw(
        ROUNDS,
        flawed_rounds.summed_products,
        ending((KEPT,), (NEW,), (*SQUARE,), (shape(512, 512), shape(512, 2048)), (shape(256, 1024), shape(256, 1024))),
        also=(GENERATOR,),
        targets=ALL,
    ),
]
