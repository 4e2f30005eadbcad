"""The tiles of small random programs, the operations on them, and their parts."""

from __future__ import annotations

import nki.language as nl
from tests.support.kernel_parts import copied

GROUPS = 4
VIEWS = ("whole", "left", "right", "shifted", "unshifted", "even", "odd", "blocks")
OPERATORS = (nl.add, nl.subtract, nl.multiply, nl.maximum, nl.minimum, nl.greater, nl.logical_xor, nl.divide)
FUNCTIONS = (nl.exp, nl.tanh, nl.gelu, nl.silu, nl.relu, nl.sign, nl.copy, nl.abs, nl.square)


class Step(nl.NKIObject):
    """One operation: the tiles of its result and of its operands, the part of them, and numbers."""

    kind: str
    to: int
    one: int
    two: int
    view: str
    source_view: str
    number: int


class Memory(nl.NKIObject):
    """What operations use: tiles [p, w], columns [p, 1], numbers by group [p, 4], inputs, memory in HBM, indices."""

    tiles: list
    columns: list
    groups: list
    inputs: list
    kept: object
    index: object
    places: object
    other: int


def width_of(tile):
    return tile.shape[1]


def part(tile, view):
    """A part of a tile that is a half of it, or all of it."""
    half = width_of(tile) // 2
    if view == "left":
        return tile[:, 0:half]
    if view == "right":
        return tile[:, half : 2 * half]
    if view == "shifted":
        return tile[:, 4 : 4 + half]
    if view == "unshifted":
        return tile[:, 3 : 3 + half]
    if view == "even":
        return tile[:, 0 : 2 * half : 2]
    if view == "odd":
        return tile[:, 1 : 2 * half : 2]
    if view == "blocks":
        return tile[:, 0:half] if half % 4 else tile.ap([[width_of(tile), tile.shape[0]], [8, half // 4], [1, 4]])
    return tile


def by_groups(tile):
    """The elements of a tile as [p, groups, c]."""
    width = width_of(tile)
    return tile.ap([[width, tile.shape[0]], [width // GROUPS, GROUPS], [1, width // GROUPS]])


def each(numbers, count):
    """A number of each group, so often: [p, groups, count]."""
    return numbers.ap([[GROUPS, numbers.shape[0]], [1, GROUPS], [0, count]])


def few(tile):
    """As many columns of a tile as there are partitions at most."""
    return min(width_of(tile), 128)


def is_whole(view):
    return view == "whole"


def operator_of(step):
    return OPERATORS[step.number % len(OPERATORS)]


def function_of(step):
    return FUNCTIONS[step.number % len(FUNCTIONS)]


def same_dtype(a, b):
    """``b``, or a copy of it in the dtype of ``a``."""
    return b if a.dtype == b.dtype else copied(b, a.dtype)
