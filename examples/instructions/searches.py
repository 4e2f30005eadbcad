"""Searches of the GpSimd engine."""

import nki
import nki.isa as nisa
import nki.language as nl

ARGUMENTS = {
    "nonzero_with_count": ["128x512:float32"],
    "sequence_bounds": ["1x512:float32:arange"],
    "topk": ["128x64:bfloat16"],
}


@nki.jit
def nonzero_with_count(x):
    """The columns of the positive elements in rows 0, 16, 32, …, padded with -1; the last column holds the count."""
    tile = nl.load(x)
    positive = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=positive, data=tile, op0=nl.greater, operand0=0.0)
    places = nl.ndarray((x.shape[0], x.shape[1] + 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.memset(dst=places, value=0)
    nisa.nonzero_with_count(dst=places, src=positive)
    out = nl.ndarray(places.shape, dtype=nl.int32, buffer=nl.shared_hbm)
    nl.store(out, places)
    return out


@nki.jit
def sequence_bounds(x):
    """First column of each element's run of equal segment numbers, and the column behind its end."""
    tile = nl.load(x)
    segments = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=segments, data=tile, op0=nl.minimum, operand0=100.0)
    bounds = nl.ndarray((1, 2, x.shape[1]), dtype=nl.float32, buffer=nl.sbuf)
    nisa.sequence_bounds(dst=bounds, segment_ids=segments)
    out = nl.ndarray(bounds.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    nl.store(out, bounds)
    return out


@nki.jit
def topk(x):
    """The 32 largest of 1024 numbers in each group of 16 partitions, and their positions."""
    tile = nl.load(x)
    values = nl.ndarray((x.shape[0], 32), dtype=x.dtype, buffer=nl.sbuf)
    places = nl.ndarray((x.shape[0], 32), dtype=nl.uint32, buffer=nl.sbuf)
    nisa.topk(val_dst=values, idx_dst=places, src=tile, n=1024)
    # 32 results fill two columns of a group's 16 partitions.
    out = nl.ndarray((x.shape[0], 2), dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, values[:, 0:2])
    index = nl.ndarray((x.shape[0], 2), dtype=nl.uint32, buffer=nl.shared_hbm)
    nl.store(index, places[:, 0:2])
    return out, index
