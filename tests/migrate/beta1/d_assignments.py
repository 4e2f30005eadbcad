"""Assignments into tensors are instructions

A number is a `nisa.memset`, a load a `nisa.dma_copy`; other functions compute in the dtype of the destination."""

# arguments: 128x256:float32

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def padded(x):
    out = nl.ndarray((128, 512), dtype=nl.bfloat16, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    tile[...] = 4
    tile[0:128, 0:256] = nl.load(x)
    narrow = nl.ndarray((128, 512), dtype=nl.bfloat16, buffer=nl.sbuf)
    narrow[...] = nl.exp(tile)
    narrow[0:128, 256:512] = nisa.tensor_copy(narrow[0:128, 0:256])
    nl.store(out, narrow)
    return out
