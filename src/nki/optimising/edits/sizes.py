"""Edits that give tiles other sizes: numbers in the source that may be sizes of tiles, larger or smaller."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from nki.optimising.edit import Edit
from nki.optimising.kernel_text import KernelText

FACTORS = (2, 4, 8)
PARTITIONS = 128
LEAST_SIZE = 16
"""The smallest number in the source that may be the size of a tile."""


class Size(NamedTuple):
    """A number of the source: how a title begins that says its new value, the number, and its places."""

    title: str
    number: int
    places: list[ast.Constant]

    def edit(self, text: KernelText, number: int) -> Edit:
        """The edit that makes it another ``number``."""
        return Edit(
            f"{self.title} {number}",
            self.places[0].lineno,
            tuple(text.replacing(each, str(number)) for each in self.places),
        )


def larger_tiles(text: KernelText) -> list[Edit]:
    """Sizes two, four and eight times as large."""
    return [each.edit(text, each.number * factor) for each in _sizes(text) for factor in FACTORS]


def smaller_tiles(text: KernelText) -> list[Edit]:
    """Sizes a half and a quarter as large."""
    return [
        each.edit(text, each.number // part)
        for each in _sizes(text) for part in FACTORS[:2] if each.number % part == 0 and each.number // part >= 4
    ]  # fmt: skip


def _sizes(text: KernelText) -> Iterator[Size]:
    """Constants with a name, and equal numbers in a function of the kernel."""
    used = {node.id for function in text.functions for node in ast.walk(function) if isinstance(node, ast.Name)}
    named: set[int] = set()
    for node in ast.walk(text.source.tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=int(size)) as constant):
                named.add(id(constant))
                if name in used and size >= LEAST_SIZE:
                    yield Size(f"{name} =", size, [constant])
            case _:
                pass
    for function in text.functions:
        yield from _equal_numbers(function, named)


def _equal_numbers(function: ast.FunctionDef, named: set[int]) -> Iterator[Size]:
    equal: defaultdict[int, list[ast.Constant]] = defaultdict(list)
    defaults = {id(each) for each in (*function.args.defaults, *function.args.kw_defaults)}
    for node in ast.walk(function):
        match node:
            case ast.Constant(value=int(size)) if size >= LEAST_SIZE and id(node) not in named | defaults:
                equal[size].append(node)
            case _:
                pass
    first = {id(node.elts[0]) for node in ast.walk(function) if isinstance(node, ast.Tuple) and node.elts}
    for size, places in sorted(equal.items()):
        if size != PARTITIONS:
            yield Size(f"{size} becomes", size, places)
        rest = [each for each in places if id(each) not in first]
        if 0 < len(rest) < len(places):
            yield Size(f"{size} (but for partitions) becomes", size, rest)


__all__ = ["larger_tiles", "smaller_tiles"]
