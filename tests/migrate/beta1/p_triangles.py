"""Masks that are no rectangles

`nisa.affine_select` writes the condition into a tile of truth values, and a predicated copy leaves the rest as it is.
A condition of `nisa.affine_select` itself becomes its pattern, offset and channel multiplier."""

# arguments: 128x128:float32

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def lower_triangle(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    i_p, i_f = nl.mgrid[0:128, 0:128]
    tile = nl.load(x[i_p, i_f])
    lower = nl.zeros((128, 128), dtype=x.dtype, buffer=nl.sbuf)
    lower[i_p, i_f] = nl.exp(tile, mask=i_p >= i_f)
    causal = nisa.affine_select(pred=i_p >= i_f, on_true_tile=lower, on_false_value=-1.0)
    nl.store(out[i_p, i_f], value=causal)
    return out
