"""Routines that differ in sizes and distances alone share one body, which takes these as arguments.

A kernel whose tiles grow from round to round has a routine for each size. LLVM needs up to 50 ms for one of them, and a
fraction of a millisecond for a function that calls a shared body with the numbers of its size. Every instruction of the
body is that of the routines, so the bits are the same.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_LINE: Final = re.compile(
    r'^  (?:%"[^"]*" = (?:add i64 %"[^"]*", |getelementptr i8, ptr %"[^"]*", i64 )(?P<offset>-?\d+)'
    r'|%"[^"]*" = (?:mul|icmp \w+) i64 %"[^"]*", (?P<size>-?\d+)'
    r'|(?P<call>call void @"(?!llvm)[^"]*"\(.*\)))$',
    re.MULTILINE,
)
"""A line of LLVM IR with integers that may be values of any kind: its last operand, or arguments of a call."""
_SHORT: Final = 128
"""Bounds of loops and distances below this one stay in a body. LLVM unrolls short loops if it knows how often they run:
scans, sums in groups and copies of short rows would be 4 to 17 % slower.
"""
_ARGUMENT: Final = re.compile(r"(?<=[(\s])i64 (-?\d+)(?=[,)])")
_HEAD: Final = re.compile(r'define void @"(?P<name>[^"]*)"\((?P<arguments>[^\n]*)\)\n')
FEWEST: Final = 3
"""Routines that are worth a body that knows no sizes."""


@dataclass(frozen=True, slots=True)
class RoutineText:
    """The LLVM IR of a routine, cut at the integers that may differ between routines with the same body."""

    name: str
    arguments: str
    pieces: tuple[str, ...]
    numbers: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> RoutineText:
        """The routine whose definition is ``text``."""
        head = _HEAD.search(text)
        assert head is not None, "a routine is a function without attributes"
        pieces: list[str] = []
        numbers: list[str] = []
        at = head.end()
        for line in _LINE.finditer(text, at):
            spans = [line.span(line.lastgroup or "")]
            if line["call"] is not None:
                spans = [found.span(1) for found in _ARGUMENT.finditer(text, *line.span("call"))]
            elif line["size"] is not None and abs(int(line["size"])) < _SHORT:
                continue
            for start, end in spans:
                pieces.append(text[at:start])
                numbers.append(text[start:end])
                at = end
        return cls(head["name"], head["arguments"], (*pieces, text[at:]), tuple(numbers))

    def with_numbers(self, name: str, arguments: str, numbers: Sequence[str], attributes: str = "") -> str:
        """A function with this body and other numbers, or names of arguments in their place."""
        parts = [part for pair in zip(self.pieces, numbers, strict=False) for part in pair]
        return f'define void @"{name}"({arguments}){attributes}\n{"".join(parts)}{self.pieces[-1]}'

    def __str__(self) -> str:
        return self.with_numbers(self.name, self.arguments, self.numbers)


def definitions(routines: Sequence[RoutineText]) -> list[str]:
    """The functions that define ``routines``, with shared bodies."""
    groups: dict[tuple[str, ...], list[RoutineText]] = {}
    for routine in routines:
        groups.setdefault(routine.pieces, []).append(routine)
    functions: list[str] = []
    for group in groups.values():
        if len(group) < FEWEST:
            functions += map(str, group)
        else:
            functions += _shared(group)
    return functions


def _shared(group: Sequence[RoutineText]) -> list[str]:
    """One body for ``group``, and a function for each routine that calls it."""
    first = group[0]
    columns = list(zip(*(routine.numbers for routine in group), strict=True))
    names: dict[tuple[str, ...], str] = {}
    numbers: list[str] = []
    for column in columns:  # numbers that differ alike are one argument
        same = len(set(column)) == 1
        numbers.append(column[0] if same else names.setdefault(column, f'%"size.{len(names)}"'))
    body = f"{first.name}_body"
    arguments = ", ".join([first.arguments, *(f"i64 {name}" for name in names.values())])
    functions = [first.with_numbers(body, arguments, numbers, " noinline")]
    for index, routine in enumerate(group):
        values = ", ".join([routine.arguments, *(f"i64 {column[index]}" for column in names)])
        functions.append(
            f'define void @"{routine.name}"({routine.arguments})\n'
            f'{{\n  tail call void @"{body}"({values})\n  ret void\n}}\n'
        )
    return functions
