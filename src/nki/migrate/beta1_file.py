"""A file of NKI Beta 1, rewritten for the present NKI."""

from __future__ import annotations

from collections.abc import Sequence

from nki.language.beta1_rewriting.facts import Facts
from nki.language.beta1_rewriting.functions import Functions
from nki.language.beta1_rewriting.report import Report
from nki.language.beta1_rewriting.statements import Statements
from nki.language.beta1_rewriting.types import Types
from nki.migrate.host_code import with_decorators, with_grids
from nki.migrate.imports import Imports, is_import, place_of
from nki.migrate.roles import roles_of
from nki.source_text.lines import Line, above, by_lines, rendered
from nki.source_text.names import Names
from nki.source_text.source import Source, names_in, parsed


def rewritten(source: Source, facts: Facts, report: Report, kernels: Sequence[str] = ()) -> str:
    """The file for the present NKI; what no rule carries over has a comment above it and a line in ``report``.

    ``kernels``: functions that are launched, also without a decorator.
    """
    names = Names.of(source.tree)
    roles = roles_of(source.tree, names, kernels)
    functions = Functions(names, facts, report, roles)
    top = Statements(Types(names, facts), report, set())
    top.functions = functions.function
    imports, lines, kept = Imports(), list[Line](), list[str]()
    row, last = 0, place_of(source.tree.body)
    others: list[Line] = []
    for group in by_lines(source.tree.body):
        if is_import(group):
            new = imports.lines(group)
            gap = above(group[0], row)
            if new:
                new[0].above = [*kept, *gap]
            kept = [] if new else [*kept, *(each for each in gap if not row or each.startswith("#"))]
        else:
            new = top.block(group, row)
            others += new
        row = group[-1].end_lineno or row
        lines += new
        last = len(lines) if is_import(group) and new else last
    used = names_in(*parsed("\n".join(rendered(others))))
    lines[last:last] = imports.added([*functions.imports, *top.imports], names, used)
    text = "\n".join([*rendered(lines), *source.lines[row:]])
    if functions.grids:
        text = with_grids(text, functions.grids)
    return with_decorators(text, roles, names)


__all__ = ["rewritten"]
