"""``t.rearrange``: dimensions by name, split, reordered and merged in one step."""

from __future__ import annotations

import math
import operator
from typing import Any, cast

from nki.base.errors import ViewError, keep_report
from nki.ir.types import Access
from nki.language.shaping import flatten_dims, permute, reshape_dim

Groups = list[tuple[str, ...]]


def rearrange(t: Access, src_pattern: Any, dst_pattern: Any, fixed_sizes: Any = None) -> Access:
    """The dimensions that ``src_pattern`` names, in the places that ``dst_pattern`` gives them.

    An entry is a name, or a tuple of names: a dimension that is split (source) or made by merging (destination). Of a
    dimension that is split, all sizes but one are in ``fixed_sizes``.
    """
    source, wanted = _groups(t, "source", src_pattern), _groups(t, "destination", dst_pattern)
    before, after = [n for group in source for n in group], [n for group in wanted for n in group]
    if len(source) != t.ndim:
        raise ViewError(
            f"rearrange of '{t.name}' {t.shape}: the source pattern has {len(source)} entries for {t.ndim} dimensions",
            fix="write one entry per dimension; a tuple of names splits a dimension",
        )
    if sorted(before) != sorted(after):
        differing = sorted(set(before) ^ set(after))
        raise ViewError(
            f"rearrange of '{t.name}' {t.shape}: {', '.join(map(repr, differing))} in only one of the two patterns",
            fix="name every dimension once on each side; t.broadcast repeats and t.select removes dimensions",
        )
    sizes = _fixed(t, fixed_sizes, before)
    seen = t
    for dim in reversed(range(t.ndim)):
        split = _split(t, dim, source[dim], sizes)
        if len(split) > 1:
            seen = reshape_dim(seen, dim, split)
    seen = permute(seen, tuple(before.index(name) for name in after))
    last = len(after)
    for group in reversed(wanted):
        first = last - len(group)
        if len(group) > 1:
            seen = flatten_dims(seen, first, last - 1)
        last = first
    return seen


def _groups(t: Access, side: str, pattern: Any) -> Groups:
    """The names of each dimension of a pattern, after checking that there are names only, each of them once."""
    entries = cast("tuple[Any, ...]", pattern) if isinstance(pattern, tuple | list) else None
    groups: list[Any] = [
        (entry,) if isinstance(entry, str) else tuple(cast("tuple[Any, ...]", entry))
        for entry in entries or ()
        if isinstance(entry, str | tuple | list)
    ]
    names: list[Any] = [name for group in groups for name in group]
    if not entries or len(groups) < len(entries) or not all(groups) or not all(isinstance(n, str) for n in names):
        raise ViewError(
            f"rearrange of '{t.name}' {t.shape}: {side} pattern {pattern!r} is no tuple of names and tuples of names",
            fix="write, for example, ('p', ('h', 'w')) and ('p', 'w', 'h')",
        )
    if len(set(names)) < len(names):
        raise ViewError(
            f"rearrange of '{t.name}' {t.shape}: a name occurs twice in the {side} pattern {pattern!r}",
            fix="give every dimension a name of its own",
        )
    return groups


def _fixed(t: Access, given: Any, names: list[str]) -> dict[str, int]:
    items = cast("dict[Any, Any]", given or {})
    try:
        sizes = {name: operator.index(size) for name, size in items.items()}
    except (AttributeError, TypeError) as misfit:
        keep_report(misfit)
        sizes = {"": 0}
    if any(name not in names or size < 1 for name, size in sizes.items()):
        raise ViewError(
            f"rearrange of '{t.name}' {t.shape}: fixed_sizes={given!r} does not give sizes of dimensions {names}",
            fix="pass a dict of names that occur in the patterns and their sizes, at least 1",
        )
    return sizes


def _split(t: Access, dim: int, group: tuple[str, ...], sizes: dict[str, int]) -> tuple[int, ...]:
    """The sizes of the parts of dimension ``dim``."""
    size = t.shape[dim]
    unknown = [name for name in group if name not in sizes]
    product = math.prod(sizes[name] for name in group if name in sizes)
    if len(unknown) > 1:
        raise ViewError(
            f"rearrange of '{t.name}' {t.shape}: dimension {dim} is split into {group}, and the sizes of "
            f"{', '.join(map(repr, unknown))} are unknown",
            fix="give all of them but one in fixed_sizes",
        )
    if size % product or (not unknown and product != size):
        raise ViewError(
            f"rearrange of '{t.name}' {t.shape}: dimension {dim} has {size} elements; {group} with fixed_sizes={sizes} "
            f"takes {'a multiple of ' if unknown else ''}{product}",
            fix=f"choose sizes with the product {size}",
        )
    return tuple(sizes.get(name, size // product) for name in group)


__all__ = ["rearrange"]
