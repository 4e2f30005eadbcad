"""Index tiles become slices

An index of `nl.arange` or `nl.mgrid` that runs along one dimension is a slice. Its bounds keep the names of
the source."""

# arguments: 256x512:float32

import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


@nki.jit
def scale(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    i_p = nl.arange(128)[:, None]
    i_f = nl.arange(512)[None, :]
    for i in nl.affine_range(x.shape[0] // 128):
        # one tile of 128 rows
        tile = nl.load(x[i * 128 + i_p, i_f])
        nl.store(out[i * 128 + i_p, i_f], value=nl.multiply(tile, 2.0))
    return out
