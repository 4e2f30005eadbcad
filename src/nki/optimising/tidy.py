"""Code that an edit leaves without use: allocations of tiles that nothing reads any more, and what fills them."""

from __future__ import annotations

import ast
from collections import Counter

from nki.ir.instruction import REGISTRY
from nki.optimising.edit import Edit
from nki.optimising.kernel_text import KernelText, bound_by

_MADE = ("ndarray", "zeros", "load", "copy")
"""Functions of ``nki.language`` that make a tile and do nothing else."""


def unread(text: KernelText) -> frozenset[str]:
    """The tiles that nothing reads."""
    return frozenset(_unread(text))


def tidied(before: KernelText, edit: Edit, known: frozenset[str]) -> KernelText:
    """The text after ``edit``, without the tiles that it leaves unread; the ``known`` ones were so before, and stay."""
    after = KernelText(edit.applied(before.text), before.name)
    while True:
        gone = [each for name, statements in _unread(after).items() if name not in known for each in statements]
        unique = {id(each): each for each in gone}.values()
        emptied = Counter(id(after.block_of(each).statements) for each in unique)
        if not gone or any(emptied[id(b.statements)] == len(b.statements) for b in after.blocks):
            return after
        after = KernelText(Edit("", 0, tuple(after.without(*unique))).applied(after.text), before.name)


def _unread(text: KernelText) -> dict[str, list[ast.stmt]]:
    """The tiles that nothing reads, each with the statements that make and fill it."""
    made: dict[str, list[ast.stmt]] = {}
    for _, statement in text.statements():
        if isinstance(statement, ast.Assign) and text.is_alone(statement):
            names = bound_by(statement)
            if len(names) == 1 and text.language_call(statement.value, *_MADE) is not None:
                made.setdefault(names.pop(), []).append(statement)
    filled: dict[str, list[ast.stmt]] = {}
    passing: set[int] = set()
    """The names that stand for what an instruction writes."""
    for inst in text.instructions:
        if len(REGISTRY[inst.name].write_names) == 1 and inst.base("dst") and text.is_alone(inst.statement):
            filled.setdefault(inst.base("dst"), []).append(inst.statement)
            passing.update(id(node) for node in ast.walk(inst.args["dst"]))
    read = {
        node.id
        for function in text.functions for node in ast.walk(function)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and id(node) not in passing
    }  # fmt: skip
    return {name: [*each, *filled.get(name, ())] for name, each in made.items() if name not in read}


__all__ = ["tidied", "unread"]
