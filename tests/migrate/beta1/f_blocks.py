"""Block dimensions become lists

Dimensions before `nl.par_dim` were a list of tiles that the compiler kept. They are a Python list now."""

# arguments: 512x128:float32

import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


@nki.jit
def reversed_blocks(x):
    blocks = x.shape[0] // 128
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tiles = nl.ndarray((blocks, nl.par_dim(128), 128), dtype=x.dtype, buffer=nl.sbuf)
    i_p, i_f = nl.mgrid[0:128, 0:128]
    for i in nl.affine_range(blocks):
        tiles[i, i_p, i_f] = nl.load(x[i * 128 + i_p, i_f])
    for i in nl.affine_range(blocks):
        nl.store(out[i * 128 + i_p, i_f], value=tiles[blocks - 1 - i])
    return out
