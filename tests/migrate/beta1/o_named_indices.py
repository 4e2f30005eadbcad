"""Indices as values

An index tile that goes to a function, or that is one of two, is a `slice`. Arithmetic with it names its `start` and
`stop`."""

# arguments: 128x512:float32

import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


def load_rows(x, i_p, i_f):
    return nl.load(x[64 + i_p, i_f])


@nki.jit
def lower_half(x, even=True):
    out = nl.ndarray((64, 256), dtype=x.dtype, buffer=nl.shared_hbm)
    i_p = nl.arange(64)[:, None]
    i_f = nl.arange(256)[None, :]
    i_x = 2 * i_f if even else i_f
    first = nl.load(x[i_p, i_x])
    nl.store(out[i_p, i_f], value=first + load_rows(x, i_p, i_f))
    return out
