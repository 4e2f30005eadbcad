"""Mistakes of one function, collected while its syntax tree is checked."""

from __future__ import annotations

import ast
import functools

from nki.base.errors import NkiError
from nki.base.warning import NkiPortabilityWarning, NkiWarning, Warned, warn_at
from nki.frontend.capture import Captured, rebound
from nki.frontend.scopes import dictionaries, resolve
from nki.frontend.unreached import unreached


class Report:
    """The errors of one function, and the context that rules need of the nodes around theirs."""

    def __init__(self, captured: Captured, *, kernel: bool = False) -> None:
        self.captured = captured
        self.kernel = kernel
        self.errors: list[NkiError] = []
        self.nodes: list[ast.AST] = []  # of each error, the node that it is about
        self.warned: list[tuple[ast.AST, Warned]] = []  # what older releases refuse, or newer ones
        self.warned_when_reached: dict[ast.AST, list[Warned]] = {}  # by the node that Python would run there
        self.statements: dict[ast.expr, ast.stmt] = {}  # by the expression that is their whole value
        self.dictionaries = dictionaries(captured.node)
        self.reported_names: set[str] = set()  # names that have been reported, each once
        self.warned_reads: set[str] = set()  # paths of values from outside that can change, each warned of once
        self.referenced: dict[int, object] = {}  # what its names and dotted names stand for
        self.guards: dict[ast.Raise, ast.expr] = {}  # conditions of `if`s that do nothing but raise
        self.own_yields: frozenset[ast.AST] | None = None  # what makes the function itself a generator
        self.branch_depth = 0  # conditions and functions around this node

    @functools.cached_property
    def rebound(self) -> frozenset[str]:
        """The globals that functions of the file assign to."""
        return rebound(self.captured)

    def error(self, kind: type[NkiError], node: ast.AST, message: str, fix: str) -> bool:
        """Keep an error at ``node``; they are raised together at the end.

        True if it is none: a newer release takes this, and ``node`` runs as Python runs it.
        """
        python = self.captured.dialect.python
        if kind not in python.accepted:
            self.certain_error(kind, node, message, fix)
        elif python.warns:
            text = portable_text(kind, message, fix, python.portable_since[kind])
            self.warn_if_reached(node, text, NkiPortabilityWarning)
        return kind in python.accepted

    def certain_error(self, kind: type[NkiError], node: ast.AST, message: str, fix: str) -> None:
        """Keep an error that is one in every release."""
        self.errors.append(kind(message, fix=fix, span=self.captured.span(node)))
        self.nodes.append(node)

    def judged(self) -> tuple[list[NkiError], dict[ast.AST, NkiError]]:
        """The errors about code that is sure to run, from top to bottom; and those about code that may not be reached,
        by the node that Python would run there, of several about one node the first.

        Gives the warnings about code that is sure to run; ``warned_when_reached`` holds the others.
        """
        if not self.errors and not self.warned:
            return [], {}
        later = unreached(self.captured.node, [*self.nodes, *[node for node, _ in self.warned]])
        certain: list[NkiError] = []
        deferred: dict[ast.AST, NkiError] = {}
        pairs = sorted(zip(self.errors, self.nodes, strict=True), key=lambda pair: _position(pair[0]))
        for error, node in pairs:
            if node in later:
                deferred.setdefault(later[node], error)
            else:
                certain.append(error)
        for node, warned in self.warned:
            if node in later:
                self.warned_when_reached.setdefault(later[node], []).append(warned)
            else:
                warn_at(warned.span, warned.message, warned.category)
        return certain, deferred

    def doubtful_error(self, kind: type[NkiError], node: ast.AST, message: str, fix: str) -> None:
        """An error if ``node`` is sure to run; else a warning, for it may be there for another version of NKI only."""
        if self.branch_depth:
            self.warn(node, f"{message}, which is an error if this line is reached: {fix}")
        else:
            self.error(kind, node, message, fix)

    def error_if_reached(self, kind: type[NkiError], node: ast.AST, message: str, fix: str) -> None:
        """:meth:`doubtful_error` about what Python itself would run."""
        if self.branch_depth:
            self.doubtful_error(kind, node, message, fix)
        self.certain_error(kind, node, message, fix)

    def warn(self, node: ast.AST, message: str, category: type[NkiWarning] = NkiWarning, since: str = "") -> None:
        """Warn at ``node``, now; ``since``: not under the rules of a release before this one."""
        warn_at(self.captured.span(node), message, category, since)

    def warn_if_reached(self, node: ast.AST, message: str, category: type[NkiWarning]) -> None:
        """Warn at ``node`` once the function is judged, or when it is reached, if it may not be."""
        self.warned.append((node, Warned(self.captured.span(node), message, category)))

    def resolve(self, node: ast.expr, bound: frozenset[str]) -> object:
        """The value of a name or dotted name before the function runs; see :func:`nki.frontend.scopes.resolve`."""
        return resolve(node, self.captured, bound)


def portable_text(kind: type[NkiError], message: str, fix: str, since: str) -> str:
    """The warning about what releases before ``since`` refuse with the error ``kind``."""
    return f"[{kind.code}] {message}; NKI {since} is the first release that takes this. For older ones, {fix}"


def _position(error: NkiError) -> tuple[int, int]:
    return (error.span.line, error.span.column) if error.span is not None else (0, 0)
