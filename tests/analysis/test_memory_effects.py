"""Memory effects: two instructions share a class if, and only if, they share a byte."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from hypothesis import given, settings

from nki.analysis.memory_effects import annotate_effects, effects_of
from nki.ir.instruction import Inst
from tests.analysis.byte_model import depend, touched
from tests.passes import programs
from tests.support.interleaved_run import compiled


@settings(max_examples=15)
@given(programs.programs)
def test_effects_depend_where_bytes_do(steps):
    kernel = compiled(programs.program, *programs.INPUTS, steps, stop="order")
    annotate_effects(kernel.core, kernel.core.placement)
    effects = [(numbers(inst), touched([inst])) for inst in kernel.instructions()]
    for ((reads, writes), one), ((others, written), two) in combinations(effects, 2):
        assert bool(writes & (others | written) or written & reads) == depend(one, two)


def numbers(inst: Inst) -> tuple[set[object], set[object]]:
    """The alias classes that the instruction reads and writes, those of large memories too."""
    effects = effects_of(inst)
    large = [
        {(memory, int(number)) for memory, classes in accesses for number in np.arange(1 << 16)[classes]}
        for accesses in (effects.large_reads, effects.large_writes)
    ]
    return set(effects.reads) | large[0], set(effects.writes) | large[1]
