"""Addresses that the allocators of NKI Beta 1 gave, as code of today's ``address=(first partition, byte)``."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import reduce
from typing import Final

from nki.language.advice.beta1.formulas import plus, times

_BANK: Final = "2048"
"""Bytes of a PSUM bank per partition."""
_NAMES: Final = ("i", "j", "k", "m", "n", "block")


def block_indices(taken: set[str], count: int) -> list[str]:
    """Names for the indices of ``count`` block dimensions."""
    free = [name for name in (*_NAMES, *(f"block_{k}" for k in range(99))) if name not in taken]
    return free[:count]


def address(call: ast.Call, full: str, indices: Sequence[str], shape: Sequence[str], itemsize: str) -> str | None:
    """The address of the tile at block ``indices``; None where the source does not tell it, and for ``auto_alloc``.

    ``full`` is the full name of the allocator, ``shape`` that of a tile.
    """
    _, memory, name = full.rsplit(".", 2)
    factors = [*shape[1:], itemsize]
    if name == "alloc" and memory == "sbuf" and len(call.args) == 1:
        index = f"({', '.join(indices)}{',' if len(indices) == 1 else ''})"
        return f"{ast.unparse(call.args[0])}({index}, {shape[0]}, {reduce(times, factors)})"
    if name != "mod_alloc":
        return None
    given = {k.arg: k.value for k in call.keywords if k.arg is not None}
    base = {key: ast.unparse(given[key]) if key in given else "0" for key in ("base_partition", "base_addr")}
    numbers = [_number(given.get(key), indices) for key in ("num_par_tiles", "num_free_tiles", "num_bank_tiles")]
    if None in numbers or call.args:
        return None
    rows, tiles, banks = map(str, numbers)
    byte = plus(base["base_addr"], reduce(times, factors, tiles))
    if memory == "psum":
        first = ast.unparse(given["base_bank"]) if "base_bank" in given else "0"
        byte = plus(times(plus(first, banks), _BANK), byte)
    return f"({plus(base['base_partition'], times(rows, shape[0]))}, {byte})"


def _number(tiles: ast.expr | None, indices: Sequence[str]) -> str | None:
    """The row-major number of ``indices``, each taken modulo its number of tiles."""
    counts = tiles.elts if isinstance(tiles, ast.Tuple | ast.List) else [tiles] if tiles is not None else []
    if not counts or not indices:
        return "0"
    if len(counts) != len(indices) or (isinstance(tiles, ast.Name | ast.Attribute) and len(indices) > 1):
        return None
    number = "0"
    for index, count in zip(indices, map(ast.unparse, counts), strict=True):
        number = plus(times(number, count), "0" if count == "1" else f"{index} % {count}")
    return number


__all__ = ["address", "block_indices"]
