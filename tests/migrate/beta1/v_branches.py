"""Indices and masks that a branch chooses

Behind the branch, each statement that uses such a name stands once for each of its meanings."""

# arguments: 128x64:float32

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def banded(x, strict=True):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    i_p, i_f = nl.mgrid[0:128, 0:64]
    tile = nl.load(x[i_p, i_f])
    inside = i_p >= i_f
    if strict:
        inside = i_p > i_f
    causal = nisa.affine_select(pred=inside, on_true_tile=tile, on_false_value=-1.0)
    nl.store(out[i_p, i_f], value=causal)
    return out
