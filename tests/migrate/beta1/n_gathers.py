"""Indices that are known at run time

A tile of indices on the first dimension of a tensor in HBM selects rows: `vector_offset`. A tile of one number, with
rows beside it, says where they begin: `scalar_offset`."""

# arguments: 128x64:float32 16x1:int32:zeros

import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


@nki.jit
def chosen(table, index):
    out = nl.ndarray((16, 64), dtype=table.dtype, buffer=nl.shared_hbm)
    i_f = nl.arange(64)[None, :]
    rows = nl.load(index)
    nl.store(out, value=nl.load(table[rows, i_f]))
    return out
