"""Exact rewrites of Beta 1 in kernels of today, from the source: with the user's names, bounds and dtypes.

A finding about any part of a statement advises the same: the whole statement, with all of it rewritten.
"""

from __future__ import annotations

import ast
import contextlib
from typing import Any, Final

from nki.frontend.site import Site, keys_of
from nki.language.advice.beta1.reading import Reading, read, read_at
from nki.language.advice.beta1.tile_masks import advise_tile_mask
from nki.language.beta1_rewriting.calls import NotCarriedOverError
from nki.language.beta1_rewriting.statements import UNEXPECTED
from nki.source_text.source import assigned

_SHOWN: Final = 6


def advise_removed(captured: Any, node: ast.AST) -> str:
    """The exact rewrite of the statement around ``node``, which is of Beta 1; "" if the source does not tell."""
    own = _statement(captured, node)
    if own is None:
        return ""
    reading = read(captured)
    return _uses(captured, reading, own) if reading.is_definition(own) else _advise(captured, reading, own)


def _advise(captured: Any, reading: Reading, statement: ast.stmt) -> str:
    """The fix for a statement of Beta 1."""
    with contextlib.suppress(NotCarriedOverError, *UNEXPECTED):
        if fix := advise_tile_mask(reading, statement):
            return fix
    lines = reading.lines(statement)
    if lines is None:
        return ""
    fixes = [shown(lines, statement), *_block_writes(captured, reading, statement)]
    more = len(fixes) - _SHOWN
    return "; ".join(fixes[:_SHOWN]) + (f"; and likewise in {more} more" if more > 0 else "")


def _block_writes(captured: Any, reading: Reading, statement: ast.stmt) -> list[str]:
    """The fixes for assignments to the blocks of a tensor: of a list they would replace the tile."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)]) if tensor := reading.types.tensors.get(name):
            blocks = len(tensor.blocks)
        case _:
            return []
    found: list[str] = []
    for user in statements(captured.node) if blocks else ():
        match user:
            case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=owner)) as target]) if owner == name:
                lines = reading.lines(user)
                if user.lineno > statement.lineno and len(keys_of(target)) == blocks and lines is not None:
                    found.append(f"in line {user.lineno} {shown(lines, user)}")
            case _:
                pass
    return found


def advise_at(site: Site) -> str:
    """The fix for the statement of a failed site, from the values of its names; "" if it holds nothing of Beta 1."""
    lines = read_at(site).lines(site.statement) if not hasattr(site.statement, "body") else None
    return shown(lines, site.statement) if lines is not None else ""


def shown(lines: list[str], statement: ast.stmt) -> str:
    """The text of a fix that puts ``lines`` in place of a statement."""
    where = "in place of the block " if hasattr(statement, "body") and not lines[0].endswith(":") else ""
    match lines:
        case []:
            return "leave the line out"
        case [line]:
            return f"{where}write `{line}`"
        case [first, last] if ".ndarray(" in first and not first.startswith(("if ", "with ")):
            return f"allocate the destination and pass it: `{first}`, then `{last}`"
        case _:
            block = "\n".join(f"        {line}" for line in lines)
            return f"{where}write `\n{block}`"


def _statement(captured: Any, node: ast.AST) -> ast.stmt | None:
    """The innermost statement around ``node``."""
    return next((n for n in reversed(statements(captured.node)) if any(part is node for part in ast.walk(n))), None)


def _uses(captured: Any, reading: Reading, definition: ast.stmt) -> str:
    """The fix for the definition of an index tile or mask: its uses, rewritten."""
    gone, names = [definition], assigned(definition)
    fixes: list[str] = []
    missing = False
    for user in statements(captured.node):
        if user.lineno <= definition.lineno or hasattr(user, "body") or not names & _read(user):
            continue
        if reading.is_definition(user):
            gone.append(user)
            names |= assigned(user)
            continue
        fix = _advise(captured, reading, user)
        missing = missing or not fix
        if fix:
            fixes.append(f"in line {user.lineno} {fix}")
    lines = [str(each.lineno) for each in gone]
    out = f"leave line {lines[0]} out" if len(lines) == 1 else f"leave lines {', '.join(lines)} out"
    if not fixes:
        return (
            ""
            if missing
            else f"{out}: nothing uses {' and '.join(f'`{name}`' for name in sorted(assigned(definition)))}"
        )
    more = len(fixes) - _SHOWN
    text = "; ".join(fixes[:_SHOWN]) + (f"; and likewise in {more} more" if more > 0 else "")
    return text if missing or more > 0 else f"{text}; then {out}"


def statements(function: ast.AST) -> list[ast.stmt]:
    """The statements of a function in the order of their lines, with the statements of blocks."""
    found = [n for n in ast.walk(function) if isinstance(n, ast.stmt) and n is not function]
    return sorted(found, key=lambda n: (n.lineno, n.col_offset))


def _read(statement: ast.stmt) -> set[str]:
    return {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


__all__ = ["advise_at", "advise_removed"]
