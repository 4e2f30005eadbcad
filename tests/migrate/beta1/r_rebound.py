"""A name that is bound anew

A result that gets the name of its own operand goes to a new tile first. A column beside a tile is an operand of
`nisa.tensor_scalar`; a product that is added in the next line accumulates in PSUM."""

# arguments: 128x256:float32

import numpy as np

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def centred_product(x):
    out = nl.ndarray((128, 256), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    mean = nisa.tensor_reduce(np.add, tile, axis=[1]) * (1.0 / 256)
    tile = nisa.tensor_tensor(tile, mean, np.subtract)
    total = nl.zeros((nl.par_dim(128), 256), dtype=nl.float32, buffer=nl.psum)
    for k in nl.affine_range(2):
        product = nl.matmul(tile[:, k * 128 : (k + 1) * 128], tile, transpose_x=True)
        total += product
    nl.store(out, value=total)
    return out
