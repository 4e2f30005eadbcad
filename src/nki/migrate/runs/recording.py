"""A run of an old kernel that records what its expressions are: shapes, dtypes, memories.

The file is copied with a call of :func:`seen` around each expression of interest, and the copy runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import libcst as cst
import numpy as np
from libcst.metadata import MetadataWrapper, PositionProvider

from nki.migrate.facts import Facts, Seen, buffer_name
from nki.migrate.syntax.code import statement
from nki.migrate.syntax.names import Names

_NAME = "_nki_seen"
_IMPORT = f"from nki.migrate.runs.recording import seen as {_NAME}"
_current: list[tuple[Facts, list[cst.CSTNode]]] = []
"""The recording that runs, if one does: the facts, and the nodes by number."""


def seen(number: int, value: Any) -> Any:
    """``value``, noted for expression ``number`` of the recording that runs."""
    if _current:
        facts, nodes = _current[-1]
        facts.reached.add(id(nodes[number]))
        note = described(value)
        if note is not None:
            facts.note(nodes[number], note)
    return value


def described(value: Any) -> Seen | str | None:
    """The facts about a value; None for values that tell nothing."""
    if value is None:
        return "none"
    if isinstance(value, bool | int | float | np.number):
        return "number"
    if isinstance(value, list | tuple | dict):
        return type(cast("object", value)).__name__
    if type(value).__name__ == "Index" and type(value).__module__.startswith("nki.beta1"):
        axes = [axis - value.ndim for axis, size in enumerate(value.shape) if size > 1]
        return f"index {axes[0]} of {value.ndim}" if len(axes) == 1 else "index"
    if type(value).__name__ != "Tensor" or not type(value).__module__.startswith("nki.beta1"):
        return None
    pending, view = value.pending, value._view
    if pending is not None:
        return Seen(tuple(pending.shape), pending.dtype.name, buffer_name(pending.buffer))
    blocks = tuple(size for size, _ in view.blocks)
    return Seen(tuple(view.shape), view.dtype.name, buffer_name(value._storage.buffer), blocks)


class Instrument(cst.CSTTransformer):
    """Puts :func:`seen` around the expressions of functions; ``nodes`` lists them by number."""

    def __init__(self, names: Names) -> None:
        super().__init__()
        self.names = names
        self.nodes: list[cst.CSTNode] = []
        self.depth = 0
        self.quiet = 0
        """Number of nodes around the present one in which nothing is noted: callees, annotations, decorators."""

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:  # noqa: ARG002
        self.depth += 1
        return True

    def leave_FunctionDef(self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef) -> cst.FunctionDef:
        self.depth -= 1
        return updated_node.with_changes(params=original_node.params, decorators=original_node.decorators)

    def visit_FunctionDef_name(self, node: cst.FunctionDef) -> None:  # noqa: ARG002
        self.quiet += 1

    def leave_FunctionDef_name(self, node: cst.FunctionDef) -> None:  # noqa: ARG002
        self.quiet -= 1

    def visit_FunctionDef_params(self, node: cst.FunctionDef) -> None:  # noqa: ARG002
        self.quiet += 1

    def leave_FunctionDef_params(self, node: cst.FunctionDef) -> None:  # noqa: ARG002
        self.quiet -= 1

    def visit_FunctionDef_decorators(self, node: cst.FunctionDef) -> None:  # noqa: ARG002
        self.quiet += 1

    def leave_FunctionDef_decorators(self, node: cst.FunctionDef) -> None:  # noqa: ARG002
        self.quiet -= 1

    def _noted(self, original: cst.BaseExpression, updated: cst.BaseExpression) -> cst.BaseExpression:
        if not self.depth or self.quiet:
            return updated
        self.nodes.append(original)
        value = cst.Arg(cst.Integer(str(len(self.nodes) - 1)))
        return cst.Call(cst.Name(_NAME), [value, cst.Arg(updated)])

    def visit_Call_func(self, node: cst.Call) -> None:  # noqa: ARG002
        self.quiet += 1

    def leave_Call_func(self, node: cst.Call) -> None:  # noqa: ARG002
        self.quiet -= 1

    def visit_Attribute(self, node: cst.Attribute) -> bool:
        return not self.names.full(node) and isinstance(node.value, cst.Name | cst.Call | cst.Subscript)

    def visit_Attribute_attr(self, node: cst.Attribute) -> None:  # noqa: ARG002
        self.quiet += 1

    def leave_Attribute_attr(self, node: cst.Attribute) -> None:  # noqa: ARG002
        self.quiet -= 1

    def visit_Subscript(self, node: cst.Subscript) -> bool:
        full = self.names.full(node.value)
        return not full.startswith("nki.")

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        if original_node.value in self.names.bound or original_node.value in ("None", "True", "False"):
            return updated_node
        return self._noted(original_node, updated_node)

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        if isinstance(updated_node.func, cst.Name) and updated_node.func.value in ("super", "locals", "range"):
            return updated_node
        return self._noted(original_node, updated_node)

    def leave_Subscript(self, original_node: cst.Subscript, updated_node: cst.Subscript) -> cst.BaseExpression:
        return self._noted(original_node, updated_node)

    def leave_BinaryOperation(
        self, original_node: cst.BinaryOperation, updated_node: cst.BinaryOperation
    ) -> cst.BaseExpression:
        return self._noted(original_node, updated_node)

    # Targets, names of keywords and the like are no expressions with a value.

    def visit_Arg_keyword(self, node: cst.Arg) -> None:  # noqa: ARG002
        self.quiet += 1

    def leave_Arg_keyword(self, node: cst.Arg) -> None:  # noqa: ARG002
        self.quiet -= 1

    def visit_AugAssign_target(self, node: cst.AugAssign) -> None:  # noqa: ARG002
        self.quiet += 1

    def leave_AugAssign_target(self, node: cst.AugAssign) -> None:  # noqa: ARG002
        self.quiet -= 1

    def visit_AssignTarget(self, node: cst.AssignTarget) -> bool:  # noqa: ARG002
        return False

    def visit_AnnAssign_target(self, node: cst.AnnAssign) -> None:  # noqa: ARG002
        self.quiet += 1

    def leave_AnnAssign_target(self, node: cst.AnnAssign) -> None:  # noqa: ARG002
        self.quiet -= 1

    def visit_CompFor(self, node: cst.CompFor) -> bool:  # noqa: ARG002
        return False

    def visit_For_target(self, node: cst.For) -> None:  # noqa: ARG002
        self.quiet += 1

    def leave_For_target(self, node: cst.For) -> None:  # noqa: ARG002
        self.quiet -= 1

    def visit_Annotation(self, node: cst.Annotation) -> bool:  # noqa: ARG002
        return False

    def visit_Lambda(self, node: cst.Lambda) -> bool:  # noqa: ARG002
        return False

    def visit_FormattedString(self, node: cst.FormattedString) -> bool:  # noqa: ARG002
        return False

    def visit_Import(self, node: cst.Import) -> bool:  # noqa: ARG002
        return False

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:  # noqa: ARG002
        return False

    def visit_Global(self, node: cst.Global) -> bool:  # noqa: ARG002
        return False

    def visit_Nonlocal(self, node: cst.Nonlocal) -> bool:  # noqa: ARG002
        return False

    def visit_Del(self, node: cst.Del) -> bool:  # noqa: ARG002
        return False

    def visit_With(self, node: cst.With) -> bool:  # noqa: ARG002
        return True

    def visit_WithItem(self, node: cst.WithItem) -> bool:  # noqa: ARG002
        return False

    def visit_AsName(self, node: cst.AsName) -> bool:  # noqa: ARG002
        return False

    def visit_ExceptHandler(self, node: cst.ExceptHandler) -> bool:  # noqa: ARG002
        return True

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> Any:
        """Behind an assignment, what its target is."""
        if not self.depth:
            return updated_node
        after: list[cst.BaseStatement] = []
        for small in original_node.body:
            targets: list[cst.BaseExpression] = []
            if isinstance(small, cst.Assign):
                targets = [each.target for each in small.targets]
            elif isinstance(small, cst.AugAssign | cst.AnnAssign) and getattr(small, "value", None) is not None:
                targets = [small.target]
            for target in targets:
                base = target
                while isinstance(base, cst.Subscript):
                    base = base.value
                if isinstance(base, cst.Name):
                    self.nodes.append(base)
                    after.append(statement(f"{_NAME}({len(self.nodes) - 1}, {base.value})"))
        return cst.FlattenSentinel([updated_node, *after]) if after else updated_node


def instrumented(module: cst.Module, names: Names) -> tuple[str, list[cst.CSTNode]]:
    """The source of the copy, and the nodes that its numbers stand for."""
    transformer = Instrument(names)
    new = module.visit(transformer)
    body = list(new.body)
    place = 0
    for position, line in enumerate(body):
        text = cst.Module([cast(Any, line)]).code
        if position == 0 and isinstance(line, cst.SimpleStatementLine) and isinstance(line.body[0], cst.Expr):
            place = 1
        if "__future__" in text:
            place = position + 1
    body.insert(place, cast(Any, statement(_IMPORT)))
    return new.with_changes(body=body).code, transformer.nodes


def lines_not_run(module: cst.Module, facts: Facts, nodes: Sequence[cst.CSTNode]) -> list[tuple[int, int]]:
    """First and last of the lines, in functions that ran, of which no expression was evaluated."""
    positions: Any = MetadataWrapper(module, unsafe_skip_copy=True).resolve(PositionProvider)
    missed: set[int] = set()
    seen_lines: set[int] = set()
    for node in nodes:
        line = positions[node].start.line
        (seen_lines if id(node) in facts.reached else missed).add(line)
    ranges: list[tuple[int, int]] = []
    for function in module.body:
        if not isinstance(function, cst.FunctionDef):
            continue
        first, last = positions[function].start.line, positions[function].end.line
        if not any(first <= line <= last for line in seen_lines):
            continue
        for line in sorted(one for one in missed - seen_lines if first <= one <= last):
            between = range(ranges[-1][1] + 1, line) if ranges else None
            if between is not None and ranges[-1][0] >= first and not any(one in seen_lines for one in between):
                ranges[-1] = (ranges[-1][0], line)
            else:
                ranges.append((line, line))
    return ranges


class recording:  # noqa: N801  # reads as a word
    """Context manager: calls of :func:`seen` go to ``facts``."""

    def __init__(self, facts: Facts, nodes: list[cst.CSTNode]) -> None:
        self.pair = (facts, nodes)

    def __enter__(self) -> None:
        _current.append(self.pair)

    def __exit__(self, *_: object) -> None:
        _current.pop()


__all__ = ["described", "instrumented", "lines_not_run", "recording", "seen"]
