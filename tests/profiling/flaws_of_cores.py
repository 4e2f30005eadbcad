"""Planted flaws of launches on two cores: one waits for the other, or both do all of the work."""

from __future__ import annotations

from tests.profiling import flawed_cores
from tests.profiling import flawed_kernels as kernels
from tests.profiling.flaws import CLOCK, GENERATOR, OVERLAP, SHORT, Flaw, ending, shape

BALANCE = "One core waits for the other"
SAME = "All cores do the same work"
FLOATS = shape(2048, 512, dtype="float32")
FLAWS_OF_CORES = [
    Flaw(
        BALANCE,
        flawed_cores.exponentials_of_blocks,
        (
            ((shape(2048, 1024), 12, 8), (shape(2048, 1024), 8, 8)),
            ((shape(1024, 2048), 2, 8), (shape(1024, 2048), 4, 8)),
            ((FLOATS, 15, 8), (FLOATS, 8, 8)),
        ),
        cores=2,
    ),
    Flaw(
        BALANCE,
        flawed_cores.squares_that_meet,
        (
            ((shape(512, 2048), (1, 7)), (shape(512, 2048), (4, 4))),
            ((FLOATS, (20, 0)), (FLOATS, (10, 10))),
            ((shape(1024, 2048), (6, 2)), (shape(1024, 2048), (4, 4))),
        ),
        cores=2,
    ),
    Flaw(
        SAME,
        kernels.scale_on_cores,
        ending(
            (False,),
            (True,),
            (shape(1024, 4096), 4096, 128),
            (shape(2048, 2048), 2048, 128),
            (shape(512, 8192, dtype="float32"), 4096, 128),
        ),
        cores=2,
    ),
    Flaw(
        SAME,
        flawed_cores.products_on_cores,
        ending(
            (False,),
            (True,),
            (shape(512, 1024), shape(512, 512)),
            (shape(512, 512), shape(512, 512)),
            (shape(512, 2048), shape(512, 256)),
        ),
        also=(CLOCK, SHORT, GENERATOR, OVERLAP),
        still=(CLOCK, SHORT, GENERATOR, OVERLAP),
        cores=2,
    ),
]
