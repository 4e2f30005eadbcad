"""Loops

Beta 1 traced the body of a loop once, so that a number which the body changes begins each round anew. Today loops are
Python's. `nl.loop_reduce` copies in the first round and combines in the others."""

# arguments: 128x512:float32

import numpy as np

import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


@nki.jit
def scaled_sum(x):
    out = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.shared_hbm)
    total = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.sbuf)
    factor = 1.0
    for k in nl.affine_range(4):
        factor = factor * 0.5
        tile = nl.load(x[0:128, k * 128 : (k + 1) * 128]) * factor
        total[...] = nl.loop_reduce(tile, op=np.add, loop_indices=[k])
    nl.store(out, value=total)
    return out
