"""What a check has found in one function so far."""

from __future__ import annotations

import ast
import functools

from nki.base.errors import NkiError
from nki.base.warning import NkiWarning, warn_at
from nki.frontend.capture import Captured, rebound
from nki.frontend.scopes import dictionaries, resolve


class Findings:
    """The errors of one function, and what its rows need to know of the nodes above theirs."""

    def __init__(self, captured: Captured) -> None:
        self.captured = captured
        self.errors: list[NkiError] = []
        self.users: dict[ast.expr, ast.stmt] = {}  # statements around expressions that are their whole value
        self.dictionaries = dictionaries(captured.node)
        self.unknown: set[str] = set()  # names that have been reported, each once
        self.mutable: set[str] = set()  # the same for values from outside that can change
        self.values: dict[int, object] = {}  # what its names and dotted names stand for
        self.branches = 0  # how many conditions and functions stand between the function's first line and this node

    @functools.cached_property
    def rebound(self) -> frozenset[str]:
        """The globals that functions of the file assign to."""
        return rebound(self.captured)

    def report(self, error: type[NkiError], node: ast.AST, message: str, fix: str) -> None:
        """Keep an error at ``node``; they are raised together at the end."""
        self.errors.append(error(message, fix=fix, span=self.captured.span(node)))

    def doubt(self, error: type[NkiError], node: ast.AST, message: str, fix: str) -> None:
        """An error if ``node`` is sure to run; else a warning, for it may be there for another version of NKI only."""
        if self.branches:
            self.warn(node, f"{message}, which is an error if this line is reached: {fix}")
        else:
            self.report(error, node, message, fix)

    def warn(self, node: ast.AST, message: str, category: type[NkiWarning] = NkiWarning) -> None:
        """Warn at ``node``, now."""
        warn_at(self.captured.span(node), message, category)

    def resolve(self, node: ast.expr, local: frozenset[str]) -> object:
        """What a name or dotted name stands for before the function runs; see ``names.resolve``."""
        return resolve(node, self.captured, local)
