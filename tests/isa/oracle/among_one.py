"""What the oracles of collectives share: a group of one rank, in which nothing leaves the rank.

What several ranks exchange is in tests/collectives. ``dst`` is the first of ``dsts``.
"""

from __future__ import annotations

from typing import Any

from . import alu, numerics
from .numerics import Array
from .vectors import vector

ONE = ((0,),)


def results(arrays: list[Array]) -> Any:
    """What an oracle returns for ``arrays``: the array itself if there is one."""
    return arrays[0] if len(arrays) == 1 else tuple(arrays)


def copies(srcs: list[Array], dsts: list[Array]) -> Any:
    """The elements of each source, in row-major order, in the shape of its destination."""
    assert [src.size for src in srcs] == [dst.size for dst in dsts]
    return results([src.reshape(dst.shape).copy() for src, dst in zip(srcs, dsts, strict=True)])


def combined(op: str, one: Array, two: Array) -> Array:
    """Integers of 32 bits exactly, shorter ones saturate; else float32 with one rounding to the dtype."""
    if one.dtype.name not in numerics.INTEGERS:
        return numerics.write(alu.arithmetic(op, numerics.read(one), numerics.read(two)), one.dtype)
    exact = alu.integer(op, one, two)
    if one.itemsize == 4:
        return alu.store_pattern(exact, one.dtype)
    low, high = numerics.INTEGERS[one.dtype.name]
    return exact.clip(low, high).astype(one.dtype)


def among_one(*wants: Array, **asked: Any) -> tuple[dict[str, Any], Any]:
    """A vector of a collective with ``wants`` in its destinations, which hold zeros before."""
    want = wants[0] if len(wants) == 1 else wants
    return vector(want, dsts=[0 * each for each in wants], groups=ONE, in_hbm=True, **asked)
