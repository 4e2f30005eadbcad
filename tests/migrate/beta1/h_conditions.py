"""Masks of loop indices are conditions

A mask without an index tile left out an instruction. That is an `if`."""

# arguments: 128x128:float32

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def doubled_often(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    for i in nl.static_range(4):
        tile[...] = nisa.tensor_scalar(tile, nl.multiply, 2.0, mask=i >= 2)
    nl.store(out, tile)
    return out
