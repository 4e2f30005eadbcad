"""Registers of the engines' random number generators, and their contents before a kernel sets them.

Each lane of GpSimd has one XORWOW generator of six words, each lane of the Vector engine has four of them (NKI
reference, ``nki.isa.rand_set_state``; Trainium3 architecture guide). Hardware starts from an undocumented state. Here
the Vector engine starts as if ``nisa.set_rng_seed`` had been called with 0, and GpSimd in a state of its own, so that a
kernel which never sets a seed is repeatable too.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from nki.base.element_types import uint32
from nki.ir.types import Buffer, Tensor
from nki.target.memory_spaces import LANES, VECTOR_RNG_WORDS

WORDS: Final = 6
"""Words of one generator: x, y, z, w, v and d of Marsaglia's XORWOW, in this order."""
GOLDEN: Final = 0x9E3779B9
"""2**32 divided by the golden ratio: multiples of it are spread evenly."""
MIXING: Final = ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1))
"""MurmurHash3's final steps: shift right and exclusive-or, then multiply."""


def initial(tensor: Tensor) -> NDArray[np.uint32] | None:
    """Initial contents of the generators' registers; None if ``tensor`` is something else.

    Word w of lane p is mix((24 p + w + 1) * GOLDEN) on the Vector engine. GpSimd's follow as if of more lanes.
    """
    if tensor.buffer is not Buffer.register or tensor.dtype is not uint32:
        return None
    first = 1 if tensor.free_size == VECTOR_RNG_WORDS else 1 + LANES * VECTOR_RNG_WORDS
    numbers: NDArray[Any] = np.arange(first, first + tensor.elements, dtype=np.uint32) * np.uint32(GOLDEN)
    for shift, factor in MIXING:
        numbers = (numbers ^ (numbers >> np.uint32(shift))) * np.uint32(factor)
    return numbers.reshape(tensor.shape)
