"""Index tiles that step through one dimension without gaps: ``if0 * 64 + if1`` is the slice of both."""

from __future__ import annotations

import itertools

from nki.language.beta1_rewriting.indices import Index, Variable
from nki.source_text.polynomial import Polynomial

Group = tuple[Variable, ...]
"""The variables of an index, outermost first: each one steps over all of the next one."""


def group_of(index: Index) -> Group | None:
    """The variables of an index that has no gaps between them; None for another one."""
    ordered = sorted(index.steps, key=lambda pair: pair[0].axis)
    dense = ordered and all(
        outer.axis + 1 == inner.axis and not (step - inner_step * inner.size).terms
        for (outer, step), (inner, inner_step) in itertools.pairwise(ordered)
    )
    return tuple(variable for variable, _ in ordered) if dense else None


def joined(index: Index, groups: tuple[Group, ...]) -> Index:
    """An index in which each group is one variable."""
    steps = dict(index.steps)
    moves: list[tuple[int, int]] = []
    for group in groups:
        size = Polynomial.of(1)
        for variable in group:
            size = size * variable.size
        moves.append((group[0].axis, len(group) - 1))
        if all(variable in steps for variable in group):
            step = [steps.pop(variable) for variable in group][-1]
            steps[Variable(size, group[-1].axis, group[-1].ndim)] = step
    new: list[tuple[Variable, Polynomial]] = []
    for variable, step in steps.items():
        axis = variable.axis + sum(more for first, more in moves if variable.axis < first)
        new.append((Variable(variable.size, axis, variable.ndim - sum(more for _, more in moves)), step))
    return Index(index.base, tuple(new), index.name)


__all__ = ["Group", "group_of", "joined"]
