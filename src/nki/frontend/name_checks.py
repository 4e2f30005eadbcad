"""Names and calls of a kernel that can be judged before it runs: whether the name exists, and whether the call fits."""

from __future__ import annotations

import ast
import builtins
import difflib
import functools
import inspect
import itertools
import os
import sys
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from nki.base.errors import NkiError
from nki.base.source import is_toolchain
from nki.base.warning import NkiDeprecationWarning
from nki.frontend.capture import is_users, unwrap
from nki.frontend.dialect import Dialect, InstructionStyle
from nki.frontend.frontend_errors import (
    CallArgumentError,
    RemovedApiError,
    UnknownApiError,
    UnknownNameError,
)
from nki.frontend.purity import KEPT, check_change, check_host_call, check_read
from nki.frontend.report import Report
from nki.frontend.scopes import UNKNOWN
from nki.frontend.syntax_tree import walk
from nki.ir.deprecation import DeprecatedParameter


def check_name(report: Report, node: ast.Name, bound: frozenset[str]) -> bool:
    """A name must be bound somewhere, and not to Beta 1's package."""
    if not isinstance(node.ctx, ast.Load) or node.id in bound:
        return True
    captured, name = report.captured, node.id
    if name in captured.cells or name in captured.globals or hasattr(builtins, name):
        value = report.resolve(node, bound)
        home = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None)
        fix = captured.dialect.removed.package_fix(home) if isinstance(home, str) else None
        if fix is not None and name not in report.reported_names:
            report.reported_names.add(name)
            message = f"`{name}` comes from `{str(home).partition('.')[0]}`, which kernels can no longer use"
            report.error(RemovedApiError, node, message, fix)
        else:
            if _is_misplaced(report, node, value):
                return True
            full = None if value is UNKNOWN else captured.dialect.availability.values.get(id(value))
            if full is not None:
                _check_available(report, node, full, name)
            check_read(report, node, value)
    elif name not in report.reported_names:
        report.reported_names.add(name)
        message = f"name `{name}` is not defined"
        closures = {cell: captured.closure(cell) for cell in captured.cells}
        fix = removed_name(report, node) or spelling(captured.dialect, name, {**captured.globals, **closures}, bound)
        report.doubtful_error(UnknownNameError, node, message, fix)
    return True


def removed_name(report: Report, node: ast.Name) -> str:
    """The fix for an unknown name that an older release had, such as ``par_dim``; "" for other names."""
    removals = report.captured.dialect.removed
    full = next((full for full in removals.names if full.rpartition(".")[2] == node.id), "")
    if not full:
        return ""
    return f"{full} is of NKI Beta 1: {removals.exact(report.captured, node) or removals.names[full]}"


def check_attribute(report: Report, node: ast.Attribute, bound: frozenset[str]) -> bool:
    """NKI's own modules and objects must have the attribute."""
    if not isinstance(node.ctx, ast.Load):
        return True
    owner = report.resolve(node.value, bound)
    if isinstance(owner, types.ModuleType) and is_users(owner):
        check_read(report, node, vars(owner).get(node.attr, UNKNOWN))
    if owner is os and node.attr in ("environ", "environb"):
        report.warn(node, f"`{ast.unparse(node)}` {KEPT}")
    if owner is UNKNOWN or not _is_settled(owner):
        return True
    if _is_misplaced(report, node, getattr(owner, node.attr, UNKNOWN)):
        return True
    dialect = report.captured.dialect
    if node.attr in dialect.availability.last_parts:
        _check_available(report, node, _full_name(report, node, bound), ast.unparse(node))
    if hasattr(owner, node.attr):
        return True
    home = owner.__name__ if isinstance(owner, types.ModuleType) else ""
    removals = dialect.removed
    removed = removals.names.get(f"{home}.{node.attr}") if home else removals.attributes.get(node.attr)
    where = f"`{home or ast.unparse(node.value)}`"
    if removed is not None:
        _report_removed(report, node, where, node.attr, removed)
    else:
        prefix = ast.unparse(node.value)
        ours = home.partition(".")[0] in dialect.namespaces
        foreign = dialect.foreign.functions
        other = foreign.get(f"{home}.{node.attr}") or foreign.get(node.attr, "") if ours else ""
        elsewhere = f"write `{found}`" if not other and (found := _elsewhere(report, node.attr, owner)) else ""
        otherwise = "see the API reference for what there is"
        fix = other or elsewhere or did_you_mean(node.attr, public_names(owner), f"{prefix}.", otherwise)
        report.doubtful_error(UnknownApiError, node, f"{where} has no `{node.attr}`", fix)
    return True


def _report_removed(report: Report, node: ast.expr, where: str, name: str, fix: str) -> None:
    message = f"{where} no longer has `{name}`, which is of NKI Beta 1"
    report.error(RemovedApiError, node, message, report.captured.dialect.removed.exact(report.captured, node) or fix)


def _is_misplaced(report: Report, node: ast.expr, value: object) -> bool:
    """Report a name of Beta 1 that a later release kept at other places than this one; True if it is one."""
    removals = report.captured.dialect.removed
    for full, misplaced in removals.misplaced.items():
        home, _, name = full.rpartition(".")
        if value is getattr(sys.modules.get(home), name, None) and misplaced(report.captured.node, node):
            _report_removed(report, node, f"`{home}`", name, removals.names[full])
            return True
    return False


def _elsewhere(report: Report, name: str, owner: object) -> str:
    """``name`` as an attribute of another module of the language that the code has imported; "" if there is none."""
    if not isinstance(owner, types.ModuleType):
        return ""
    namespaces = report.captured.dialect.namespaces
    for alias, value in report.captured.globals.items():
        ours = isinstance(value, types.ModuleType) and value.__name__.partition(".")[0] in namespaces
        if ours and value is not owner and name in getattr(value, "__all__", ()):
            return f"{alias}.{name}"
    return ""


def public_names(owner: object) -> Iterable[str]:
    """The attributes of ``owner`` that users may name: of a module in a package those that it lists."""
    listed = isinstance(owner, types.ModuleType) and "." in owner.__name__
    return getattr(owner, "__all__", dir(owner)) if listed else dir(owner)


def _full_name(report: Report, node: ast.Attribute, bound: frozenset[str]) -> str:
    """The full name of an attribute of a module, or of an object that is one; "" if it is of something else."""
    owner = report.resolve(node.value, bound)
    if isinstance(owner, types.ModuleType):
        return f"{owner.__name__}.{node.attr}"
    around = _full_name(report, node.value, bound) if isinstance(node.value, ast.Attribute) else ""
    return around and f"{around}.{node.attr}"


def _check_available(
    report: Report, node: ast.expr | ast.keyword, full: str, written: str, *, called: bool = False
) -> None:
    """A name that the release does not have is an error where it is reached, a deprecated one a warning."""
    availability = report.captured.dialect.availability
    if availability.lacks(full) and (called or full not in availability.operators):
        error = availability.error(full, written)
        report.error_if_reached(type(error), node, error.message, error.fix)
    elif full in availability.deprecated:
        report.warn_if_reached(node, availability.warning(full, written), NkiDeprecationWarning)


def check_call(report: Report, node: ast.Call, bound: frozenset[str]) -> bool:
    """A call of an NKI function must fit its signature; built-ins that need the interpreter cannot be called."""
    callee = report.resolve(node.func, bound)
    check_host_call(report, node, callee)
    _check_used(report, node, callee)
    check_change(report, node, callee, bound)
    if callable(callee) and is_toolchain(callee) and not isinstance(callee, type) and unwrap(callee) is callee:
        signature = _signature(callee)
        if signature is not None:
            _check_arguments(report, node, callee, signature, bound)
    return True


def _check_used(report: Report, node: ast.Call, callee: object) -> None:
    """Warn of a call with a result, a tensor, as its only effect, where nothing uses that."""
    if not isinstance(report.statements.get(node), ast.Expr) or callee is UNKNOWN or isinstance(callee, type):
        return
    computes = callee if isinstance(callee, types.FunctionType) else getattr(callee, "function", None)
    returned: object = getattr(computes, "__annotations__", {}).get("return")
    if is_toolchain(computes) and returned == report.captured.dialect.tensor.kind.__name__:
        code = ast.unparse(node)
        report.warn(node, f"the result of `{code:.60}` is not used: it is a new tensor; write `name = {code:.60}`")


@functools.lru_cache(maxsize=1024)
def _signature(callee: Callable[..., object]) -> inspect.Signature | None:
    try:
        return inspect.signature(callee)
    except (TypeError, ValueError):
        return None  # native code that does not tell


def _check_arguments(
    report: Report, node: ast.Call, callee: object, signature: inspect.Signature, bound: frozenset[str]
) -> None:
    parameters = signature.parameters
    kinds = {parameter.kind for parameter in parameters.values()}
    written = ast.unparse(node.func)
    full = f"{getattr(callee, '__module__', '')}.{getattr(callee, '__name__', '')}"
    older: dict[str, DeprecatedParameter] = getattr(callee, "deprecated_parameters", {})
    deprecated = {name: form.replaces for name, form in older.items()}
    takes = {*parameters, *deprecated}
    accepted = [k for k in node.keywords if inspect.Parameter.VAR_KEYWORD in kinds or k.arg is None or k.arg in takes]
    dialect = report.captured.dialect
    available = dialect.availability
    if (named := available.values.get(id(callee))) in available.operators:
        _check_available(report, node.func, named, written, called=True)
    style = dialect.instructions
    ignored = leftover(node, callee, style)
    for keyword in node.keywords:
        if keyword is ignored:
            message = f"`{written}` takes no `{style.ignored}`: {dialect.removed.keywords[style.ignored]}"
            report.warn(keyword, message, NkiDeprecationWarning)
        elif keyword.arg in older and dialect.dropped(older[keyword.arg].since):
            form = older[keyword.arg]
            message = f"`{written}` takes no `{form.parameter}` since NKI {form.since}"
            report.error_if_reached(RemovedApiError, keyword, message, form.fix)
        elif (parameter := available.values.get((id(callee), keyword.arg))) is not None:
            _check_available(report, keyword, parameter, f"{keyword.arg}= of {written}")
        elif keyword not in accepted:
            _report_keyword(report, keyword, full, written, list(parameters))
        elif keyword.arg is not None and keyword.arg not in takes:
            _warn_of_ignored(report, keyword, written, list(parameters)[:-1])
    if any(isinstance(arg, ast.Starred) for arg in node.args) or any(k.arg is None for k in node.keywords):
        return
    try:
        names = {keyword.arg: deprecated.get(keyword.arg, keyword.arg) for keyword in accepted if keyword.arg}
        signature.bind(*node.args, **{names[k.arg]: k.value for k in accepted if k.arg and names[k.arg]})
    except TypeError as misfit:
        user = report.statements.get(node)
        passed = any(k.arg == style.destination for k in accepted)
        if style.result_fix and style.destination in parameters and not isinstance(user, ast.Expr) and not passed:
            message = f"`{written}` returns no result: it writes to `{style.destination}`, its first argument"
            fix = dialect.removed.exact(report.captured, node) or style.result_fix.format(written)
            report.error(RemovedApiError, node, message, fix)
        elif accepted == node.keywords:
            fix = _sizes_in_a_tuple(report, node, signature, bound) or f"it is called as `{written}{_shown(signature)}`"
            report.error(CallArgumentError, node, f"`{written}`: {misfit}", fix)
        return
    _check_order(report, node, full, list(parameters), bound)


def _check_order(report: Report, node: ast.Call, full: str, parameters: list[str], bound: frozenset[str]) -> None:
    """The arguments of a call stand where the function takes them, not where an older release or a user expects."""
    dialect, written = report.captured.dialect, ast.unparse(node.func)
    style = dialect.instructions
    older_form = style.older_order(node, full, parameters, lambda value: report.resolve(value, bound))
    alone = isinstance(report.statements.get(node), ast.Expr)
    if older_form and alone and (order := style.reordered(node, full, lambda value: report.resolve(value, bound))):
        message = f"`{written}` does not take its arguments in this order"
        fix = f"the order is {', '.join(parameters[: len(node.args)])}: write `{ast.unparse(order)}`"
        report.error(CallArgumentError, node, message, fix)
        return
    if older_form:
        fix = dialect.removed.exact(report.captured, node) or style.result_fix.format(written)
        report.error(RemovedApiError, node, older_form, fix)
        return
    if full in style.source_first and _is_source_first(report.captured.node, node):
        swapped = ast.Call(node.func, [node.args[1], node.args[0], *node.args[2:]], node.keywords)
        message = (
            f"`{written}` takes the destination first; in NKI Beta 1 it took the source first. Swap them? Then write "
        )
        report.warn(node, f"{message}`{ast.unparse(swapped)}`", NkiDeprecationWarning)


def _sizes_in_a_tuple(
    report: Report, node: ast.Call, signature: inspect.Signature, bound: frozenset[str]
) -> str | None:
    """The fix of a call with ``shape`` as its first parameter that passes its sizes one by one."""

    def is_size(arg: ast.expr) -> bool:
        return type(arg.value if isinstance(arg, ast.Constant) else report.resolve(arg, bound)) is int

    sizes = list(itertools.takewhile(is_size, node.args))
    if next(iter(signature.parameters), "") != "shape" or len(sizes) < 2:
        return None
    code = ast.Call(node.func, [ast.Tuple(sizes, ast.Load()), *node.args[len(sizes) :]], node.keywords)
    return f"the sizes are one tuple: write `{ast.unparse(code)}`"


def _shown(signature: inspect.Signature) -> inspect.Signature:
    """``signature`` without what tells a caller nothing: the result's annotation, ``Any``, and options that are
    ignored.
    """
    kept = [
        p.replace(annotation=p.empty) if p.annotation is Any or isinstance(p.annotation, str) else p
        for p in signature.parameters.values()
        if not (p.kind is p.VAR_KEYWORD and p.name == "_")
    ]
    return signature.replace(parameters=kept, return_annotation=inspect.Signature.empty)


def _is_source_first(function: ast.AST, call: ast.Call) -> bool:
    """True if the first two arguments look swapped: by their names, or because only the second is read afterwards."""
    match [arg.value if isinstance(arg, ast.Subscript) else arg for arg in call.args[:2]]:
        case [ast.Name(id=first), ast.Name(id=second)]:
            named = [name.partition("_")[0] for name in (first, second)] == ["src", "dst"]
            return named or (_is_read(function, call, second) and not _is_read(function, call, first))
        case _:
            return False


def _is_read(function: ast.AST, call: ast.Call, name: str) -> bool:
    """True if the value that a name has behind ``call`` is read there: before the name gets another one."""
    later = [
        node
        for node in walk(function)
        if isinstance(node, ast.stmt) and node.lineno > (call.end_lineno or 0) and not hasattr(node, "body")
    ]
    for statement in sorted(later, key=lambda node: node.lineno):
        uses = [part for part in walk(statement) if isinstance(part, ast.Name) and part.id == name]
        if any(isinstance(use.ctx, ast.Load) for use in uses):
            return True
        if uses:
            return False
    return False


def leftover(call: ast.Call, callee: Any, style: InstructionStyle) -> ast.keyword | None:
    """The ignored keyword (``dtype``) that a call of an instruction passes besides its destination."""
    for keyword in call.keywords:
        named = keyword.arg is not None and keyword.arg == style.ignored
        if named and is_toolchain(callee) and isinstance(callee, types.FunctionType):
            signature = inspect.signature(callee)
            rest = {k.arg: k.value for k in call.keywords if k.arg and k is not keyword}
            if (
                style.destination in signature.parameters
                and style.ignored not in signature.parameters
                and len(rest) + 1 == len(call.keywords)
            ):
                try:
                    signature.bind(*call.args, **rest)
                except TypeError:
                    return None
                return keyword
    return None


def _report_keyword(report: Report, node: ast.keyword, full: str, written: str, parameters: list[str]) -> None:
    keyword = node.arg or ""
    dialect = report.captured.dialect
    removals = dialect.removed
    removed = removals.parameters.get(f"{full}.{keyword}") or removals.keywords.get(keyword)
    error: type[NkiError] = RemovedApiError if removed else CallArgumentError
    message = f"`{written}` no longer takes `{keyword}`" if removed else f"`{written}` takes no `{keyword}`"
    if removed and isinstance(node.value, ast.Constant) and node.value.value is None:
        removed = "leave it out"
    if removed:
        removed = removals.exact(report.captured, node) or removed
    foreign = dialect.foreign
    same = next((p for p in foreign.keywords.get(keyword, ()) if p in parameters), "")
    other = f"name it `{same}`" if same else foreign.functions.get(f"{full.rpartition('.')[2]}.{keyword}", "")
    if not other and keyword == "out" and dialect.instructions.destination not in parameters:
        other = f"it returns its result: write `name = {written}(…)`"
    near = did_you_mean(keyword, parameters, otherwise=other or _takes(parameters))
    report.doubtful_error(error, node, message, removed or near)


def _warn_of_ignored(report: Report, node: ast.keyword, written: str, parameters: list[str]) -> None:
    """Warn of a keyword that a function takes only because it ignores whatever it does not know."""
    keyword, ignored = node.arg or "", report.captured.dialect.ignored_keywords
    if not ignored or keyword in ignored:
        return
    if keyword == "dst":
        instead = f"it returns its result: write `t[...] = {written}(…)`"
    else:
        instead = did_you_mean(keyword, parameters, otherwise=_takes(parameters))
    report.warn(node, f"`{written}` has no parameter `{keyword}` and ignores it; {instead}")


def _takes(parameters: list[str]) -> str:
    return f"it takes {', '.join(parameters)}" if parameters else "it takes no arguments"


def _is_settled(owner: object) -> bool:
    """True if the attributes of ``owner`` are complete: NKI's modules, classes and enumerations."""
    if isinstance(owner, types.ModuleType):
        return is_toolchain(owner)
    return is_toolchain(owner) and (isinstance(owner, type) or is_toolchain(type(owner)))


def spelling(dialect: Dialect, name: str, around: Mapping[str, object], bound: Iterable[str]) -> str:
    """The best guess at what an unknown name should be: an NKI function, a customary import, or a near name."""
    for alias, value in around.items():
        if isinstance(value, types.ModuleType) and is_toolchain(value) and hasattr(value, name):
            return f"did you mean `{alias}.{name}`?"
    if name in dialect.imports:
        return f"write `{dialect.imports[name]}` at the top of the file"
    own = did_you_mean(name, (*bound, *around))
    return own or did_you_mean(name, vars(builtins), otherwise="define it, or take it as an argument", least=0.8)


def did_you_mean(
    name: str, candidates: Iterable[str], prefix: str = "", otherwise: str = "", least: float = 0.6
) -> str:
    """The names nearest to ``name``, at ``least`` so alike, as the fix of an error; ``otherwise`` if none is near."""
    public = sorted({n for n in candidates if not n.startswith("_")})
    near = difflib.get_close_matches(name, public, 3, least if len(name) > 2 else 0.8)
    return f"did you mean {' or '.join(f'`{prefix}{n}`' for n in near)}?" if near else otherwise
