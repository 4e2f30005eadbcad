"""Addresses that the allocators of NKI Beta 1 gave, as code of today's ``address=(first partition, byte)``."""

from __future__ import annotations

import ast
import sys
from collections.abc import Sequence
from functools import reduce
from typing import Final

from nki.base.element_types import DType
from nki.source_text.source import expression, one_line

_BANK: Final = "2048"
"""Bytes of a PSUM bank per partition."""
_NAMES: Final = ("i", "j", "k", "m", "n", "block")


def block_indices(taken: set[str], count: int) -> list[str]:
    """Names for the indices of ``count`` block dimensions."""
    free = [name for name in (*_NAMES, *(f"block_{k}" for k in range(99))) if name not in taken]
    return free[:count]


def address(call: ast.Call, full: str, indices: Sequence[str], shape: Sequence[str], itemsize: str) -> str | None:
    """The address of the tile at block ``indices``; None where the source does not tell it, and for ``auto_alloc``.

    ``full`` is the full name of the allocator, ``shape`` is the shape of a tile.
    """
    _, memory, name = full.rsplit(".", 2)
    size = reduce(_times, [*shape[1:], itemsize])
    if name == "alloc" and memory == "sbuf" and len(call.args) == 1:
        index = f"({', '.join(indices)}{',' if len(indices) == 1 else ''})"
        return f"{one_line(call.args[0])}({index}, {shape[0]}, {size})"
    if name != "mod_alloc":
        return None
    given = {k.arg: k.value for k in call.keywords if k.arg is not None}
    numbers = [_number(given.get(key), indices) for key in ("num_par_tiles", "num_free_tiles", "num_bank_tiles")]
    if call.args or None in numbers:
        return None
    base, byte, bank = (
        one_line(given[key]) if key in given else "0" for key in ("base_partition", "base_addr", "base_bank")
    )
    rows, tiles, banks = map(str, numbers)
    byte = _plus(byte, reduce(_times, [*shape[1:], itemsize], tiles))
    if memory == "psum":
        byte = _plus(_times(_plus(bank, banks), _BANK), byte)
    return f"({_plus(base, _times(rows, shape[0]))}, {byte})"


def _number(tiles: ast.expr | None, indices: Sequence[str]) -> str | None:
    """The row-major number of ``indices``, each taken modulo its number of tiles."""
    counts = tiles.elts if isinstance(tiles, ast.Tuple | ast.List) else [tiles] if tiles is not None else []
    if not counts or not indices:
        return "0"
    if len(counts) != len(indices) or (isinstance(tiles, ast.Name | ast.Attribute) and len(indices) > 1):
        return None
    number = "0"
    for index, count in zip(indices, map(one_line, counts), strict=True):
        number = _plus(_times(number, count), "0" if count == "1" else f"{index} % {count}")
    return number


def _plus(one: str, other: str) -> str:
    """The sum of two pieces of code, numbers behind others."""
    if one.isdigit() and other.isdigit():
        return str(int(one) + int(other))
    one, other = (other, one) if one.isdigit() else (one, other)
    return one if other == "0" else f"{one} + {other}"


def _times(one: str, other: str) -> str:
    """The product of two pieces of code, in their order."""
    if one.isdigit() and other.isdigit():
        return str(int(one) * int(other))
    if "0" in (one, other):
        return "0"
    if "1" in (one, other):
        return other if one == "1" else one
    return f"{_factor(one)} * {_factor(other)}"


def _factor(text: str) -> str:
    """Code in parentheses, unless it is a product or no operation at all."""
    node = expression(text)
    return f"({text})" if isinstance(node, ast.BinOp) and not isinstance(node.op, ast.Mult) else text


def itemsize(dtype: str) -> str:
    """The bytes of an element, as code: a number for a dtype that is named."""
    module, _, name = dtype.rpartition(".")
    known = getattr(sys.modules["nki.language"], name, None) if module.isidentifier() else None
    return str(known.itemsize) if isinstance(known, DType) else f"{dtype}.itemsize"


__all__ = ["address", "block_indices", "itemsize"]
