"""A kernel language of six names: its package and one :class:`Dialect` are all that the frontend needs."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

import nki.isa as nisa
from nki.base.element_types import float32
from nki.base.source import here
from nki.frontend import syntax_rules
from nki.frontend.builder import current
from nki.frontend.dialect import Dialect, PythonRules, RemovedNames, TensorType, assign_dialect, register
from nki.frontend.frontend_errors import SyntaxNotInNkiError
from nki.frontend.inlining import call_hook
from nki.frontend.release import Release
from nki.frontend.rewrite import CALL
from nki.ir.types import Access, Buffer
from nki.isa.tables.operators import OPS
from nki.jit import Kernel


@dataclass(eq=False, frozen=True)
class Sheet:
    """The tensor of this language: it has an access and is none."""

    access: Access

    @property
    def rows(self) -> int:
        return self.access.shape[0]


def sheet(like: Sheet) -> Sheet:
    """A new sheet on chip."""
    return _new(like, "sheet", Buffer.sbuf)


def answer(like: Sheet) -> Sheet:
    """A sheet that the kernel returns."""
    return _new(like, "answer", Buffer.shared_hbm)


def copy(source: Sheet, destination: Sheet) -> None:
    """Move a sheet, source first."""
    nisa.dma_copy(dst=destination, src=source)


def add(one: Sheet, other: Sheet) -> Sheet:
    """The sum, in a new sheet: instructions of this language return results."""
    result = sheet(one)
    nisa.tensor_tensor(dst=result, data1=one, data2=other, op=OPS["add"])
    return result


def _new(like: Sheet, name: str, buffer: Buffer) -> Sheet:
    return Sheet(Access.whole(current("toy").tensor(name, like.access.shape, float32, buffer, where=here())))


def _no_if(report: Any, node: ast.If, _bound: frozenset[str]) -> bool:
    report.error(SyntaxNotInNkiError, node, "toys have no `if`", "leave it out")
    return False


TOY = register(
    Dialect(
        name="toy",
        releases=(Release(version="1", traced=False),),
        namespaces=("tests.frontend.toy",),
        tensor=TensorType(Sheet, Sheet),
        python=PythonRules(
            {ast.If: _no_if, ast.Attribute: syntax_rules.RULES[ast.Attribute]}, unknown_syntax=syntax_rules.accept
        ),
        hooks={CALL: call_hook},
        removed=RemovedNames(names={"tests.frontend.toy.subtract": "add the negative"}),
    )
)


def jit(function: Any) -> Kernel:
    """A kernel of this language."""
    assign_dialect(function, TOY)
    return Kernel(function)
