"""Mistakes of one function, collected while its syntax tree is checked."""

from __future__ import annotations

import ast
import functools

from nki.base.errors import NkiError
from nki.base.warning import NkiWarning, warn_at
from nki.frontend.capture import Captured, rebound
from nki.frontend.scopes import dictionaries, resolve
from nki.frontend.unreached import unreached


class Report:
    """The errors of one function, and the context that rules need of the nodes around theirs."""

    def __init__(self, captured: Captured) -> None:
        self.captured = captured
        self.errors: list[NkiError] = []
        self.nodes: list[ast.AST] = []  # of each error, the node that it is about
        self.statements: dict[ast.expr, ast.stmt] = {}  # by the expression that is their whole value
        self.dictionaries = dictionaries(captured.node)
        self.reported_names: set[str] = set()  # names that have been reported, each once
        self.warned_reads: set[str] = set()  # paths of values from outside that can change, each warned of once
        self.referenced: dict[int, object] = {}  # what its names and dotted names stand for
        self.guards: dict[ast.Raise, ast.expr] = {}  # conditions of `if`s that do nothing but raise
        self.branch_depth = 0  # conditions and functions around this node

    @functools.cached_property
    def rebound(self) -> frozenset[str]:
        """The globals that functions of the file assign to."""
        return rebound(self.captured)

    def error(self, kind: type[NkiError], node: ast.AST, message: str, fix: str) -> None:
        """Keep an error at ``node``; they are raised together at the end."""
        self.errors.append(kind(message, fix=fix, span=self.captured.span(node)))
        self.nodes.append(node)

    def judged(self) -> tuple[list[NkiError], dict[ast.AST, NkiError]]:
        """The errors about code that is sure to run, from top to bottom; and those about code that may not be reached,
        by the node that Python would run there, of several about one node the first.
        """
        if not self.errors:
            return [], {}
        later = unreached(self.captured.node, self.nodes)
        certain: list[NkiError] = []
        deferred: dict[ast.AST, NkiError] = {}
        pairs = sorted(zip(self.errors, self.nodes, strict=True), key=lambda pair: _position(pair[0]))
        for error, node in pairs:
            if node in later:
                deferred.setdefault(later[node], error)
            else:
                certain.append(error)
        return certain, deferred

    def doubtful_error(self, kind: type[NkiError], node: ast.AST, message: str, fix: str) -> None:
        """An error if ``node`` is sure to run; else a warning, for it may be there for another version of NKI only."""
        if self.branch_depth:
            self.warn(node, f"{message}, which is an error if this line is reached: {fix}")
        else:
            self.error(kind, node, message, fix)

    def warn(self, node: ast.AST, message: str, category: type[NkiWarning] = NkiWarning) -> None:
        """Warn at ``node``, now."""
        warn_at(self.captured.span(node), message, category)

    def resolve(self, node: ast.expr, bound: frozenset[str]) -> object:
        """The value of a name or dotted name before the function runs; see :func:`nki.frontend.scopes.resolve`."""
        return resolve(node, self.captured, bound)


def _position(error: NkiError) -> tuple[int, int]:
    return (error.span.line, error.span.column) if error.span is not None else (0, 0)
