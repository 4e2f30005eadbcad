"""Sums of products

`+=` of a product into PSUM is a `nisa.nc_matmul` that accumulates; the first one overwrites, so nothing
has to be cleared."""

# arguments: 256x64:bfloat16 256x512:bfloat16

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def product(a, b):
    out = nl.ndarray((a.shape[1], b.shape[1]), dtype=nl.float32, buffer=nl.shared_hbm)
    total = nl.zeros((a.shape[1], b.shape[1]), dtype=nl.float32, buffer=nl.psum)
    for k in nl.affine_range(a.shape[0] // 128):
        left = nl.load(a[nl.ds(k * 128, 128), :])
        right = nl.load(b[nl.ds(k * 128, 128), :])
        total += nl.matmul(left, right, transpose_x=True)
    nl.store(out, nisa.tensor_copy(total))
    return out
