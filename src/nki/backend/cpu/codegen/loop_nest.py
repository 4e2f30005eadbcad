"""Loop nests over several access patterns at once.

Operands of one instruction agree on how many elements a partition has, not on how they are arranged: (8, 64) and (512,)
may meet. :func:`nest` splits all patterns at common boundaries, so that one counter per loop drives all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from nki.backend.cpu.loop_ir.nodes import Dims


@dataclass(frozen=True, slots=True)
class Loop:
    """A counter and, for each pattern, by how many elements it moves a step; None where that is known at run time."""

    count: int
    steps: tuple[int | None, ...]


def boundaries(patterns: Sequence[Dims], extra: int = 1) -> list[int] | None:
    """Sizes of the innermost blocks at which some pattern turns, ascending; None if they do not nest.

    ``extra`` is one more boundary to respect.
    """
    found = {1, extra}
    for dims in patterns:
        size = 1
        for _, count in reversed(dims):
            size *= count
            found.add(size)
    ordered = sorted(found)
    return ordered if all(b % a == 0 for a, b in pairwise(ordered)) else None


def split(dims: Dims, cuts: Sequence[int]) -> list[int]:
    """The step of ``dims`` in each block between neighbouring ``cuts``, outermost first; 0 beyond its size."""
    steps: list[int] = []
    for low in reversed(cuts[:-1]):
        size, step = 1, 0
        for stride, count in reversed(dims):
            if size <= low < size * count:
                step = stride * (low // size)
                break
            size *= count
        steps.append(step)
    return steps


def nest(patterns: Sequence[Dims], cuts: Sequence[int]) -> list[Loop]:
    """The loops over the elements of a partition, outermost first."""
    columns = [split(dims, cuts) for dims in patterns]
    counts = [high // low for low, high in pairwise(cuts)][::-1]
    return [Loop(count, tuple(c[i] for c in columns)) for i, count in enumerate(counts)]


def joined(loops: Sequence[Loop]) -> list[Loop]:
    """The loops without those of one round, neighbours joined where every pattern runs straight on."""
    result: list[Loop] = []
    for loop in loops:
        if loop.count == 1:
            continue
        if result and _continues(result[-1], loop):
            result[-1] = Loop(result[-1].count * loop.count, loop.steps)
        else:
            result.append(loop)
    return result


def _continues(outer: Loop, inner: Loop) -> bool:
    return all(
        o is not None and i is not None and o == i * inner.count for o, i in zip(outer.steps, inner.steps, strict=True)
    )
