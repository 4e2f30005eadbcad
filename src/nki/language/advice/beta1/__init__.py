"""Exact rewrites of Beta 1 in kernels of today, from the source: with the user's names, bounds and dtypes.

A finding about any part of a statement advises the same: the whole statement, with all of it rewritten.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, Final, TypeVar

import nki.language
from nki.frontend.site import Site
from nki.language.advice.beta1.formulas import UnknownFormError
from nki.language.advice.beta1.parsed import keys_of
from nki.language.advice.beta1.rewriting import Rewriter
from nki.language.advice.beta1.scope import NL, Scope, scope_at, scope_before, statements
from nki.language.advice.beta1.tile_masks import advise_tile_mask

_SHOWN: Final = 6
T = TypeVar("T")


def advise_removed(captured: Any, node: ast.AST) -> str:
    """The exact rewrite of the statement around ``node``, which is of Beta 1; "" if the source does not tell."""
    own = _statement(captured, node)
    if own is None:
        return ""
    if scope_before(captured, own.lineno).is_definition(own):
        return _uses(captured, own)
    return advise_statement(captured, own)


def rewritten(scope: Scope, statement: ast.stmt) -> list[str] | None:
    """The lines in place of a statement with this scope; None if the source does not tell, or nothing changes."""
    lines = _known(lambda: Rewriter(scope).statement(statement))
    if lines is None:
        return None
    text = "\n".join(lines)
    left = {*scope.indices, *scope.grids, *(name for name, mask in scope.masks.items() if mask is not None)}
    for node in ast.walk(ast.parse(text if not text.endswith(":") else f"{text}\n    pass")):
        full = scope.full(node) if isinstance(node, ast.Name | ast.Attribute) else ""
        gone = full.startswith(NL) and full.count(".") == NL.count(".") and not hasattr(nki.language, full[len(NL) :])
        if gone or (isinstance(node, ast.Name) and node.id in left):
            return None
    return None if text == ast.unparse(statement) else lines


def _known(rewrite: Callable[[], T]) -> T | None:
    """The result of a rewriting; None for forms of code that it does not know."""
    try:
        return rewrite()
    except (UnknownFormError, KeyError, IndexError, SyntaxError):
        return None


def advise_statement(captured: Any, statement: ast.stmt) -> str:
    """The fix for a statement of Beta 1."""
    scope = scope_before(captured, statement.lineno)
    if fix := _known(lambda: advise_tile_mask(scope, statement)):
        return fix
    lines = rewritten(scope, statement)
    if lines is None:
        return ""
    fixes = [shown(lines, statement), *_block_writes(captured, statement, scope)]
    more = len(fixes) - _SHOWN
    return "; ".join(fixes[:_SHOWN]) + (f"; and likewise in {more} more" if more > 0 else "")


def _block_writes(captured: Any, statement: ast.stmt, scope: Scope) -> list[str]:
    """The fixes for assignments to the blocks of a tensor: of a list they would replace the tile."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if (memory := scope.memory(value)) and memory.blocks:
            pass
        case _:
            return []
    found: list[str] = []
    for user in statements(captured.node):
        match user:
            case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=owner)) as target]) if owner == name:
                lines = rewritten(scope_before(captured, user.lineno), user)
                if user.lineno > statement.lineno and len(keys_of(target)) == memory.blocks and lines is not None:
                    found.append(f"in line {user.lineno} {shown(lines, user)}")
            case _:
                pass
    return found


def advise_at(site: Site) -> str:
    """The fix for the statement of a site that failed, whose names have values; "" if it holds nothing of Beta 1."""
    lines = rewritten(scope_at(site), site.statement) if not hasattr(site.statement, "body") else None
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


def _uses(captured: Any, definition: ast.stmt) -> str:
    """The fix for the definition of an index tile or mask: its uses, rewritten."""
    gone, names = [definition], _assigned(definition)
    fixes: list[str] = []
    missing = False
    for user in statements(captured.node):
        if user.lineno <= definition.lineno or hasattr(user, "body") or not names & _read(user):
            continue
        if scope_before(captured, user.lineno).is_definition(user):
            gone.append(user)
            names |= _assigned(user)
            continue
        fix = advise_statement(captured, user)
        missing = missing or not fix
        if fix:
            fixes.append(f"in line {user.lineno} {fix}")
    lines = [str(each.lineno) for each in gone]
    out = f"leave line {lines[0]} out" if len(lines) == 1 else f"leave lines {', '.join(lines)} out"
    if not fixes:
        return (
            ""
            if missing
            else f"{out}: nothing uses {' and '.join(f'`{name}`' for name in sorted(_assigned(definition)))}"
        )
    more = len(fixes) - _SHOWN
    text = "; ".join(fixes[:_SHOWN]) + (f"; and likewise in {more} more" if more > 0 else "")
    return text if missing or more > 0 else f"{text}; then {out}"


def _assigned(statement: ast.stmt) -> set[str]:
    return {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def _read(statement: ast.stmt) -> set[str]:
    return {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


__all__ = ["advise_at", "advise_removed", "advise_statement"]
