"""Outputs among the arguments are returned

A kernel may change an argument if it returns it, so one line is added. Callers stay as they are."""

# arguments: 128x512:float32 128x512:float32

import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


@nki.jit(kernel_return=False)
def halved(x, out):
    tile = nl.load(x)
    nl.store(out, value=tile * 0.5)
