"""A run of an old kernel that records what its expressions are: shapes, dtypes, memories.

The file is copied with a call of :func:`seen` around each expression of interest, and the copy runs.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any, Final, cast

import numpy as np

from nki.language.beta1_rewriting.facts import Facts, Seen
from nki.source_text.names import Names
from nki.source_text.source import Source, owner_of

_NAME = "_nki_seen"
_IMPORT = f"from nki.migrate.runs.recording import seen as {_NAME}"
_current: list[tuple[Facts, list[Any]]] = []
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
        return Seen(tuple(pending.shape), pending.dtype.name, _memory(pending.buffer))
    blocks = tuple(size for size, _ in view.blocks)
    return Seen(tuple(view.shape), view.dtype.name, _memory(value._storage.buffer), blocks)


def _memory(value: Any) -> str:
    """The memory that an object names: "sbuf", "psum" or "hbm"."""
    text = str(getattr(value, "name", value)).lower()
    return next((name for name in ("psum", "sbuf", "hbm") if name in text), "sbuf")


_QUIET: Final = (
    ast.Lambda, ast.JoinedStr, ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal, ast.Delete, ast.withitem,
    ast.comprehension, ast.arguments,
)  # fmt: skip
"""Nodes in which nothing is noted."""
_TARGETS: Final = {"targets", "target", "annotation", "decorator_list", "returns"}
"""Parts of nodes in which nothing is noted."""


class Instrument(ast.NodeVisitor):
    """Finds the expressions of functions to note the values of: ``nodes``, by number."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.nodes: list[Any] = []
        self.calls: list[tuple[Any, int]] = []
        """Expressions that :func:`seen` is put around, each with its number."""
        self.behind: list[tuple[Any, str]] = []
        """Statements, each with the calls of :func:`seen` behind it."""
        self.depth = 0

    def visit(self, node: ast.AST) -> None:
        if not isinstance(node, _QUIET):
            super().visit(node)

    def generic_visit(self, node: ast.AST) -> None:
        for name, value in ast.iter_fields(node):
            for child in (
                (cast("list[Any]", value) if isinstance(value, list) else [value]) if name not in _TARGETS else ()
            ):
                if isinstance(child, ast.AST):
                    self.visit(child)

    def _note(self, node: ast.AST) -> None:
        if self.depth:
            self.calls.append((node, len(self.nodes)))
            self.nodes.append(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self.depth += 1
        self.generic_visit(node)
        self.depth -= 1

    def visit_Call(self, node: ast.Call) -> None:
        for child in (*node.args, *node.keywords):
            self.visit(child)
        if not (isinstance(node.func, ast.Name) and node.func.id in ("super", "locals", "range")):
            self._note(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if not self.names.full(node) and isinstance(node.value, ast.Name | ast.Call | ast.Subscript):
            self.visit(node.value)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if not self.names.full(node.value).startswith("nki."):
            self.generic_visit(node)
        self._note(node)

    def visit_Name(self, node: ast.Name) -> None:
        if node.id not in self.names.bound and isinstance(node.ctx, ast.Load):
            self._note(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        self.generic_visit(node)
        self._note(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        self._assigned(node, node.targets)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._assigned(node, [node.target])

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._assigned(node, [node.target] if node.value is not None else [])

    def _assigned(self, node: ast.stmt, targets: Sequence[ast.expr]) -> None:
        """Behind an assignment, what its targets are."""
        self.generic_visit(node)
        for target in targets if self.depth else ():
            base = owner_of(target)
            if isinstance(base, ast.Name):
                self.behind.append((node, f"; {_NAME}({len(self.nodes)}, {base.id})"))
                self.nodes.append(base)


def instrumented(source: Source, names: Names) -> tuple[str, list[Any]]:
    """The source of the copy, and the nodes that its numbers stand for."""
    visitor = Instrument(names)
    visitor.visit(source.tree)
    added: list[tuple[int, int, int, str]] = []  # place; ends come first, then statements, then starts from the outside
    for node, number in visitor.calls:
        start, end = source.span(node)
        added += [(start, 2, -end, f"{_NAME}({number}, "), (end, 0, 0, ")")]
    for node, text in visitor.behind:
        added.append((source.span(node)[1], 1, 0, text))
    row = 0
    for position, line in enumerate(source.tree.body):
        future = isinstance(line, ast.ImportFrom) and line.module == "__future__"
        if future or (position == 0 and isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant)):
            row = line.end_lineno or 0
    added.append((source.offset(row + 1, 0) if row < len(source.lines) else len(source.text), 0, 0, f"{_IMPORT}\n"))
    parts: list[str] = []
    place = 0
    for offset, _, _, text in sorted(added, key=lambda each: each[:3]):
        parts += [source.text[place:offset], text]
        place = offset
    return "".join([*parts, source.text[place:]]), visitor.nodes


def lines_not_run(tree: ast.Module, facts: Facts, nodes: Sequence[Any]) -> list[tuple[int, int]]:
    """First and last of the lines, in functions that ran, without an expression that was evaluated."""
    missed: set[int] = set()
    seen_lines: set[int] = set()
    for node in nodes:
        (seen_lines if id(node) in facts.reached else missed).add(node.lineno)
    ranges: list[tuple[int, int]] = []
    for function in tree.body:
        if not isinstance(function, ast.FunctionDef):
            continue
        first, last = function.lineno, function.end_lineno or function.lineno
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

    def __init__(self, facts: Facts, nodes: list[Any]) -> None:
        self.pair = (facts, nodes)

    def __enter__(self) -> None:
        _current.append(self.pair)

    def __exit__(self, *_: object) -> None:
        _current.pop()


__all__ = ["described", "instrumented", "lines_not_run", "recording", "seen"]
