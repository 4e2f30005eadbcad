"""Host code around rewritten kernels: grids become arguments, and what was decorated is at its calls."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from nki.language.beta1_rewriting.functions import Roles
from nki.migrate.roles import grid_text
from nki.source_text.names import Names
from nki.source_text.source import Source, code_of, spliced


def with_grids(text: str, grids: Mapping[str, int]) -> str:
    """The file with ``kernel(x, grid=(16, 8))`` in place of ``kernel[16, 8](x)``."""
    source = Source(text)
    changes: list[tuple[int, int, str]] = []
    for node in ast.walk(source.tree):
        match node:
            case ast.Call(func=ast.Subscript(value=ast.Name(id=name)) as launch) if name in grids:
                grid = grid_text(launch)
                if grid is None:
                    continue
                end = source.span(node)[1] - 1
                args = [*node.args, *(k.value for k in node.keywords)]
                place = max((source.span(arg)[1] for arg in args), default=end)
                changes += [(*source.span(launch), name), (place, place, f"{', ' if args else ''}grid={grid}")]
            case _:
                pass
    return spliced(source, 0, len(text), changes)


def with_decorators(text: str, roles: Roles, names: Names) -> str:
    """The file, with ``nki.jit(kernel)`` where its host code has the name of a kernel without decorator."""
    if not roles.undecorated & roles.named_by_host:
        return text
    source = Source(text)
    jit = names.alias("nki.jit") or "nki.jit"
    changes = [
        (*source.span(node), f"{jit}({node.id})")
        for line in source.tree.body
        if not (isinstance(line, ast.FunctionDef) and line.name in roles.on_device)
        for node in _loaded(line, jit)
        if node.id in roles.undecorated
    ]
    return spliced(source, 0, len(text), changes)


def _loaded(node: ast.AST, jit: str) -> Iterator[ast.Name]:
    """The names that code reads, besides what it passes to ``nki.jit``."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        yield node
    if not (isinstance(node, ast.Call) and code_of(node.func) == jit) and not isinstance(node, ast.JoinedStr):
        for child in ast.iter_child_nodes(node):
            yield from _loaded(child, jit)


__all__ = ["with_decorators", "with_grids"]
