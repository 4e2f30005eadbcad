"""The compiler's options go

Sub-kernels are plain functions, imports stand at the top, and what steered Beta 1's compiler has no counterpart."""

# arguments: 128x512:float32

import neuronxcc.nki as nki
import neuronxcc.nki.compiler as ncc
import neuronxcc.nki.language.constants as constants


@nki.jit(mode="trace")
def squared(tile):
    import neuronxcc.nki.language as nl

    return nl.square(tile)


@ncc.skip_middle_end_transformations
@nki.jit(mode="torchxla", platform_target="trn2")
def squares(x):
    import neuronxcc.nki.language as nl

    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    assert x.shape[0] <= constants.tile_size.pmax
    tile = nl.ndarray((nl.par_dim(128), 512), dtype=x.dtype, buffer=ncc.sbuf.auto_alloc())
    tile[...] = nl.load(x)
    nl.store(out, squared(tile))
    return out
