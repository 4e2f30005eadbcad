"""Locations of exceptions in the user's file, and the translation of Python's exceptions to errors of the kernel.

Only frames of code that the frontend compiled count: the compiler's own frames never show.
"""

from __future__ import annotations

import ast
import inspect
import re
import types
from collections.abc import Callable, Iterator
from typing import Any, cast

from nki.base.errors import KernelArgumentError, NkiError
from nki.base.source import Span, asserted, code_span, definition_span, folded, is_toolchain, node_span
from nki.frontend.capture import is_host_code
from nki.frontend.code_objects import Origin, origin
from nki.frontend.dialect import default_dialect
from nki.frontend.frontend_errors import (
    KernelAssertError,
    KernelPythonError,
    RemovedApiError,
    UnknownApiError,
    UnknownNameError,
)
from nki.frontend.name_checks import did_you_mean, public_names, spelling
from nki.frontend.site import site_of


def locate(exc: BaseException) -> tuple[Span | None, tuple[Span, ...]]:
    """The position in the kernel at which ``exc`` was raised, and the calls that led there, outermost first."""
    spans: list[Span] = []
    for tb, mark in _entries(exc):
        if mark is not None:
            spans.append(code_span(tb.tb_frame.f_code, tb.tb_lasti, mark.function))
    return (spans[-1], _shortened(spans[:-1])) if spans else (None, ())


def explain(exc: Exception) -> NkiError:
    """``exc`` as an error of the kernel, to be raised instead.

    An ``NkiError`` comes back itself, placed if it had no place. Anything else is wrapped, with ``exc`` as its cause;
    the traceback of that keeps only the user's frames. Raise the result as it is, or ``from`` its ``__cause__``.
    """
    span, stack = locate(exc)
    if isinstance(exc, NkiError):
        if exc.span is not None and not (exc.stack or exc.is_late) and span is not None and span != exc.span:
            exc.stack = (*stack, span)  # it points into a function that did not come to run: we were about to call it
        return exc if exc.span is not None else (_advised(exc) or exc).at(span, stack)
    advised = _advised(exc)
    error = advised or _translate(exc)
    error.span, error.stack = error.span or span, stack
    if advised is None:
        error.__cause__ = exc.with_traceback(_kernel_frames(exc))
    return error


def _advised(exc: Exception) -> NkiError | None:
    """The error that the dialect makes of ``exc`` and the code that raised it, if it knows a better one."""
    last, mark = next((entry for entry in reversed(_entries(exc)) if entry[1] is not None), (None, None))
    if last is None or mark is None or mark.dialect.advise is None:
        return None
    site = site_of(last)
    return mark.dialect.advise(exc, site) if site is not None else None


def _translate(exc: Exception) -> NkiError:
    *_, (last, mark) = [(None, None), *_entries(exc)]
    by_kernel = last if mark is not None else None
    match exc:
        case AssertionError():
            return _failed_assertion(str(exc), by_kernel, mark)
        case NameError(name=str(name)) if (
            by_kernel is not None and mark is not None and not isinstance(exc, UnboundLocalError)
        ):
            frame = by_kernel.tb_frame
            return UnknownNameError(
                f"name `{name}` is not defined", fix=spelling(mark.dialect, name, frame.f_globals, frame.f_locals)
            )
        case AttributeError(name=str(name), obj=owner) if by_kernel is not None:
            error = UnknownApiError if is_toolchain(owner) else KernelPythonError
            return error(_python_text(exc), fix=did_you_mean(name, public_names(owner)))
        case TypeError() if mark is not None and (misfit := _KEYWORD.match(str(exc))) is not None:
            function, keyword = misfit.groups()
            removed = mark.dialect.removed.keywords.get(keyword)
            if removed is None:
                return KernelPythonError(_python_text(exc))
            return RemovedApiError(f"`{function}` no longer takes `{keyword}`", fix=removed)
        case RecursionError():  # its text depends on what Python was doing at the limit
            return KernelPythonError("RecursionError: the calls nest too deep, or without end")
        case KeyError():
            return KernelPythonError(f"KeyError: key {exc} is not in the dictionary")
        case _:
            return KernelPythonError(_python_text(exc))


def misfit(function: Callable[..., Any], signature: inspect.Signature, error: TypeError) -> KernelArgumentError:
    """The error for a call with arguments that do not fit the ``signature`` of the kernel ``function``."""
    name, parameters = function.__name__, signature.parameters
    first = next(iter(parameters), "")
    fix = "pass the parameters of its signature"
    if first in ("self", "cls"):
        fix = (
            f"define `{name}` outside the class, without `{first}`, and pass what it needs as arguments: a kernel is a "
            "function, not a method"
        )
    elif keywords := [p.name for p in parameters.values() if p.kind is p.KEYWORD_ONLY]:
        fix = f"pass `{keywords[0]}` by name, or leave the `*` out of the signature"
    return KernelArgumentError(f"kernel {name}{signature}: {error}", fix=fix, span=definition_span(function))


_KEYWORD = re.compile(r"(\w+)\(\) got an unexpected keyword argument '(\w+)'")


def _python_text(exc: Exception) -> str:
    text = str(exc)
    return f"{type(exc).__name__}: {text}" if text else type(exc).__name__


def _failed_assertion(text: str, at: types.TracebackType | None, mark: Origin | None) -> KernelAssertError:
    """An assertion by its text or, where it has none, by its condition and the values of the names in it."""
    condition = asserted(at.tb_frame.f_code.co_filename, at.tb_lineno) if at is not None else None
    if at is None or mark is None or condition is None:
        return KernelAssertError(text or "an assertion does not hold")
    # Python places the exception at the last part of the condition, whichever part failed.
    span = node_span(at.tb_frame.f_code.co_filename, condition, mark.function)
    variables = {**at.tb_frame.f_globals, **at.tb_frame.f_locals}
    names = dict.fromkeys(_dotted_names(condition))
    values = ", ".join(f"{name} = {shown}" for name in names if (shown := _value(name, variables)))
    text_of_condition = f"this does not hold: {ast.unparse(condition)}" + (f", where {values}" if values else "")
    return KernelAssertError(text or text_of_condition, fix=_as_tuples(condition, variables), span=span)


def _as_tuples(condition: ast.expr, variables: dict[str, Any]) -> str:
    """The fix of an assertion that compares a tuple, such as a shape, with a list; "" for others."""
    match condition:
        case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]):
            sides = [left, right]
        case _:
            return ""
    kinds = [type(_plain(side, variables)) for side in sides]
    if set(kinds) != {tuple, list}:
        return ""
    at = kinds.index(list)
    other = sides[at]
    converted = f"tuple({ast.unparse(other)})" if not isinstance(other, ast.List) else None
    sides[at] = ast.Name(converted) if converted else ast.Tuple(cast("ast.List", other).elts, ast.Load())
    return f"shapes are tuples, and a tuple equals no list: write `{' == '.join(map(ast.unparse, sides))}`"


def _plain(node: ast.expr, variables: dict[str, Any]) -> object:
    """The value of a dotted name; a list or a tuple, for one that is written out."""
    if isinstance(node, ast.List | ast.Tuple):
        return [] if isinstance(node, ast.List) else ()
    return _named(ast.unparse(node), variables)


def _named(name: str, variables: dict[str, Any]) -> object:
    """The value of a dotted name; None if there is none."""
    first, *rest = name.split(".")
    value: object = variables.get(first)
    for attribute in rest:
        value = getattr(value, attribute, None)
    return value


def _dotted_names(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Name | ast.Attribute):
        text = ast.unparse(node)
        if text.replace(".", "").isidentifier():
            yield text
            return
    for part in ast.iter_child_nodes(node):
        if isinstance(part, ast.expr):
            yield from _dotted_names(part)


def _value(name: str, variables: dict[str, Any]) -> str:
    """The text of a dotted name's value in an error: plain values that fit on the line, nothing else."""
    value = _named(name, variables)
    if isinstance(value, bool | int | float | str | tuple):
        text = repr(value)  # pyright: ignore[reportUnknownArgumentType]
        return text if len(text) <= 60 else ""
    return ""


def _shortened(stack: list[Span]) -> tuple[Span, ...]:
    """Both ends of a deep stack: endless recursion would fill pages with the same two lines."""
    entries = folded(stack)
    return entries if len(entries) <= 2 * _SHOWN else (*entries[:_SHOWN], *entries[-_SHOWN:])


_SHOWN = 8


def _entries(exc: BaseException) -> list[tuple[types.TracebackType, Origin | None]]:
    """The entries of a traceback with the marks of those that belong to the kernel.

    Functions of the user's that Python calls by itself, from the kernel on, belong to it though they are not rewritten.
    """
    entries: list[tuple[types.TracebackType, Origin | None]] = []
    inside = False
    tb = exc.__traceback__
    while tb is not None:
        code = tb.tb_frame.f_code
        mark = origin(code)
        inside = inside or mark is not None
        around = tb.tb_frame.f_globals
        if inside and mark is None and "__name__" in around and not is_host_code(code, around):
            mark = Origin(code.co_qualname, default_dialect())
        entries.append((tb, mark))
        tb = tb.tb_next
    return entries


def _kernel_frames(exc: BaseException) -> types.TracebackType | None:
    """The traceback of ``exc`` without the frames of the compiler; whole if there are no others."""
    chain: types.TracebackType | None = None
    for tb, mark in reversed(_entries(exc)):
        if mark is not None:
            chain = types.TracebackType(chain, tb.tb_frame, tb.tb_lasti, tb.tb_lineno)
    return chain or exc.__traceback__
