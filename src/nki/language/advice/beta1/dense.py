"""Index tiles that step through one dimension without gaps: ``if0 * 64 + if1`` is the slice of both."""

from __future__ import annotations

import ast
import itertools
from dataclasses import replace
from functools import reduce
from typing import Final

from nki.language.advice.beta1.formulas import Index, Variable, same, times
from nki.language.advice.beta1.scope import NISA, NL, Scope

Group = tuple[Variable, ...]
"""The variables of an index, outermost first, each of which steps over all of the next one."""
_OTHER: Final = frozenset(
    {"softmax", "rms_norm", "matmul", "transpose", "sum", "max", "min", "mean", "prod", "var", "all"}
)
_ALIKE: Final = frozenset({NISA + name for name in ("dma_copy", "tensor_copy", "activation", "reciprocal")})


def group_of(index: Index) -> Group | None:
    """The variables of an index that has no gaps between them; None for another one."""
    ordered = sorted(index.steps.items(), key=lambda pair: pair[0].axis)
    dense = ordered and all(
        outer.axis + 1 == inner.axis and same(step, times(inner_step, inner.size))
        for (outer, step), (inner, inner_step) in itertools.pairwise(ordered)
    )
    return tuple(variable for variable, _ in ordered) if dense else None


def joined(index: Index, groups: tuple[Group, ...]) -> Index:
    """An index in which each group is one variable."""
    steps, less = dict(index.steps), sum(len(group) - 1 for group in groups)
    for group in groups:
        if all(variable in steps for variable in group):
            step = [steps.pop(variable) for variable in group][-1]
            name = " ".join(variable.name for variable in group)
            steps[Variable(name, reduce(times, [v.size for v in group]), group[-1].axis)] = step
    moved = {
        replace(v, axis=v.axis + sum(len(group) - 1 for group in groups if v.axis < group[0].axis)): step
        for v, step in steps.items()
    }
    return Index(index.text, index.number, moved, index.ndim - less)


def groups_in(scope: Scope, statement: ast.stmt) -> tuple[Group, ...]:
    """The groups that stand in all tensors of a statement, which may treat each as one axis; () if there are none."""
    written = isinstance(statement, ast.Expr) or (
        isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Subscript)
    )
    found: set[frozenset[Group]] = set()
    inner = {id(part.value) for part in ast.walk(statement) if isinstance(part, ast.Subscript)}
    for part in ast.walk(statement):
        match part:
            case ast.Call(func=function, keywords=keywords):
                package, _, name = scope.full(function).rpartition(".")
                alike = scope.full(function) in _ALIKE or (package + "." == NL and name not in _OTHER)
                written &= alike and not any(k.arg == "mask" for k in keywords)
            case ast.Subscript(value=owner, slice=keys) if scope.memory(owner) is not None:
                groups = _of_subscript(scope, keys)
                written &= groups is not None
                found.add(groups or frozenset())
            case ast.Name() if id(part) not in inner:
                written &= scope.memory(part) is None
            case _:
                pass
    return tuple(sorted(next(iter(found)), key=lambda group: group[0].axis)) if written and len(found) == 1 else ()


def _of_subscript(scope: Scope, keys: ast.expr) -> frozenset[Group] | None:
    """The groups in a subscript; None where another index stands beside them."""
    groups: list[Group] = []
    alone: list[Variable] = []
    for key in keys.elts if isinstance(keys, ast.Tuple) else [keys]:
        index = None if isinstance(key, ast.Slice) else scope.index(key)
        if index is None:
            continue
        group = group_of(index) if len(index.steps) > 1 else None
        if len(index.steps) > 1 and group is None:
            return None
        groups += [group] if group is not None else []
        alone += index.steps if group is None else []
    return None if any(v in group for group in groups for v in alone) else frozenset(groups)


__all__ = ["Group", "group_of", "groups_in", "joined"]
