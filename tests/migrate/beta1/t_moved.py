"""Places on chip that are known at run time

A tile with one number in an index is the `scalar_offset` of an access pattern."""

# arguments: 128x64:float32 1x4:int32:arange

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def windows(x, starts):
    out = nl.ndarray((128, 32), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    offsets = nl.load(starts)
    i_p, i_f = nl.mgrid[0:128, 0:8]
    result = nl.ndarray((128, 32), dtype=x.dtype, buffer=nl.sbuf)
    for k in nl.affine_range(4):
        result[i_p, k * 8 + i_f] = nisa.tensor_copy_dynamic_src(tile[i_p, offsets[0, k] + i_f])
    nl.store(out, value=result)
    return out
