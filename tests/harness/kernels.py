"""Kernels that the harnesses of these tests call: undecorated functions, as harnesses get them."""

from __future__ import annotations

import nki.isa as nisa
import nki.language as nl


def _loaded(tensor):
    tile = nl.ndarray(tensor.shape, dtype=tensor.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=tensor)
    return tile


def _stored(tile):
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm, name="out")
    nisa.dma_copy(dst=out, src=tile)
    return out


def add(a, b, scale=1.0):
    total = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.scalar_tensor_tensor(
        dst=total, data=_loaded(b), op0=nl.multiply, operand0=scale, op1=nl.add, operand1=_loaded(a)
    )
    return _stored(total)


def both(a, b):
    """Two results: a + b, and a copy of a."""
    total = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=total, data1=_loaded(a), data2=_loaded(b), op=nl.add)
    copy = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm, name="copy")
    nisa.dma_copy(dst=copy, src=_loaded(a))
    return _stored(total), copy


def accumulate(state, x):
    """The input ``state``, increased by ``x``."""
    total = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=total, data1=_loaded(state), data2=_loaded(x), op=nl.add)
    nisa.dma_copy(dst=state, src=total)
    return state


def cores(a):
    """The number of cores, in every element of a tensor like ``a``."""
    rows = a.shape[0] // nl.num_programs()
    first = nl.program_id(0) * rows
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm, name="out")
    tile = nl.ndarray((rows, a.shape[1]), dtype=a.dtype, buffer=nl.sbuf)
    nisa.memset(dst=tile, value=float(nl.num_programs()))
    nisa.dma_copy(dst=out[first : first + rows], src=tile)
    return out
