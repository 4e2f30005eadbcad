"""A kernel with two mistakes, for docs/cli.md."""

import nki
import nki.isa as nisa
import nki.language as nl

widths = [1, 2]


@nki.jit
def faulty(x):
    for _ in widths:
        nisa.tensor_tensr(dst=x, data1=x, data2=x, op=nl.add)
    return x
