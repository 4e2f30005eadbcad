"""Code objects made from a function's syntax tree, and the mark by which they are known again.

A function is compiled alone, yet as if it stood where it stands: under its own file name, lines and columns, with the
closure variables, class and ``__future__`` imports of its definition. Nothing of the module is executed again.
"""

from __future__ import annotations
import __future__

import ast
import dis
import functools
import inspect
import sys
import types
from dataclasses import dataclass
from typing import Any

from nki.frontend.dialect import Dialect

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda

_FUTURES = sum({int(getattr(__future__, name).compiler_flag) for name in __future__.all_feature_names})
_NO_TYPE_PARAMETERS: dict[str, Any] = {"type_params": []} if sys.version_info >= (3, 12) else {}


@dataclass(eq=False, slots=True)
class Origin:
    """The last constant of every code object that the frontend compiles: frames of the kernel are known by it."""

    function: str
    dialect: Dialect


def origin(code: types.CodeType) -> Origin | None:
    """The mark of ``code`` if the frontend compiled it, else None."""
    last = code.co_consts[-1] if code.co_consts else None
    return last if type(last) is Origin else None


def compiled(
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda,
    class_name: str,
    like: types.CodeType,
    extra: tuple[str, ...] = (),
) -> types.CodeType:
    """Compile ``node`` on its own into a code object that can stand in for ``like``.

    It is compiled inside a function that has as parameters the closure variables of ``like`` and ``extra`` (and inside
    a class called ``class_name``, for name mangling and ``super()``), and then taken out of there: nothing is executed.
    Decorators, defaults and annotations belong to the definition, which has already run, and are left out.
    """
    variables = tuple(dict.fromkeys((*like.co_freevars, *extra)))
    function = _bare(node)
    body: list[ast.stmt] = [function]
    path = [like.co_name]
    if class_name:
        body = [ast.ClassDef(class_name, bases=[], keywords=[], body=body, decorator_list=[], **_NO_TYPE_PARAMETERS)]
        path.insert(0, class_name)
    if path[0] not in variables and path[0] != "<lambda>":
        body.insert(0, ast.Global(names=[path[0]]))  # else a reference to itself would become a closure variable
    around = ast.FunctionDef(
        "around",
        args=_positional(variables),
        body=body,
        decorator_list=[],
        **_NO_TYPE_PARAMETERS,
    )
    module = ast.Module(body=[around], type_ignores=[])
    ast.fix_missing_locations(module)
    code = compile(module, like.co_filename, "exec", flags=like.co_flags & _FUTURES, dont_inherit=True)
    for name in ("around", *path):
        code = next(c for c in code.co_consts if isinstance(c, types.CodeType) and c.co_name == name)
    return code


def without_source(code: types.CodeType) -> ast.FunctionDef:
    """A syntax tree of a function without source text: its parameters and the names that it reads; never compiled."""
    names = list(code.co_varnames)
    count, by_name = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    stars = names[by_name:]
    arguments = ast.arguments(
        posonlyargs=[ast.arg(name) for name in names[: code.co_posonlyargcount]],
        args=[ast.arg(name) for name in names[code.co_posonlyargcount : count]],
        vararg=ast.arg(stars.pop(0)) if code.co_flags & inspect.CO_VARARGS else None,
        kwonlyargs=[ast.arg(name) for name in names[count:by_name]],
        kw_defaults=[None] * code.co_kwonlyargcount,
        kwarg=ast.arg(stars.pop(0)) if code.co_flags & inspect.CO_VARKEYWORDS else None,
        defaults=[],
    )
    body: list[ast.stmt] = [ast.Expr(path) for path in _names_read(code)]
    place = {"lineno": code.co_firstlineno, "col_offset": 0, "end_lineno": code.co_firstlineno, "end_col_offset": 0}
    name = code.co_name if code.co_name.isidentifier() else "kernel"
    node = ast.FunctionDef(name, arguments, body or [ast.Pass()], [], None, None, **_NO_TYPE_PARAMETERS)
    for part in ast.walk(node):
        for field, value in place.items():
            setattr(part, field, value)
    return node


names_of = functools.lru_cache(maxsize=1024)(without_source)


def _names_read(code: types.CodeType) -> list[ast.expr]:
    """The names and dotted names of globals and closure variables that ``code`` and the code nested in it read."""
    paths: list[ast.expr] = []
    dotted = False
    for instruction in dis.get_instructions(code):
        if instruction.opname in _READS:
            paths.append(ast.Name(str(instruction.argval), ast.Load()))
            dotted = True
        elif instruction.opname in ("LOAD_ATTR", "LOAD_METHOD") and dotted:
            paths[-1] = ast.Attribute(paths[-1], str(instruction.argval), ast.Load())
        elif instruction.opname != "CACHE":
            dotted = False
    return paths + [path for part in code.co_consts if isinstance(part, types.CodeType) for path in _names_read(part)]


_READS = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_GLOBALS"})


def marked(code: types.CodeType, qualname: str, dialect: Dialect) -> types.CodeType:
    """``code`` and all code nested in it with their marks, named after ``qualname`` as Python names them."""
    old = code.co_qualname

    def mark(part: types.CodeType) -> types.CodeType:
        name = qualname + part.co_qualname.removeprefix(old)
        consts = [mark(c) if isinstance(c, types.CodeType) else c for c in part.co_consts]
        return part.replace(co_consts=(*consts, Origin(name, dialect)), co_qualname=name)

    return mark(code)


def _bare(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> ast.stmt:
    a = node.args
    args = ast.arguments(
        posonlyargs=_untyped(a.posonlyargs),
        args=_untyped(a.args),
        vararg=_untyped([a.vararg])[0] if a.vararg else None,
        kwonlyargs=_untyped(a.kwonlyargs),
        kw_defaults=[None] * len(a.kwonlyargs),
        kwarg=_untyped([a.kwarg])[0] if a.kwarg else None,
        defaults=[],
    )
    if isinstance(node, ast.Lambda):
        return ast.copy_location(ast.Expr(ast.copy_location(ast.Lambda(args, node.body), node)), node)
    bare = type(node)(node.name, args=args, body=node.body, decorator_list=[], **_NO_TYPE_PARAMETERS)
    return ast.copy_location(bare, node)


def _untyped(args: list[ast.arg]) -> list[ast.arg]:
    return [ast.copy_location(ast.arg(arg.arg), arg) for arg in args]


def _positional(names: tuple[str, ...]) -> ast.arguments:
    args = [ast.arg(name) for name in names]
    return ast.arguments(posonlyargs=[], args=args, kwonlyargs=[], kw_defaults=[], defaults=[])
