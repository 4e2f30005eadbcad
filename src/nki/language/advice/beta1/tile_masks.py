"""Masks of values, ``mask=x > 0``, which no release of NKI has: the choice is made on chip, element by element."""

from __future__ import annotations

import ast

from nki.language.advice.beta1.reading import Reading
from nki.language.beta1_rewriting.expressions import Expressions
from nki.language.beta1_rewriting.types import arguments
from nki.source_text.source import code_of


def advise_tile_mask(reading: Reading, statement: ast.stmt) -> str:
    """The fix for a statement with a call below a mask that compares tensors; "" for any other statement."""
    new = reading.nodes[id(statement)]
    found = [n for n in ast.walk(new) if isinstance(n, ast.Call) and _mask(reading, n) is not None]
    if len(found) != 1 or hasattr(statement, "body"):
        return ""
    [call] = found
    mask = _mask(reading, call)
    full = reading.names.full(call.func)
    named = arguments(call, ("dst", "value") if full == "nki.language.store" else ("src",))
    source = named.get("dst") or named.get("src")
    if mask is None or source is None:
        return ""
    if full == "nki.language.store" and isinstance(new, ast.Expr) and "value" in named:
        chosen = _Chooser(reading, {}).where(mask, named["value"], "0.0")
        to = code_of(source)
        return reading.renamed(
            f"a mask holds no values: choose on chip what is stored: write `nl.store({to}, {chosen})`; "
            f"`nl.load({to})` in place of 0.0 keeps what `{to}` holds"
        )
    match new:
        case ast.Assign(targets=[ast.Name(id=name) as target], value=value) if value is call:
            rest = code_of(named["other"]) if "other" in named else "0.0"
            chosen = _Chooser(reading, {code_of(source): name})
            kept = [code_of(arg) for arg in (*call.args, *(k for k in call.keywords if k.arg not in ("mask", "other")))]
            text = (
                f"        {name} = {code_of(call.func)}({', '.join(kept)})\n"
                f"        {name} = {chosen.where(mask, target, rest)}"
            )
            return reading.renamed(f"a mask holds no values: choose on chip, element by element: write `\n{text}`")
        case _:
            return ""


def _mask(reading: Reading, call: ast.Call) -> ast.expr | None:
    """The mask of a call, if it compares tensors or is a tensor; None for others."""
    node = next((k.value for k in call.keywords if k.arg == "mask"), None)
    if node is None or reading.types.value(node) is not None or reading.types.tensor(node) is None:
        return None
    return node


class _Chooser(Expressions):
    """Writes masks as functions of tiles; ``held`` says which tile holds a tensor, by its text."""

    def __init__(self, reading: Reading, held: dict[str, str]) -> None:
        super().__init__(reading.types, reading.report, set())
        self.held = held

    def where(self, mask: ast.expr, value: ast.expr, rest: str) -> str:
        """``nl.where(mask, value, rest)``."""
        text = value.id if isinstance(value, ast.Name) else self.code(value)
        return f"nl.where({self.code(mask)}, {text}, {rest})"

    def code(self, node: ast.expr) -> str:
        text = code_of(node)
        if text in self.held:
            return self.held[text]
        match node:
            case ast.BinOp(left=left, op=ast.BitAnd() | ast.BitOr() as op, right=right):
                name = "logical_and" if isinstance(op, ast.BitAnd) else "logical_or"
                return f"nl.{name}({self.code(left)}, {self.code(right)})"
            case ast.Name() | ast.Subscript() if (tensor := self.types.tensor(node)) and tensor.buffer == "hbm":
                return f"nl.load({text})"
            case _:
                return super().code(node)


__all__ = ["advise_tile_mask"]
