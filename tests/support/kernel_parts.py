"""Parts of the kernels of several tests."""

from __future__ import annotations

import nki.isa as nisa
import nki.language as nl


def stored(total):
    """The output that holds a tile of PSUM, in float32."""
    out = nl.ndarray(total.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray(total.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(tile, total)
    nisa.dma_copy(out, tile)
    return out
