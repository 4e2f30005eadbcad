"""Syntax check: one rule per class of syntax tree nodes accepts a node or names the error.

The rules are the dialect's. ``RULES`` is the rule book of NKI up to 0.6, where kernels are parsed and not traced.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final, cast

from nki.base.errors import NkiError
from nki.base.source import is_toolchain
from nki.base.warning import NkiDeprecationWarning, under_release
from nki.frontend.capture import Captured
from nki.frontend.dialect import SyntaxRule
from nki.frontend.frontend_errors import (
    AsyncError,
    ClassInKernelError,
    DecoratorError,
    DelError,
    DictKeyError,
    EndlessLoopError,
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
from nki.frontend.report import Report
from nki.frontend.scopes import COMPREHENSIONS, FUNCTIONS, UNKNOWN, bound_names, own_yields
from nki.frontend.syntax_tree import children, fields_of, walk


def check(captured: Captured, *, kernel: bool = True) -> Captured:
    """Pass ``captured`` on if it is NKI; otherwise raise everything that is wrong with it at once.

    One mistake is raised as its own class, several as ``KernelErrors``. ``kernel`` is False for functions that a kernel
    calls: those may take ``*args`` and ``**kwargs``. Errors in code that may not be reached are kept for when it is
    (``Captured.deferred``), and so are warnings about newer Python (``Captured.warned``). What only warrants a warning
    is a ``NkiWarning`` at its line. A function without source text is as it is.
    """
    report = examine(captured, kernel=kernel)
    errors, deferred = report.judged()
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise KernelErrors(captured.name, errors)
    warned = report.warned_when_reached
    return replace(captured, deferred=deferred, warned=warned) if deferred or warned else captured


def examine(captured: Captured, *, kernel: bool = True) -> Report:
    """The mistakes of ``captured``, from top to bottom, and the functions that it names; see :func:`check`."""
    report = Report(captured, kernel=kernel)
    node = captured.node
    if captured.unread is not None:
        error = captured.unread
        report.error(type(error), node, error.message, error.fix)
        if kernel and captured.code.co_flags & inspect.CO_GENERATOR:
            report.certain_error(GeneratorError, node, *_GENERATOR_KERNEL)
        return report
    with under_release(captured.dialect.release):
        if kernel:
            captured.dialect.python.signature_rule(report, node.args)
        bound = bound_names(node)
        body = node.body if isinstance(node.body, list) else [node.body]
        try:
            for part in (*getattr(node, "type_params", ()), *body):
                _visit(report, part, bound)
        except RecursionError:
            report.errors.append(too_deep(captured))
            report.nodes.append(node)
    return report


def too_deep(captured: Captured) -> NkiError:
    """The error of a function that is nested deeper than Python's limit of recursion lets a program follow."""
    body = captured.node.body if isinstance(captured.node.body, list) else [captured.node.body]
    depth, part = max(((_depth(part), part) for part in body), key=lambda pair: pair[0])
    return SyntaxNotInNkiError(
        f"this is nested {depth} levels deep, more than can be followed (each `elif` is a level, too)",
        fix="split it into statements or functions of their own, or use a table instead of a chain of `elif`",
        span=captured.span(part),
    )


def _depth(node: ast.AST) -> int:
    """The number of nodes on the longest way down from ``node``."""
    level, depth = [node], 0
    while level:
        level, depth = [child for parent in level for child in children(parent)], depth + 1
    return depth


def _visit(report: Report, node: ast.AST, bound: frozenset[str]) -> None:
    """Judge ``node``, and its parts if its rule says so. ``bound``: the names that functions around it bind."""
    if isinstance(node, (*FUNCTIONS, *COMPREHENSIONS, ast.ClassDef)):
        bound |= bound_names(node)
    python = report.captured.dialect.python
    if python.syntax_rules.get(type(node), python.unknown_syntax)(report, node, bound):
        values = node.__dict__
        for field in fields_of(node):
            if field not in _ELSEWHERE and (value := values.get(field)) is not None:
                branch = isinstance(node, _BRANCHES.get(field, ()))
                report.branch_depth += branch
                for part in _nodes(value):
                    _visit(report, part, bound)
                report.branch_depth -= branch


_ELSEWHERE = ("annotation", "returns", "decorator_list")  # types mean nothing, decorators have a rule of their own


_BRANCHES: Final[dict[str, tuple[type[ast.AST], ...]]] = {
    "body": (ast.If, ast.IfExp, ast.While, ast.Try, ast.ExceptHandler, ast.match_case, *FUNCTIONS),
    "orelse": (ast.If, ast.IfExp, ast.While, ast.For, ast.Try),
    "values": (ast.BoolOp,),
}
"""The parts of nodes that may not run even where the node does."""


def _nodes(value: Any) -> Iterable[ast.AST]:
    if isinstance(value, ast.AST):
        return (value,)
    return (part for part in cast(list[Any], value) if isinstance(part, ast.AST)) if isinstance(value, list) else ()


def accept(_report: Report, _node: ast.AST, _bound: frozenset[str]) -> bool:
    """Rule of a node that is fine if its parts are."""
    return True


def refuse(error: type[NkiError], message: str, fix: str) -> SyntaxRule:
    """Rule of a node that the language does not have."""

    def rule(report: Report, node: ast.AST, _bound: frozenset[str]) -> bool:
        # If it is refused, what is inside may be fine or not: it has to be rewritten anyway.
        return report.error(error, node, message, fix)

    return rule


_PLAIN = "write it with plain functions, loops and branches"
newer_syntax = refuse(SyntaxNotInNkiError, "NKI does not have this syntax", _PLAIN)
_TYPES = refuse(SyntaxNotInNkiError, "NKI has no generic functions or type aliases", "leave the types out")
_TEMPLATE = refuse(SyntaxNotInNkiError, "NKI has no template strings", "use an f-string")
_ASYNC = refuse(AsyncError, "NKI has no `async` and `await`", "call functions plainly: a kernel runs in order")
_WITH = refuse(
    WithError,
    "NKI has no `with` blocks, except `with nl.no_reorder():`",
    "call what it does before and after",
)
_TRY = refuse(
    TryError, "NKI has no exceptions to catch", "test beforehand with `if`; an error always ends the compilation"
)
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


_GENERATOR_KERNEL: Final = (
    "a kernel cannot be a generator",
    "build a list and return it, or `yield` in a function that the kernel calls",
)


def _yield(report: Report, node: ast.Yield | ast.YieldFrom, _bound: frozenset[str]) -> bool:
    """A helper may be a generator in newer releases, a kernel in none: it returns its results when it has ended."""
    if report.own_yields is None:
        report.own_yields = own_yields(report.captured.node) if report.kernel else frozenset()
    if node in report.own_yields and report.captured.dialect.python.traced:
        report.certain_error(GeneratorError, node, *_GENERATOR_KERNEL)
        return False
    return report.error(GeneratorError, node, "NKI has no generators", "build a list and return it")


def _raise(report: Report, node: ast.Raise, _bound: frozenset[str]) -> bool:
    """``if test: raise Error(message)`` is an assertion."""
    match node.exc:
        case ast.Call(args=[message, *_]):
            text = f", {ast.unparse(message)}"
        case _:
            text = ", message"
    test = report.guards.get(node)
    code = f"assert {'False' if test is None else _negated(test)}{text}"
    return report.error(RaiseError, node, "NKI has no `raise`", f"write `{code}`" + (" for the `if`" if test else ""))


def _negated(test: ast.expr) -> str:
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return ast.unparse(operand)
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _OPPOSITE:
            return ast.unparse(ast.Compare(left, [_OPPOSITE[type(op)]()], [right]))
        case _:
            return ast.unparse(ast.UnaryOp(ast.Not(), test))


_OPPOSITE: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt,
}  # fmt: skip


def _if(report: Report, node: ast.If, _bound: frozenset[str]) -> bool:
    match node:
        case ast.If(test=test, body=[ast.Raise() as raised], orelse=[]):
            report.guards[raised] = test
        case _:
            pass
    return True


_ENDS: Final = (ast.Break, ast.Return, ast.Raise, ast.Assert, ast.Nonlocal, ast.Yield, ast.YieldFrom)
"""Nodes by which a loop may end: also a generator's, which its user may not run to the end."""


def _while(report: Report, node: ast.While, _bound: frozenset[str]) -> bool:
    """A loop with a condition that nothing changes never ends, if it begins; bare names may be registers, which
    change.
    """
    if isinstance(node.test, ast.Name | ast.Attribute | ast.Subscript | ast.Call):
        return True
    tested = walk(node.test)
    body = [part for statement in node.body for part in walk(statement)]
    stored = {part.id for part in body if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store | ast.Del)}
    changes = any(isinstance(part, ast.Call | ast.Attribute | ast.Subscript | ast.NamedExpr) for part in tested)
    changes = changes or any(isinstance(part, ast.Name) and part.id in stored for part in tested)
    ends = any(isinstance(part, _ENDS) for part in body)
    if report.captured.dialect.python.traced and not ends:  # an exception from within may be caught around the loop
        ends = any(isinstance(part, ast.Try | ast.With) for part in walk(report.captured.node))
    constant = isinstance(node.test, ast.Constant) and not node.test.value
    if not (changes or ends or constant):
        shown = ast.unparse(node.test)
        message = f"`while {shown}` never ends: its body changes nothing in the condition and has no `break`"
        report.error(EndlessLoopError, node.body[0], message, "change the condition in the body, or write `for`")
    return True


def _constant(report: Report, node: ast.Constant, _bound: frozenset[str]) -> bool:
    match node.value:
        case bytes():
            report.error(LiteralError, node, "NKI has no byte strings", "use a string, or a list of integers")
        case complex():
            report.error(LiteralError, node, "NKI has no complex numbers", "keep real and imaginary part apart")
        case _:
            pass
    return True


def _dict(report: Report, node: ast.Dict, _bound: frozenset[str]) -> bool:
    for key in node.keys:
        if key is not None:
            _dict_key(report, key)
    return True


def _dict_comprehension(report: Report, node: ast.DictComp, _bound: frozenset[str]) -> bool:
    _dict_key(report, node.key)
    return True


def _dict_key(report: Report, key: ast.expr) -> None:
    other = isinstance(key, ast.Tuple | ast.UnaryOp | ast.Lambda)
    if other or (isinstance(key, ast.Constant) and not isinstance(key.value, str)):
        shown = ast.unparse(key)
        report.error(
            DictKeyError,
            key,
            f"the key {shown} is no string: NKI's dictionaries have string keys only",
            f"write `{shown!r}`, or use a list"
            if isinstance(key, ast.Constant)
            else "use a string, or a list of pairs",
        )


def _compare(report: Report, node: ast.Compare, _bound: frozenset[str]) -> bool:
    if report.captured.dialect.python.silent:
        return True
    sides = [node.left, *node.comparators]
    for index, operator in enumerate(node.ops):
        if isinstance(operator, ast.Is | ast.IsNot) and not any(map(_is_none, sides[index : index + 2])):
            word, instead = ("is", "==") if isinstance(operator, ast.Is) else ("is not", "!=")
            message = f"`{word}` compares identity, which means nothing in a kernel except of tensors, which have no "
            message += f"`{instead}`: write `{instead}` for other values"
            report.warn(node, message, since="0.3")
    return True


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _expression(report: Report, node: ast.Expr, _bound: frozenset[str]) -> bool:
    report.statements[node.value] = node
    return True


def _assignment(report: Report, node: ast.Assign | ast.AugAssign | ast.AnnAssign, bound: frozenset[str]) -> bool:
    if node.value is not None:
        report.statements[node.value] = node
    _literal_key(report, node)
    return check_targets(report, node, bound)


def _literal_key(report: Report, node: ast.Assign | ast.AugAssign | ast.AnnAssign) -> None:
    """``d[1] = x`` where all that is ever assigned to ``d`` is dictionaries."""
    for target in targets(node):
        match target:
            case ast.Subscript(value=ast.Name(id=name), slice=key) if name in report.dictionaries:
                _dict_key(report, key)
            case _:
                pass


def _with(report: Report, node: ast.With, bound: frozenset[str]) -> bool:
    for item in node.items:
        called = item.context_expr.func if isinstance(item.context_expr, ast.Call) else item.context_expr
        value = report.resolve(called, bound)
        if value is UNKNOWN or not is_toolchain(value) or getattr(value, "__name__", "") != "no_reorder":
            return _WITH(report, node, bound)
        if called is item.context_expr:
            report.error(WithError, called, f"`{ast.unparse(called)}` is not called", "write `with nl.no_reorder():`")
        if item.optional_vars is not None and not report.captured.dialect.python.traced:
            report.error(WithError, item.optional_vars, "`no_reorder` gives nothing to name", "leave `as …` out")
    return True


def _function(report: Report, node: ast.FunctionDef, bound: frozenset[str]) -> bool:
    for decorator in node.decorator_list:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        if not is_toolchain(report.resolve(called, bound)):
            report.error(
                DecoratorError,
                decorator,
                f"NKI does not know the decorator `{ast.unparse(called)}`",
                "leave it out, or move the function out of the kernel",
            )
    return True


def kernel_signature(report: Report, args: ast.arguments) -> None:
    """Judge the parameters of a kernel: each by its name, none by keyword only."""
    for arg, stars in ((args.vararg, "*"), (args.kwarg, "**")):
        if arg is not None:
            message = f"a kernel cannot take `{stars}{arg.arg}`: its arguments must be known one by one"
            report.error(SignatureError, arg, message, "name each parameter")
    if args.kwonlyargs and args.vararg is None:
        fix = "leave the `*` out and put parameters with defaults last"
        if report.captured.dialect.python.traced:
            report.error(SignatureError, args.kwonlyargs[0], "NKI has no keyword-only parameters", fix)
        else:
            message = f"newer NKI has no keyword-only parameters: {fix}"
            report.warn(args.kwonlyargs[0], message, NkiDeprecationWarning, since="0.3")


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
    "While": _while,
    "If": _if,
    "With": _with,
    "AsyncWith": _ASYNC,
    "Match": _MATCH,
    "Raise": _raise,
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
    "Yield": _yield,
    "YieldFrom": _yield,
    "Compare": _compare,
    "Call": check_call,
    "FormattedValue": accept,
    "Interpolation": accept,
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
    "Del": accept,
    # Parts
    "comprehension": check_targets,
    "arguments": accept,
    "arg": accept,
    "keyword": accept,
    "alias": accept,
    "withitem": accept,
    "ExceptHandler": accept,
    "match_case": accept,
    "MatchValue": accept,
    "MatchSingleton": accept,
    "MatchSequence": accept,
    "MatchMapping": accept,
    "MatchClass": accept,
    "MatchStar": accept,
    "MatchAs": accept,
    "MatchOr": accept,
    "TypeVar": accept,
    "ParamSpec": accept,
    "TypeVarTuple": accept,
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
