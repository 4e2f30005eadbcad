"""Stores below masks that are no rectangles

Such a store writes again what the mask leaves out; so it has to be written before."""

# arguments: 64x64:float32

import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


@nki.jit
def stored_triangle(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    i_p, i_f = nl.mgrid[0:64, 0:64]
    tile = nl.load(x[i_p, i_f])
    nl.store(out[i_p, i_f], value=nl.exp(tile))
    nl.store(out[i_p, i_f], value=tile, mask=i_p >= i_f)
    return out
