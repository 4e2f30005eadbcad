"""Titles of profiles side by side: each says what tells it from the others."""

from __future__ import annotations

import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.profiling.text import side_by_side
from nki.profiling.titles import titles
from tests.profiling import flawed_kernels

X, Y = (nki.ShapeDtype((128, columns), np.float32) for columns in (64, 128))


def scaled(shape=X, size=64, target="trn2"):
    return nki.profile(flawed_kernels.scale, target=target)(shape, size)


@nki.jit
def parts(x):
    """Each core copies its part of ``x``."""
    rows = x.shape[0] // nl.num_programs()
    first = nl.program_id(0) * rows
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out[first : first + rows], src=x[first : first + rows])
    return out


def on_cores(cores):
    return nki.profile(parts[cores], target="trn2")(X)


@pytest.mark.parametrize(
    ("profiles", "wanted"),
    [
        (lambda: [scaled(), scaled(target="trn1")], ["scale on trn2", "scale on trn1"]),
        (lambda: [scaled(), scaled(Y)], ["scale(x=128x64:float32) on trn2", "scale(x=128x128:float32) on trn2"]),
        (
            lambda: [scaled(nki.ShapeDtype((128, 64), dtype)) for dtype in ("bfloat16", np.dtype("f4"))],
            ["scale(x=128x64:bfloat16) on trn2", "scale(x=128x64:float32) on trn2"],
        ),
        (lambda: [scaled(), scaled(size=32)], ["scale(width=64) on trn2", "scale(width=32) on trn2"]),
        (lambda: [scaled(), scaled()], ["scale on trn2", "scale on trn2 (2)"]),
        (lambda: [on_cores(1), on_cores(2)], ["parts[1] on trn2", "parts[2] on trn2"]),
        (lambda: [scaled(), scaled().what_if(semaphore_ns=0)], ["scale on trn2", "semaphore_ns=0"]),
        (
            lambda: [scaled().what_if(launch=0.5), scaled().what_if(launch=0.5).what_if(semaphore_ns=0)],
            ["launch=0.5", "launch=0.5 semaphore_ns=0"],
        ),
    ],
)
def test_titles(profiles, wanted):
    made = profiles()
    assert titles(made) == wanted
    head = str(made[0].compare(made[1])).splitlines()[0]
    assert all(title in head for title in wanted) and all(title in side_by_side(made) for title in wanted)
