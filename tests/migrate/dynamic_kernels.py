"""Kernels of Beta 1 that access tensors in HBM at places which are known only when they run."""

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def one_block(x, index):
    at = nl.load(index[0:1])
    out = nl.ndarray((32, 16), x.dtype, buffer=nl.shared_hbm)
    i_p, i_f = nl.mgrid[0:32, 0:16]
    nisa.dma_copy(src=x[at, i_p, i_f], dst=out[...])
    return out


@nki.jit
def one_block_of_slices(x, index):
    at = nl.load(index[0:1])
    out = nl.ndarray((32, 16), x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(src=x[at, 0:32, 4:20], dst=out)
    return out


@nki.jit
def part_of_a_block(x, index):
    at = nl.load(index[0:1])
    out = nl.ndarray((16, 8), x.dtype, buffer=nl.shared_hbm)
    i_p, i_f = nl.mgrid[0:16, 0:8]
    nisa.dma_copy(src=x[at, 8 + i_p, 3 * i_f + 1], dst=out[i_p, i_f])
    return out


@nki.jit
def element_of_a_tile(x, index):
    found = nl.load(index[0:4].reshape((1, 4)))
    out = nl.ndarray((4, 32, 16), x.dtype, buffer=nl.shared_hbm)
    i_p, i_f = nl.mgrid[0:32, 0:16]
    for e in nl.affine_range(4):
        nl.store(out[e, i_p, i_f], nl.load(x[found[0, e], i_p, i_f]))
    return out


@nki.jit
def rows_from_a_place(x, index):
    at = nl.load(index[0:1])
    flat = x.reshape((8 * 32, 40))
    out = nl.ndarray((32, 16), x.dtype, buffer=nl.shared_hbm)
    i_p, i_f = nl.mgrid[0:32, 0:16]
    nisa.dma_copy(src=flat[at + i_p, i_f], dst=out)
    return out


@nki.jit
def rows_behind_a_place(x, index):
    at = nl.load(index[0:1])
    out = nl.ndarray((4, 16), x.dtype, buffer=nl.shared_hbm)
    i_p, i_f = nl.mgrid[0:4, 0:16]
    nisa.dma_copy(src=x[2, i_p + at, i_f], dst=out)
    return out


@nki.jit
def into_one_block(x, index):
    at = nl.load(index[0:1])
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    i_p, i_f = nl.mgrid[0:32, 0:40]
    for b in nl.sequential_range(8):
        nisa.dma_copy(src=x[b, i_p, i_f], dst=out[b, i_p, i_f])
    nisa.dma_copy(src=x[0, i_p, i_f], dst=out[at, i_p, i_f])
    return out


@nki.jit
def column_of_blocks(x, index):
    at = nl.load(index[0:1])
    out = nl.ndarray((8, 16), x.dtype, buffer=nl.shared_hbm)
    i_p, i_f = nl.mgrid[0:8, 0:16]
    nisa.dma_copy(src=x[i_p, at, i_f], dst=out)
    return out


@nki.jit
def below_a_mask(x, index):
    at = nl.load(index[0:1])
    out = nl.ndarray((32, 40), x.dtype, buffer=nl.shared_hbm)
    i_p, i_f = nl.mgrid[0:32, 0:64]
    nl.store(out[i_p, i_f], nl.load(x[at, i_p, i_f], mask=i_f < 40), mask=i_f < 40)
    return out


@nki.jit
def computed_block(x, index):
    at = nl.bitwise_and(nl.load(index[0:1]), y=3)
    out = nl.ndarray((32, 16), x.dtype, buffer=nl.shared_hbm)
    i_p, i_f = nl.mgrid[0:32, 0:16]
    nisa.dma_copy(src=x[at, i_p, i_f], dst=out[...])
    return out


@nki.jit
def block_of_a_view(x, index):
    at = nl.load(index[0:1])
    out = nl.ndarray((16, 16), x.dtype, buffer=nl.shared_hbm)
    i_p, i_f = nl.mgrid[0:16, 0:16]
    nl.store(out, nl.load(x.reshape((16, 16, 40))[at, i_p, i_f]))
    return out


@nki.jit
def rows(x, index):
    found = nl.load(index)
    flat = x.reshape((8 * 32, 40))
    out = nl.ndarray((6, 40), x.dtype, buffer=nl.shared_hbm)
    i_f = nl.arange(40)[None, :]
    nl.store(out, nl.load(flat[found, i_f]))
    return out


@nki.jit
def rows_of_a_parameter(x, index):
    found = nl.load(index)
    out = nl.ndarray((6, 16, 8), x.dtype, buffer=nl.shared_hbm)
    i, j = nl.arange(16)[None, :, None], nl.arange(8)[None, None, :]
    nl.store(out, nl.load(x[found[nl.arange(6)[:, None, None], 0], i, j + 2]))
    return out


@nki.jit
def some_rows(x, index):
    found = nl.load(index)
    out = nl.ndarray((4, 40), x.dtype, buffer=nl.shared_hbm)
    i_p, i_f = nl.arange(6)[:, None], nl.arange(40)[None, :]
    nl.store(out[i_p, i_f], nl.load(x[found[i_p, 0], 3, i_f], mask=i_p < 4), mask=i_p < 4)
    return out


@nki.jit
def into_rows(x, index):
    found = nl.load(index)
    out = nl.ndarray((8, 40), x.dtype, buffer=nl.shared_hbm)
    i_f = nl.arange(40)[None, :]
    nl.store(out, nl.load(x[0:8, 0, 0:40]))
    nl.store(out[found, i_f], nl.load(x[1, 0:6, 0:40]))
    return out
