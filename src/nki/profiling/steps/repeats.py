"""A sequence of names with what repeats written once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MOST = 64
"""Names of the longest part that is looked for."""


@dataclass(frozen=True, slots=True)
class Group:
    """``names``, ``count`` times one after the other."""

    count: int
    names: tuple[str, ...]

    def __str__(self) -> str:
        inner = ", ".join(self.names)
        if self.count == 1:
            return inner
        return f"{self.count} x ({inner})" if len(self.names) > 1 else f"{self.count} x {inner}"


def grouped(names: Sequence[str]) -> list[Group]:
    """``names`` as groups: at each place the part of at most :data:`MOST` names with repeats that cover most, and of
    these the shortest.
    """
    groups: list[Group] = []
    at = 0
    while at < len(names):
        count, period = 1, 1
        for length in range(1, min(MOST, (len(names) - at) // 2) + 1):
            part, times = names[at : at + length], 1
            while names[at + times * length : at + (times + 1) * length] == part:
                times += 1
            if times > 1 and times * length > count * period:
                count, period = times, length
        part = tuple(names[at : at + period])
        if count == 1 and groups and groups[-1].count == 1:
            part = (*groups.pop().names, *part)
        groups.append(Group(count, part))
        at += max(count * period, 1)
    return groups
