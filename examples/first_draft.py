"""``exp(x * weights)`` as one writes it first. ``docs/optimise.md`` lets ``nki optimise`` edit it."""

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def scaled_exp(x, weights):
    rows, columns = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, columns), dtype=x.dtype, buffer=nl.sbuf)
    for i in range(rows // 128):
        block = slice(i * 128, (i + 1) * 128)
        nisa.dma_copy(dst=tile, src=x[block])
        factors = nl.ndarray((128, columns), dtype=weights.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=factors, src=weights)
        nisa.tensor_tensor(dst=tile, data1=tile, data2=factors, op=nl.multiply)
        nisa.activation(dst=tile, op=nl.exp, data=tile)
        nisa.dma_copy(dst=out[block], src=tile)
    return out
