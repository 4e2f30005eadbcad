"""Kernels and references for sweeps, which workers import from this file."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def scaled(x, factor=2.0, parts=1):
    """x * factor, in ``parts`` pieces of its columns."""
    width = x.shape[1] // parts
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for part in range(parts):
        tile = nl.ndarray((x.shape[0], width), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[:, nl.ds(part * width, width)])
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=factor)
        nisa.dma_copy(dst=out[:, nl.ds(part * width, width)], src=tile)
    return out


@nki.jit
def unwritten(x):
    """A kernel that reads a tile before it is written."""
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def raising(x, factor=2.0):
    names = {}
    return names[factor]


@nki.jit
def counted(x, rounds):
    """x + the number in ``rounds``, by as many additions."""
    tile = nl.load(x)
    count = nl.load(rounds)
    register = nisa.register_alloc()
    nisa.register_load(register, count)

    def body(_):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)

    nl.fori_loop(0, register, body)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, tile)
    return out


def reference(x, factor=2.0):
    return x * factor


def wrong_from_3(x, factor):
    return x * min(factor, 3.0)


def killing_once(x, factor):
    """Kills the process that computes factor 3, the first time."""
    marker = Path(os.environ["SWEEP_MARKER"])
    if factor == 3.0 and not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return x * factor


def killing(x, factor):
    if factor == 3.0:
        os.kill(os.getpid(), signal.SIGKILL)
    return x * factor


def wrong_where_wide(x, factor=2.0, parts=1):
    """Wrong for large numbers where there are four parts."""
    return np.where((np.abs(x) > 100) & (parts == 4), 0.0, x * factor)
