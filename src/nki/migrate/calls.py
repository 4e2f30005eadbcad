"""Calls of ``nki.language`` and ``nki.isa``: their arguments as today's functions take them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Final

import libcst as cst

from nki import isa, language
from nki.language.advice.beta1.results import NUMPY_OPERATORS, PARAMETERS
from nki.migrate.subscripts import NotCarriedOverError
from nki.migrate.syntax.code import expression
from nki.migrate.syntax.names import Names
from nki.migrate.types import dtype_text

_RENAMED: Final[dict[str, dict[str, str]]] = {
    "copy": {"src": "x"}, "broadcast_to": {"src": "x"}, "expand_dims": {"data": "x"},
    "device_print": {"prefix": "print_prefix", "x": "tensor"},
}  # fmt: skip
_WITHOUT_EFFECT: Final = {
    "asynchronous", "buffer", "compute_dtype", "debug_kernel", "directives", "dtype", "engine", "experimental_flags",
    "kernel_return", "lazy_initialization", "mode", "name", "parallel_reduce", "platform_target", "precise_schedule",
    "show_compiler_tb", "unique_indices",
}  # fmt: skip
"""Keywords of Beta 1 that today's functions do not have and that change no value."""


def parameters(function: Any) -> list[str]:
    """The names of a function's parameters."""
    return list(inspect.signature(function).parameters)


def nki_value(names: Names, node: cst.BaseExpression) -> cst.BaseExpression:
    """``np.add`` and ``np.float32`` under their names in NKI; other expressions as they are."""
    full = names.full(node)
    if full in ("nki.language.fp32.min", "nki.language.bfp16.min"):
        return expression("-3.4028234663852886e+38" if "fp32" in full else "-3.3895313892515355e+38")
    match node:
        case cst.Attribute(value=cst.Call(func=function), attr=cst.Name(value="min" | "max" as side)) if (
            names.full(function) == "nki.language.finfo"
        ):
            return expression("-3.4028234663852886e+38" if side == "min" else "3.4028234663852886e+38")
        case _:
            pass
    if not full.startswith("numpy."):
        return node
    name = full.removeprefix("numpy.")
    name = NUMPY_OPERATORS.get(name, name)
    if hasattr(language, name):
        return expression(f"nl.{name}")
    return expression(dtype_text(names, node)) if hasattr(language, f"{name}_") else node


def cleaned(
    names: Names, args: Sequence[cst.Arg], function: Callable[..., Any], drop: Sequence[str] = ()
) -> list[cst.Arg]:
    """The arguments that today's ``function`` takes, without those that it does not know."""
    known = parameters(function)
    renamed = _RENAMED.get(getattr(function, "__name__", ""), {})
    kept: list[cst.Arg] = []
    for arg in args:
        if arg.keyword is not None:
            name = renamed.get(arg.keyword.value, arg.keyword.value)
            if name in ("mask", *drop) or (name not in known and name in _WITHOUT_EFFECT):
                continue
            if name not in known:
                raise NotCarriedOverError(f"`{name}=` of `{getattr(function, '__name__', '')}`")
            arg = arg.with_changes(keyword=arg.keyword.with_changes(value=name))
        value = nki_value(names, arg.value)
        if arg.keyword is not None and arg.keyword.value == "perf_mode" and isinstance(value, cst.SimpleString):
            value = expression("nisa.matmul_perf_mode.double_row")
        kept.append(arg.with_changes(value=value))
    return last_comma(kept)


def last_comma(args: list[cst.Arg]) -> list[cst.Arg]:
    """The arguments, the last without a comma behind it unless the layout has one there."""
    if args and args[-1].comma is not cst.MaybeSentinel.DEFAULT:
        whitespace: Any = args[-1].comma.whitespace_after  # type: ignore[union-attr]
        if not isinstance(whitespace, cst.ParenthesizedWhitespace):
            args[-1] = args[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
    return args


def keyword(name: str, value: cst.BaseExpression) -> cst.Arg:
    """``name=value``."""
    return cst.Arg(
        value,
        keyword=cst.Name(name),
        equal=cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace("")),
    )


def with_destination(names: Names, call: cst.Call, name: str, dst: str, extra: str = "") -> cst.Call:
    """The call of an instruction with ``dst=``, and all other arguments by name."""
    function = getattr(isa, name)
    order = PARAMETERS[name]
    args: list[cst.Arg] = []
    for position, arg in enumerate(call.args):
        if arg.keyword is None:
            plain = keyword(order[position], arg.value)
            arg = plain.with_changes(comma=arg.comma)
        args.append(arg)
    drop = ["dtype"] if name != "iota" else []
    kept = cleaned(names, args, function, drop)
    if extra:
        kept = [*kept, keyword(*_pair(extra))]
    first = keyword("dst", expression(dst))
    comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    kept = [arg if arg.comma is not cst.MaybeSentinel.DEFAULT else arg.with_changes(comma=comma) for arg in kept]
    return call.with_changes(args=last_comma([first.with_changes(comma=comma), *kept]))


def _pair(text: str) -> tuple[str, cst.BaseExpression]:
    name, _, value = text.partition("=")
    return name, expression(value)


__all__ = ["cleaned", "keyword", "last_comma", "nki_value", "parameters", "with_destination"]
