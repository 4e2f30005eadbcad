"""Marsaglia's XORWOW generator (Xorshift RNGs, 2003) on 64-bit integers cut to 32, and how the engines use it here.

Chosen where the reference is silent, which names the generator and the number of its words for GpSimd and for the
Vector Engine of gen4, and nothing else: the words are the paper's x, y, z, w, v, d in this order; a lane with several
generators takes their numbers in turn, all of them going the same number of steps; older Vector Engines have the same.
"""

from __future__ import annotations

import numpy as np

from .numerics import Array

WORD = 2**32


def step(state: list[Array]) -> tuple[Array, list[Array]]:
    """The next numbers, and the words after them. No shift leaves 64 bits."""
    x, y, z, w, v, d = state
    t = x ^ (x >> 2)
    new = (v ^ (v << 4) ^ t ^ (t << 1)) % WORD
    count = (d + 362437) % WORD
    return (count + new) % WORD, [y, z, w, v, new, count]


def draw(states: Array, count: int) -> tuple[Array, Array]:
    """``count`` uint32 numbers for each lane, (lanes, count), and the states after."""
    lanes, words = states.shape
    generators = states.astype(np.int64).reshape(lanes, words // 6, 6)
    state = [generators[:, :, word] for word in range(6)]
    numbers: list[Array] = []
    for _ in range(0, count, words // 6):
        number, state = step(state)
        numbers.append(number)
    after = np.stack(state, axis=-1).reshape(states.shape).astype(np.uint32)
    return np.concatenate(numbers, axis=1)[:, :count].astype(np.uint32), after


# The seeds of Marsaglia's paper, and the numbers that follow from them.
PUBLISHED = [123456789, 362436069, 521288629, 88675123, 5783321, 6615241]
NUMBERS = [246875399, 3690007200, 1264581005, 3906711041, 1866187943]


def four(first: list[int]) -> list[int]:
    """A Vector Engine's lane: one generator with words of its own, three that have no other bits than their counters.

    Their numbers are therefore 362437, then twice that, and so on.
    """
    return [*first, *[0] * 18]


def starts(generators: int) -> Array:
    """States with known numbers, for one lane."""
    return np.array([PUBLISHED if generators == 1 else four(PUBLISHED)], np.uint32)


def ends(generators: int, steps: int) -> Array:
    """The states of :func:`starts` after some steps, written out: old values of v move down, counters go up."""
    new = [(NUMBERS[n] - PUBLISHED[5] - (n + 1) * 362437) % WORD for n in range(steps)]
    values = [*PUBLISHED[:5], *new]
    lane = [*values[-5:], (PUBLISHED[5] + steps * 362437) % WORD]
    for _ in range(generators - 1):
        lane += [0, 0, 0, 0, 0, steps * 362437]
    return np.array([lane], np.uint32)
