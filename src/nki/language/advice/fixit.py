"""Fix-its: rows that say which code to write in place of a call. ``calls.py`` and ``operands.py`` hold the tables.

Texts and code in rows are templates of :meth:`str.format`. Each parameter that the call passes is a name in them:
``{data}`` is the user's code for it, ``{data.shape}`` and the like are facts about its value. Other names:

- ``{operand}``: the parameter that is wrong; ``{input}``: the one called ``data`` or ``src``;
- ``{nl}``, ``{nisa}``: the user's names of the modules; ``{name}``: the function;
- ``{fix}``: the fix of the error itself; ``{write}``: what the row's edit proposes.

A row is passed over if its template or condition asks for a fact that the code does not tell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from nki.base.errors import NkiError
from nki.language.advice.call import Call, NotKnownError, parsed

Edit = Callable[[Call], str | None]
"""The proposal for a call, ``write `CODE```; None if there is nothing to propose."""


class _Names(dict[str, Any]):
    """The names of a template: what a call holds, and ``write``."""

    def __init__(self, call: Call, write: str) -> None:
        super().__init__(write=write)
        self.call = call

    def __missing__(self, name: str) -> Any:
        return self.call[name]


@dataclass(frozen=True, slots=True)
class FixIt:
    """A row: the mistake, the text of the fix, its edit, and the condition under which both are right.

    ``mistake`` is code on the tiles of ``tests/errors/test_fixits.py``, which runs it and the code of its fix.
    ``of`` names parameters that are tried as the operand, one after the other; without it the operand is what the error
    complains of. ``rule`` is the code of the rule that the mistake breaks, if the row is about one.
    """

    mistake: str
    text: str = "{write}"
    edit: Edit | None = None
    when: Callable[[Call], bool] | None = None
    of: tuple[str, ...] | Callable[[Call], Iterable[str]] = ()
    rule: str = ""

    def fix(self, call: Call) -> str | None:
        """The fix for ``call``, if the row fits."""
        for operand in self.of(call) if callable(self.of) else self.of or (call.operand,):
            call.operand = operand
            try:
                if self.when is not None and not self.when(call):
                    continue
                write = self.edit(call) if self.edit is not None else ""
                if write is not None:
                    return self.text.format_map(_Names(call, write))
            except NotKnownError:
                continue
        return None


def fixed(error: NkiError, call: Call, rows: Iterable[FixIt], operands: Iterable[str]) -> NkiError | None:
    """``error`` with the fix of the first of ``rows`` that fits one of ``operands``; None if none does."""
    for operand in operands:
        for row in rows:
            call.operand = operand
            fix = row.fix(call)
            if fix is not None:
                error.fix = fix
                return error
    return None


def arguments(**templates: str) -> Edit:
    """The call with other arguments; ``operand=`` stands for the operand."""

    def edit(call: Call) -> str:
        return f"write `{call.with_arguments(**_filled(call, templates))}`"

    return edit


def allocation(parameter: str, **templates: str) -> Edit:
    """The allocation of an argument with another ``shape``, ``dtype`` or ``buffer``."""

    def edit(call: Call) -> str | None:
        [(keyword, value)] = templates.items()
        name = call.operand if parameter == "operand" else parameter
        return call.allocated_otherwise(name, keyword, value.format_map(call))

    return edit


def code(template: str) -> Edit:
    """Other code than the statement."""

    def edit(call: Call) -> str:
        return f"write `{template.format_map(call)}`"

    return edit


def expression(template: str) -> Edit:
    """The statement with another expression than the call."""

    def edit(call: Call) -> str:
        return f"write `{call.in_statement(parsed(template.format_map(call)))}`"

    return edit


def block(lines: Iterable[str]) -> str:
    """Lines of code below each other."""
    return "write `\n" + "\n".join(f"        {line}" for line in lines) + "`"


def _filled(call: Call, templates: dict[str, str]) -> dict[str, str]:
    return {call.operand if name == "operand" else name: value.format_map(call) for name, value in templates.items()}


__all__ = ["Edit", "FixIt", "allocation", "arguments", "block", "code", "expression", "fixed"]
