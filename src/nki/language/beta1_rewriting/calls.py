"""Calls of ``nki.language`` and ``nki.isa``: their arguments as today's functions take them."""

from __future__ import annotations

import ast
import inspect
import itertools
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from nki.language.beta1_functions import NUMPY_OPERATORS
from nki.language.beta1_rewriting.tables import PARAMETERS
from nki.language.beta1_rewriting.types import dtype_text
from nki.source_text.names import Names
from nki.source_text.source import Source, code_of, in_one_line, spliced

RENAMED: Final[dict[str, dict[str, str]]] = {
    "copy": {"src": "x"}, "broadcast_to": {"src": "x"}, "expand_dims": {"data": "x"},
    "device_print": {"prefix": "print_prefix", "x": "tensor"},
}  # fmt: skip
"""Parameters of functions of ``nki.language`` by their names in Beta 1."""
_WITHOUT_EFFECT: Final = {
    "asynchronous", "buffer", "compute_dtype", "debug_kernel", "directives", "dtype", "engine", "experimental_flags",
    "kernel_return", "lazy_initialization", "mode", "name", "parallel_reduce", "platform_target", "precise_schedule",
    "show_compiler_tb", "unique_indices",
}  # fmt: skip
"""Keywords of Beta 1 that today's functions do not have and that change no value."""
_LEAST: Final = "-3.4028234663852886e+38"
_LEAST_BFLOAT16: Final = "-3.3895313892515355e+38"


class NotCarriedOverError(Exception):
    """A construct that no rule translates; the message says which."""


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a new call: ``node`` is the one of the old call, if it has it; "" has no name, "**" is a dict."""

    name: str
    text: str
    node: ast.expr | None = None

    @property
    def code(self) -> str:
        return f"**{self.text}" if self.name == "**" else f"{self.name}={self.text}" if self.name else self.text


@dataclass(frozen=True, slots=True)
class NewCall:
    """A call with new arguments."""

    func: str
    args: tuple[Argument, ...]

    def with_args(self, args: Iterable[Argument]) -> NewCall:
        return replace(self, args=tuple(args))

    def with_texts(self, texts: dict[str, str], parameters: tuple[str, ...] = ()) -> NewCall:
        """The call with other code for some parameters; those by position have the names ``parameters``."""
        order = [arg.name or (parameters[k] if k < len(parameters) else "") for k, arg in enumerate(self.args)]
        return self.with_args(
            replace(arg, text=texts[name]) if name in texts and texts[name] != in_one_line(arg.text) else arg
            for name, arg in zip(order, self.args, strict=True)
        )

    def by_name(self, parameters: tuple[str, ...] = ()) -> dict[str, str]:
        """The code of the arguments by parameter, on one line each."""
        order = [arg.name or (parameters[k] if k < len(parameters) else "") for k, arg in enumerate(self.args)]
        return {name: in_one_line(arg.text) for name, arg in zip(order, self.args, strict=True) if name}

    @property
    def code(self) -> str:
        """The code on one line."""
        if len(self.args) == 1 and isinstance(self.args[0].node, ast.GeneratorExp):  # it has the parentheses
            return in_one_line(f"{self.func}{self.args[0].text}")
        return in_one_line(f"{self.func}({', '.join(arg.code for arg in self.args)})")


def call_of(node: ast.Call, func: str, texts: Callable[[ast.expr], str]) -> NewCall:
    """The call with new code for its arguments, in the order of the source."""
    args = [Argument("", texts(arg), arg) for arg in node.args]
    args += [Argument(k.arg or "**", texts(k.value), k.value) for k in node.keywords]
    return NewCall(func, tuple(args))


def code_in_place(node: ast.Call, new: NewCall) -> str:
    """The code of a new call: the old one, with its layout, in which arguments change, go, and are added at the end."""
    old = call_of(node, code_of(node.func), code_of)
    if new == old:
        return code_of(node)
    source: Source | None = getattr(node, "source", None)
    nodes = [arg.node for arg in old.args]
    kept = [nodes.index(arg.node) for arg in new.args if arg.node in nodes]
    added = new.args[len(kept) :]
    if source is None or not kept or kept != sorted(kept) or any(arg.node is not None for arg in added):
        return new.code
    spans = [source.span(each) for each in (*node.args, *node.keywords)]
    between = "".join(source.text[end:start] for (_, end), (start, _) in itertools.pairwise(spans))
    if spans != sorted(spans) or "(" in between or ")" in between or isinstance(nodes[0], ast.GeneratorExp):
        return new.code
    changes = [(*source.span(node.func), new.func)] if new.func != old.func else []
    changes += [(*spans[k], now.code) for k, now in zip(kept, new.args, strict=False) if now != old.args[k]]
    changes += [(spans[0][0], spans[kept[0]][0], "")] if kept[0] else []
    changes += [(spans[k - 1][1], spans[k][1], "") for k in range(kept[0], len(spans)) if k not in kept]
    end = spans[-1][1]
    changes += [(end, end, "".join(f", {arg.code}" for arg in added))] if added else []
    return spliced(source, *source.span(node), changes)


def parameters(function: Any) -> list[str]:
    """The names of a function's parameters."""
    return list(inspect.signature(function).parameters)


def function_of(package: str, name: str) -> Any:
    """A function of today's ``nki.language`` or ``nki.isa``; None if there is none."""
    function = getattr(sys.modules.get(package), name, None)
    return function if callable(function) and not isinstance(function, type) else None


def nki_value(names: Names, node: ast.expr) -> str:
    """``np.add`` and ``np.float32`` under their names in NKI; "" for other expressions."""
    full = names.full(node)
    if full in ("nki.language.fp32.min", "nki.language.bfp16.min"):
        return _LEAST if "fp32" in full else _LEAST_BFLOAT16
    match node:
        case ast.Attribute(value=ast.Call(func=function), attr="min" | "max" as side) if (
            names.full(function) == "nki.language.finfo"
        ):
            return _LEAST if side == "min" else _LEAST[1:]
        case _:
            pass
    if not full.startswith("numpy."):
        return ""
    name = full.removeprefix("numpy.")
    name = NUMPY_OPERATORS.get(name, name)
    language = sys.modules["nki.language"]
    if hasattr(language, name):
        return f"nl.{name}"
    return dtype_text(names, node) if hasattr(language, f"{name}_") else ""


def with_values(names: Names, call: NewCall) -> NewCall:
    """The call with operators, dtypes and limits under their names of today."""
    return call.with_args(
        replace(arg, text=text)
        if arg.node is not None and arg.text == code_of(arg.node) and (text := nki_value(names, arg.node)) else arg
        for arg in call.args
    )  # fmt: skip


def cleaned(names: Names, call: NewCall, function: Callable[..., Any], drop: Sequence[str] = ()) -> NewCall:
    """The call with the arguments that today's ``function`` takes, without those that it does not know."""
    known = parameters(function)
    renamed = RENAMED.get(getattr(function, "__name__", ""), {})
    kept: list[Argument] = []
    for arg in call.args:
        if arg.name and arg.name != "**":
            name = renamed.get(arg.name, arg.name)
            if name in ("mask", *drop) or (name not in known and name in _WITHOUT_EFFECT):
                continue
            if name not in known:
                raise NotCarriedOverError(f"`{name}=` of `{getattr(function, '__name__', '')}`")
            arg = replace(arg, name=name)
        if arg.name == "perf_mode" and isinstance(arg.node, ast.Constant) and isinstance(arg.node.value, str):
            arg = replace(arg, text="nisa.matmul_perf_mode.double_row")
        kept.append(arg)
    return with_values(names, call.with_args(kept))


def with_destination(names: Names, call: NewCall, name: str, dst: str, extra: Sequence[Argument] = ()) -> NewCall:
    """The call of an instruction with ``dst=``, and all other arguments by name."""
    order = PARAMETERS[name]
    named = [arg if arg.name else replace(arg, name=order[k]) for k, arg in enumerate(call.args)]
    new = cleaned(names, call.with_args(named), function_of("nki.isa", name), ["dtype"] if name != "iota" else [])
    return new.with_args([Argument("dst", dst), *new.args, *extra])


def as_dma_compute(names: Names, call: NewCall, nl: str = "nl", nisa: str = "nisa") -> NewCall:
    """``nisa.dma_copy(dst, src, dst_rmw_op=op)``, an addition to the destination until NKI 0.2; other copies stay."""
    named = call.by_name(("dst", "src"))
    if not {"dst", "src", "dst_rmw_op"} <= named.keys():
        return call
    to, op = named["dst"], named["dst_rmw_op"]
    if op == "None":
        return call.with_args(arg for arg in call.args if arg.name != "dst_rmw_op")
    node = next(arg.node for arg in call.args if arg.name == "dst_rmw_op")
    op = (nki_value(names, node).replace("nl.", f"{nl}.", 1) if node is not None else "") or op
    return NewCall(f"{nisa}.dma_compute", tuple(Argument("", text) for text in (to, f"[{named['src']}, {to}]", op)))


__all__ = [
    "RENAMED", "Argument", "NewCall", "NotCarriedOverError", "as_dma_compute", "call_of", "cleaned",
    "code_in_place", "function_of", "nki_value", "parameters", "with_destination", "with_values",
]  # fmt: skip
