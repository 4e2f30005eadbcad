"""Index expressions as patterns

`nisa.affine_select` and `nisa.iota` take the coefficients of the expression: step and count per free axis, and a step
per partition."""

# arguments: 128x128:float32

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def causal(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    i_q, i_k = nl.mgrid[0:128, 0:128]
    masked = nisa.affine_select(pred=i_q >= i_k, on_true_tile=tile, on_false_value=-9984.0)
    numbers = nisa.iota(i_q * 128 + i_k, dtype=nl.float32)
    nl.store(out, nl.add(masked, numbers))
    return out
