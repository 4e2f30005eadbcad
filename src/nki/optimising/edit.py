"""An edit of a kernel's file: what it does in words, and the parts of the text that it replaces."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Splice = tuple[int, int, str]
"""Start and end in the text, and the text that takes the place of what lies between."""


@dataclass(frozen=True, slots=True)
class Edit:
    """``title`` says what the edit does, with the user's names; ``line``: the one that it is about, from 1."""

    title: str
    line: int
    splices: tuple[Splice, ...]

    def applied(self, text: str) -> str:
        """``text`` after the edit."""
        parts: list[str] = []
        place = 0
        for start, end, new in sorted(self.splices):
            parts += [text[place:start], new]
            place = end
        return "".join([*parts, text[place:]])

    def meets(self, other: Edit) -> bool:
        """Test if two edits touch the same part of the text."""
        return any(_meet(one, two) for one in self.splices for two in other.splices)


def _meet(one: Splice, two: Splice) -> bool:
    if one[0] == one[1] or two[0] == two[1]:
        return one[0] == two[0] and one[1] == two[1]  # two insertions at one place
    return one[0] < two[1] and two[0] < one[1]


def together(edits: Sequence[Edit], title: str) -> Edit | None:
    """Edits of one kind as one edit, without the ones that meet an earlier one; None for fewer than two."""
    chosen: list[Edit] = []
    for edit in edits:
        if not any(edit.meets(other) for other in chosen):
            chosen.append(edit)
    if len(chosen) < 2:
        return None
    return Edit(title, min(edit.line for edit in chosen), tuple(splice for edit in chosen for splice in edit.splices))


def with_all(edits: Iterable[Edit], title: str) -> list[Edit]:
    """The edits, each change once; where several go together, all of them as one edit with this ``title`` in front."""
    found = list(edits)
    shared = together(found, title)
    return unique([*([shared] if shared else []), *found])


def unique(edits: Iterable[Edit]) -> list[Edit]:
    """The edits, each change of the text once."""
    return list({tuple(sorted(edit.splices)): edit for edit in reversed(list(edits))}.values())[::-1]


__all__ = ["Edit", "Splice", "together", "unique", "with_all"]
