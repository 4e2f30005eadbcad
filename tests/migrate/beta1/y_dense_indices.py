"""Several indices without gaps are slices

Where an index steps through a dimension without gaps, the two are one slice. Tensors of an element-wise statement that
all do so need no more; elsewhere a reshape gives the slice the shape of the index."""

# arguments: 128x1024:float32

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def halves(x):
    out = nl.ndarray((128, 8, 64), dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    i_p, i_b, i_f = nl.mgrid[0:128, 0:8, 0:64]
    t[i_p, i_b * 64 + i_f] = nl.load(x[i_p, 512 + i_b * 64 + i_f])
    t[i_p, i_b * 64 + i_f] = nisa.tensor_copy(t[i_p, i_b * 64 + i_f])
    nl.store(out[i_p, i_b, i_f], value=t[i_p, i_b * 64 + i_f])
    return out
