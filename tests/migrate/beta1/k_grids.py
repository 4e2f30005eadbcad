"""Grids are loops

Programs of a grid were independent; one core runs them one after the other. The grid is a parameter, and
launches pass it."""

# arguments: 256x1024:float32

import numpy as np

import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


@nki.jit
def copied(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows = nl.program_id(0) * 128 + nl.arange(128)[:, None]
    columns = nl.program_id(1) * 512 + nl.arange(512)[None, :]
    nl.store(out[rows, columns], value=nl.load(x[rows, columns]))
    return out


if __name__ == "__main__":
    copied[2, 2](np.ones((256, 1024), np.float32))
