"""nki.isa.set_rng_seed (Vector Engine).

The reference does not say how a seed becomes a state. Here word n of all lanes' words, counted from 1, is the finaliser
of MurmurHash3 (Appleby, public domain) applied to n times 0x9E3779B9 plus the finalised seed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import numerics
from .numerics import Array
from .vectors import f32, i32, vector


def finalise(h: int) -> int:
    """fmix32 of MurmurHash3."""
    h ^= h >> 16
    h = h * 0x85EBCA6B % 2**32
    h ^= h >> 13
    h = h * 0xC2B2AE35 % 2**32
    return h ^ (h >> 16)


def oracle(dst: Array, *, src_seeds: Array, **_: Any) -> Array:
    """All words of all lanes, from the seed's bits. Reference: nki.isa.set_rng_seed."""
    seed = finalise(int(numerics.bits(src_seeds).reshape(())))
    words = [finalise((n * 0x9E3779B9 + seed) % 2**32) for n in range(1, dst.size + 1)]
    return np.array(words, np.uint32).reshape(dst.shape)


def _states(seed: int) -> Array:
    """A second way to the same words: in arrays of 64-bit numbers, without their upper halves."""
    words = (np.arange(1, 128 * 24 + 1, dtype=np.uint64) * 0x9E3779B9 + seed) & 0xFFFFFFFF
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        words = ((words ^ (words >> np.uint64(shift))) * np.uint64(factor)) & np.uint64(0xFFFFFFFF)
    return words.astype(np.uint32).reshape(128, 24)


_before = np.zeros((128, 24), np.uint32)
VECTORS = [
    # The finaliser makes 0 of 0 and 0x514E28B7 of 1.
    vector(_states(0), src_seeds=np.zeros((1, 1), np.uint32), states=_before),
    vector(_states(0x514E28B7), src_seeds=i32(1), states=_before),
    vector(_states(0x514E28B7), src_seeds=f32(2.0**-149), states=_before),
]
