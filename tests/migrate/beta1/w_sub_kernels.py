"""Kernels that kernels call

A decorator on a sub-kernel goes, as the guide asks. Host code that launches the sub-kernel applies it at the call."""

# arguments: 128x512:float32

import numpy as np

import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


@nki.jit(mode="trace")
def doubled(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x) * 2.0)
    return out


@nki.jit
def quadrupled(x):
    return doubled(doubled(x))


if __name__ == "__main__":
    x = np.ones((128, 512), np.float32)
    print(doubled(x), quadrupled(x))
