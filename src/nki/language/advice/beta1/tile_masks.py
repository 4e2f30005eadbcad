"""Masks of values, ``mask=x > 0``, which no release of NKI has: the choice is made on chip, element by element."""

from __future__ import annotations

import ast
import copy
from typing import Any

from nki.language.advice.beta1.parsed import expression
from nki.language.advice.beta1.rewriting import Rewriter
from nki.language.advice.beta1.scope import NL, Scope


def advise_tile_mask(scope: Scope, statement: ast.stmt) -> str:
    """The fix for a statement with a call whose mask compares tensors; "" for any other statement."""
    found = [n for n in ast.walk(statement) if isinstance(n, ast.Call) and (mask := _mask(scope, n)) is not None]
    if len(found) != 1 or hasattr(statement, "body"):
        return ""
    [call] = found
    mask: Any = _mask(scope, call)
    full = scope.full(call.func)
    source = next(iter(call.args), None) or next((k.value for k in call.keywords if k.arg in ("src", "dst")), None)
    bare = ast.Call(call.func, call.args, [k for k in call.keywords if k.arg not in ("mask", "other")])
    rest = next((k.value for k in call.keywords if k.arg == "other"), ast.Constant(0.0))
    if full == NL + "store" and isinstance(statement, ast.Expr):
        return _stored(scope, bare, mask, ast.unparse(source) if source is not None else "")
    chosen = _Chooser(scope, {})
    match statement:
        case ast.Assign(targets=[ast.Name(id=name) as target]) if statement.value is call and source is not None:
            chosen.renamed[ast.unparse(source)] = name
            lines = [
                ast.unparse(ast.Assign([target], bare, lineno=0)),
                f"{name} = {chosen.where(mask, ast.Name(name), rest)}",
            ]
            text = "\n".join(f"        {line}" for line in lines)
            return f"a mask holds no values: choose on chip, element by element: write `\n{text}`"
        case _:
            return ""


def _mask(scope: Scope, call: ast.Call) -> ast.expr | None:
    """The mask of a call, if it compares tensors or is a tensor; None for others."""
    node = next((k.value for k in call.keywords if k.arg == "mask"), None)
    if node is None or scope.mask(node) is not None or scope.memory(node) is None:
        return None
    return node


def _stored(scope: Scope, bare: ast.Call, mask: ast.expr, to: str) -> str:
    value = bare.args[1] if len(bare.args) > 1 else next((k.value for k in bare.keywords if k.arg == "value"), None)
    if value is None or not to:
        return ""
    new = expression(_Chooser(scope, {}).where(mask, value, ast.Constant(0.0)))
    args = [new if arg is value else arg for arg in bare.args]
    keywords = [ast.keyword(k.arg, new if k.value is value else k.value) for k in bare.keywords]
    nl = scope.alias("nki.language", "nl")
    code = ast.unparse(ast.Call(bare.func, args, keywords))
    return (
        f"a mask holds no values: choose on chip what is stored: write `{code}`; "
        f"`{nl}.load({to})` in place of 0.0 keeps what `{to}` holds"
    )


class _Chooser:
    """Writes masks as functions of tiles; ``renamed`` says which tile holds a tensor, by its text."""

    def __init__(self, scope: Scope, renamed: dict[str, str]) -> None:
        self._scope = scope
        self._rewriter = Rewriter(scope)
        self.renamed = renamed

    def where(self, mask: ast.expr, value: ast.expr, rest: ast.expr) -> str:
        """``nl.where(mask, value, rest)``."""
        parts = (self._on_chip(mask), *(self._rewriter.visit(copy.deepcopy(each)) for each in (value, rest)))
        return f"{self._rewriter.nl}.where({', '.join(map(ast.unparse, parts))})"

    def _on_chip(self, node: ast.expr) -> ast.expr:
        """A mask whose tensors are in tiles."""
        text = ast.unparse(node)
        if text in self.renamed:
            return ast.Name(self.renamed[text])
        nl = self._rewriter.nl
        match node:
            case ast.Compare(left=left, ops=[_], comparators=[right]):
                new = ast.Compare(left, node.ops, [right])
                called: Any = self._rewriter.visit(new)
                if isinstance(called, ast.Call):
                    called.args = [self._on_chip(left), self._on_chip(right)]
                return called
            case ast.BinOp(left=left, op=ast.BitAnd() | ast.BitOr() as op, right=right):
                name = "logical_and" if isinstance(op, ast.BitAnd) else "logical_or"
                function = ast.Attribute(ast.Name(nl), name)
                return ast.Call(function, [self._on_chip(left), self._on_chip(right)], [])
            case ast.Name() | ast.Subscript() if (memory := self._scope.memory(node)) and "hbm" in memory.buffer:
                return ast.Call(ast.Attribute(ast.Name(nl), "load"), [node], [])
            case _:
                return self._rewriter.visit(copy.deepcopy(node))


__all__ = ["advise_tile_mask"]
