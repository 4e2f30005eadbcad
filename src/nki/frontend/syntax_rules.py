"""Syntax check: one rule per class of syntax tree nodes accepts a node or names the error.

The rules are the dialect's. ``RULES`` is the rule book of NKI up to 0.6, whose kernels are parsed and not traced.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any, Final, cast

from nki.base.errors import NkiError
from nki.base.toolchain import is_toolchain
from nki.base.warning import NkiDeprecationWarning
from nki.frontend.capture import Captured
from nki.frontend.dialect import SyntaxRule
from nki.frontend.errors import (
    AsyncError,
    ClassInKernelError,
    DecoratorError,
    DelError,
    DictKeyError,
    GeneratorError,
    GlobalError,
    ImportInKernelError,
    KernelErrors,
    LiteralError,
    MatchError,
    RaiseError,
    SignatureError,
    SyntaxNotInNkiError,
    TryError,
    WalrusError,
    WithError,
)
from nki.frontend.name_checks import check_attribute, check_call, check_name
from nki.frontend.purity import check_targets, targets
from nki.frontend.report import Findings
from nki.frontend.scopes import COMPREHENSIONS, FUNCTIONS, UNKNOWN, bound_names


def check(captured: Captured, *, kernel: bool = True) -> Captured:
    """Pass ``captured`` on if it is NKI; otherwise raise everything that is wrong with it at once.

    One mistake is raised as its own class, several as ``KernelErrors``. ``kernel`` is False for functions that a kernel
    calls: those may take ``*args`` and ``**kwargs``. What only warrants a warning is a ``NkiWarning`` at its line.
    """
    errors = findings(captured, kernel=kernel).errors
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise KernelErrors(captured.name, errors)
    return captured


def findings(captured: Captured, *, kernel: bool = True) -> Findings:
    """What is wrong with ``captured``, from top to bottom, and the functions that it names; see :func:`check`."""
    found = Findings(captured)
    node = captured.node
    if kernel:
        captured.dialect.signature_rule(found, node.args)
    local = bound_names(node)
    for part in (*getattr(node, "type_params", ()), *(node.body if isinstance(node.body, list) else [node.body])):
        _visit(found, part, local)
    found.errors.sort(key=lambda e: (e.span.line, e.span.column) if e.span else (0, 0))
    return found


def _visit(found: Findings, node: ast.AST, local: frozenset[str]) -> None:
    """Judge ``node``, and its parts if its row says so. ``local``: the names that functions around it bind."""
    if isinstance(node, (*FUNCTIONS, *COMPREHENSIONS)):
        local |= bound_names(node)
    dialect = found.captured.dialect
    if dialect.syntax_rules.get(type(node), dialect.unknown_syntax)(found, node, local):
        for field, value in ast.iter_fields(node):
            if field not in _ELSEWHERE:
                branch = isinstance(node, _BRANCHES.get(field, ()))
                found.branches += branch
                for part in _nodes(value):
                    _visit(found, part, local)
                found.branches -= branch


_ELSEWHERE = ("annotation", "returns", "decorator_list")  # types mean nothing, decorators have a rule of their own


_BRANCHES: Final[dict[str, tuple[type[ast.AST], ...]]] = {
    "body": (ast.If, ast.IfExp, ast.While, *FUNCTIONS),
    "orelse": (ast.If, ast.IfExp, ast.While, ast.For),
    "values": (ast.BoolOp,),
}
"""The parts of nodes that may not run even where the node does."""


def _nodes(value: Any) -> Iterable[ast.AST]:
    if isinstance(value, ast.AST):
        return (value,)
    return (part for part in cast(list[Any], value) if isinstance(part, ast.AST)) if isinstance(value, list) else ()


def accept(_found: Findings, _node: ast.AST, _local: frozenset[str]) -> bool:
    """Rule of a node that is fine if its parts are."""
    return True


def refuse(error: type[NkiError], message: str, fix: str) -> SyntaxRule:
    """Rule of a node that the language does not have."""

    def rule(found: Findings, node: ast.AST, _local: frozenset[str]) -> bool:
        found.report(error, node, message, fix)
        return False  # what is inside may be fine or not: it has to be rewritten anyway

    return rule


_PLAIN = "write it with plain functions, loops and branches"
newer_syntax = refuse(SyntaxNotInNkiError, "NKI does not have this syntax", _PLAIN)
_TYPES = refuse(SyntaxNotInNkiError, "NKI has no generic functions or type aliases", "leave the types out")
_TEMPLATE = refuse(SyntaxNotInNkiError, "NKI has no template strings", "use an f-string")
_YIELD = refuse(GeneratorError, "NKI has no generators", "build a list and return it")
_ASYNC = refuse(AsyncError, "NKI has no `async` and `await`", "call functions plainly: a kernel runs in order")
_WITH = refuse(
    WithError,
    "NKI has no `with` blocks, except `with nl.no_reorder():`",
    "call what it does before and after",
)
_TRY = refuse(
    TryError, "NKI has no exceptions to catch", "test beforehand with `if`; an error always ends the compilation"
)
_RAISE = refuse(RaiseError, "NKI has no `raise`", "write `assert condition, message`")
_GLOBAL = refuse(
    GlobalError,
    "a kernel cannot assign to variables outside of itself: it is a pure function of its arguments",
    "take the value as an argument and return the new one",
)
_DELETE = refuse(DelError, "NKI has no `del`", "use `pop` for entries of lists and dictionaries; variables may stay")
_IMPORT = refuse(ImportInKernelError, "NKI has no imports inside functions", "import it at the top of the file")
_CLASS = refuse(
    ClassInKernelError, "NKI has no classes inside functions", "define the class at the top of the file and use it here"
)
_MATCH = refuse(MatchError, "NKI has no `match`", "write `if` and `elif`")
_WALRUS = refuse(WalrusError, "NKI has no assignments inside expressions", "assign on a line of its own before it")
_SET = refuse(LiteralError, "NKI has no sets", "use a list, a tuple, or a dictionary with string keys")
_NOT_INSIDE = refuse(SyntaxNotInNkiError, "this cannot stand inside a function", _PLAIN)


def _constant(found: Findings, node: ast.Constant, _local: frozenset[str]) -> bool:
    match node.value:
        case bytes():
            found.report(LiteralError, node, "NKI has no byte strings", "use a string, or a list of integers")
        case complex():
            found.report(LiteralError, node, "NKI has no complex numbers", "keep real and imaginary part apart")
        case _:
            pass
    return True


def _dict(found: Findings, node: ast.Dict, _local: frozenset[str]) -> bool:
    for key in node.keys:
        if key is not None:
            _dict_key(found, key)
    return True


def _dict_comprehension(found: Findings, node: ast.DictComp, _local: frozenset[str]) -> bool:
    _dict_key(found, node.key)
    return True


def _dict_key(found: Findings, key: ast.expr) -> None:
    other = isinstance(key, ast.Tuple | ast.UnaryOp | ast.Lambda)
    if other or (isinstance(key, ast.Constant) and not isinstance(key.value, str)):
        shown = ast.unparse(key)
        found.report(
            DictKeyError,
            key,
            f"the key {shown} is no string: NKI's dictionaries have string keys only",
            f"write `{shown!r}`, or use a list"
            if isinstance(key, ast.Constant)
            else "use a string, or a list of pairs",
        )


def _compare(found: Findings, node: ast.Compare, _local: frozenset[str]) -> bool:
    sides = [node.left, *node.comparators]
    for index, operator in enumerate(node.ops):
        if isinstance(operator, ast.Is | ast.IsNot) and not any(map(_is_none, sides[index : index + 2])):
            word, instead = ("is", "==") if isinstance(operator, ast.Is) else ("is not", "!=")
            found.warn(node, f"`{word}` compares identity, which means nothing in a kernel: write `{instead}`")
    return True


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _expression(found: Findings, node: ast.Expr, _local: frozenset[str]) -> bool:
    found.users[node.value] = node
    return True


def _assignment(found: Findings, node: ast.Assign | ast.AugAssign | ast.AnnAssign, local: frozenset[str]) -> bool:
    if node.value is not None:
        found.users[node.value] = node
    _literal_key(found, node)
    return check_targets(found, node, local)


def _literal_key(found: Findings, node: ast.Assign | ast.AugAssign | ast.AnnAssign) -> None:
    """``d[1] = x`` where all that is ever assigned to ``d`` is dictionaries."""
    for target in targets(node):
        match target:
            case ast.Subscript(value=ast.Name(id=name), slice=key) if name in found.dictionaries:
                _dict_key(found, key)
            case _:
                pass


def _with(found: Findings, node: ast.With, local: frozenset[str]) -> bool:
    for item in node.items:
        called = item.context_expr.func if isinstance(item.context_expr, ast.Call) else item.context_expr
        value = found.resolve(called, local)
        if value is UNKNOWN or not is_toolchain(value) or getattr(value, "__name__", "") != "no_reorder":
            return _WITH(found, node, local)
        if called is item.context_expr:
            found.report(WithError, called, f"`{ast.unparse(called)}` is not called", "write `with nl.no_reorder():`")
        if item.optional_vars is not None:
            found.report(WithError, item.optional_vars, "`no_reorder` gives nothing to name", "leave `as …` out")
    return True


def _function(found: Findings, node: ast.FunctionDef, local: frozenset[str]) -> bool:
    for decorator in node.decorator_list:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        if not is_toolchain(found.resolve(called, local)):
            found.report(
                DecoratorError,
                decorator,
                f"NKI does not know the decorator `{ast.unparse(called)}`",
                "leave it out, or move the function out of the kernel",
            )
    return True


def kernel_signature(found: Findings, args: ast.arguments) -> None:
    """Judge the parameters of a kernel: each by its name, none by keyword only."""
    for arg, stars in ((args.vararg, "*"), (args.kwarg, "**")):
        if arg is not None:
            message = f"a kernel cannot take `{stars}{arg.arg}`: its arguments must be known one by one"
            found.report(SignatureError, arg, message, "name each parameter")
    if args.kwonlyargs and args.vararg is None:
        message = "newer NKI has no keyword-only parameters: leave the `*` out and put parameters with defaults last"
        found.warn(args.kwonlyargs[0], message, NkiDeprecationWarning)


_BY_NAME: Final[dict[str, SyntaxRule]] = {
    # Statements
    "FunctionDef": _function,
    "AsyncFunctionDef": _ASYNC,
    "ClassDef": _CLASS,
    "Return": accept,
    "Delete": _DELETE,
    "Assign": _assignment,
    "TypeAlias": _TYPES,
    "AugAssign": _assignment,
    "AnnAssign": _assignment,
    "For": check_targets,
    "AsyncFor": _ASYNC,
    "While": accept,
    "If": accept,
    "With": _with,
    "AsyncWith": _ASYNC,
    "Match": _MATCH,
    "Raise": _RAISE,
    "Try": _TRY,
    "TryStar": _TRY,
    "Assert": accept,
    "Import": _IMPORT,
    "ImportFrom": _IMPORT,
    "Global": _GLOBAL,
    "Nonlocal": _GLOBAL,
    "Expr": _expression,
    "Pass": accept,
    "Break": accept,
    "Continue": accept,
    # Expressions
    "BoolOp": accept,
    "NamedExpr": _WALRUS,
    "BinOp": accept,
    "UnaryOp": accept,
    "Lambda": accept,
    "IfExp": accept,
    "Dict": _dict,
    "Set": _SET,
    "ListComp": accept,
    "SetComp": _SET,
    "DictComp": _dict_comprehension,
    "GeneratorExp": accept,
    "Await": _ASYNC,
    "Yield": _YIELD,
    "YieldFrom": _YIELD,
    "Compare": _compare,
    "Call": check_call,
    "FormattedValue": accept,
    "Interpolation": _TEMPLATE,
    "JoinedStr": accept,
    "TemplateStr": _TEMPLATE,
    "Constant": _constant,
    "Attribute": check_attribute,
    "Subscript": accept,
    "Starred": accept,
    "Name": check_name,
    "List": accept,
    "Tuple": accept,
    "Slice": accept,
    # Operators: what they mean depends on the values
    **dict.fromkeys(("Load", "Store", "And", "Or", "Not", "Invert", "UAdd", "USub"), accept),
    **dict.fromkeys(("Add", "Sub", "Mult", "MatMult", "Div", "FloorDiv", "Mod", "Pow"), accept),
    **dict.fromkeys(("LShift", "RShift", "BitOr", "BitXor", "BitAnd"), accept),
    **dict.fromkeys(("Eq", "NotEq", "Lt", "LtE", "Gt", "GtE", "Is", "IsNot", "In", "NotIn"), accept),
    "Del": _DELETE,
    # Parts
    "comprehension": check_targets,
    "arguments": accept,
    "arg": accept,
    "keyword": accept,
    "alias": _IMPORT,
    "withitem": accept,
    "ExceptHandler": _TRY,
    "match_case": _MATCH,
    "MatchValue": _MATCH,
    "MatchSingleton": _MATCH,
    "MatchSequence": _MATCH,
    "MatchMapping": _MATCH,
    "MatchClass": _MATCH,
    "MatchStar": _MATCH,
    "MatchAs": _MATCH,
    "MatchOr": _MATCH,
    "TypeVar": _TYPES,
    "ParamSpec": _TYPES,
    "TypeVarTuple": _TYPES,
    # Whole files
    "Module": _NOT_INSIDE,
    "Interactive": _NOT_INSIDE,
    "Expression": _NOT_INSIDE,
    "FunctionType": _NOT_INSIDE,
    "TypeIgnore": accept,
}

RULES: Final[dict[type[ast.AST], SyntaxRule]] = {
    getattr(ast, name): rule for name, rule in _BY_NAME.items() if hasattr(ast, name)
}
"""The rules of the node classes that the running Python has."""
