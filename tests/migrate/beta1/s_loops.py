"""Indices that are no view become loops

Some indices step backwards, or have more axes than a view has on chip. A loop runs through one axis then, and the
rest are slices."""

# arguments: 64x8x12:float32

import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


@nki.jit
def halves_swapped(x):
    channels, height, width = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    image = nl.load(x)
    swapped = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    c, half, i, j = nl.mgrid[0:channels, 0:2, 0 : height // 2, 0:width]
    swapped[c, half * (height // 2) + i, j] = nl.exp(image[c, (1 - half) * (height // 2) + i, j])
    nl.store(out, value=swapped)
    return out
