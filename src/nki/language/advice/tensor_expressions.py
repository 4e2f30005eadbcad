"""Translation of Python expressions on tensors to calls of ``nki.language``: ``a + 2 * b`` to ``nl.add(a, …)``."""

from __future__ import annotations

import ast
import types
from collections.abc import Callable
from typing import Any, Final

from nki.base.python_operators import FUNCTION_OF
from nki.base.source import is_toolchain
from nki.frontend.capture import HOST_PACKAGES, home
from nki.frontend.scopes import UNKNOWN
from nki.frontend.site import Site
from nki.isa.tables.operators import Op
from nki.language.advice.other_libraries import RENAMED
from nki.language.beta1_functions import BINARY, UNARY
from nki.language.nki_tensor import NkiTensor

_NAMES: Final = {other: ours for ours, others in RENAMED.items() for other in others}
_ELEMENTWISE: Final = frozenset({*UNARY, *BINARY, "where", "zeros_like"})
_REDUCTIONS: Final = frozenset({"max", "min", "sum", "mean", "prod", "var", "softmax"})
_PRODUCTS: Final = frozenset({"matmul", "dot", "mm", "bmm"})
_COPIES: Final = frozenset({"copy", "clone", "detach", "contiguous", "cpu", "cuda", "ascontiguousarray"})


class Translator:
    """Rewrites expressions of one site; ``changed`` tells if any of it was Python on a tensor."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.nl = site.module("nki.language", "nl")
        self.nisa = site.module("nki.isa", "nisa")
        self.changed = False

    def translate(self, node: ast.expr) -> ast.expr:
        """``node`` with calls in place of what Python cannot do with tensors."""
        match node:
            case ast.BinOp(left=left, op=op, right=right):
                return self._binary(node, op, left, right)
            case ast.BoolOp() | ast.IfExp() | ast.UnaryOp(op=ast.Not()) | ast.Compare(ops=[_, _, *_]):
                return self._chosen(node)
            case ast.UnaryOp(op=op, operand=operand) if self.is_tensor(operand):
                inner = self.loaded(operand)
                if isinstance(op, ast.Invert) and _is_truth(operand):
                    return self._use("logical_not", [inner])
                self.changed = self.changed or isinstance(op, ast.UAdd)
                return inner if isinstance(op, ast.UAdd) else self._mapped(op, [inner]) or node
            case ast.Compare(left=left, ops=[op], comparators=[right]) if self.is_tensor(left) or self.is_tensor(right):
                return self._mapped(op, [self.loaded(left), self.loaded(right)]) or node
            case ast.Call():
                return self._call(node)
            case ast.Attribute(value=owner, attr="T" | "mT") if self.is_tensor(owner):
                return self._use("transpose", [self.loaded(owner)])
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                return ast.copy_location(type(node)([self.translate(part) for part in parts], node.ctx), node)
            case _:
                return node

    def is_tensor(self, node: ast.expr) -> bool:
        """True if ``node`` certainly gives a tensor."""
        return self.kind(node) != ""

    def kind(self, node: ast.expr) -> str:
        """The memory of the tensor that ``node`` gives, as ``nl`` calls it; "" if that is no tensor, or unknown."""
        value = self.site.value(node)
        if isinstance(value, NkiTensor):
            return value.buffer.value
        match node:
            case ast.Call(func=function):
                callee = self.site.value(function)
                if callee is not UNKNOWN and _gives_tensor(callee):
                    return "psum" if getattr(callee, "__name__", "") in ("matmul", "transpose") else "sbuf"
                translated = self.translated_quietly(node)
                return "sbuf" if translated is not node else ""
            case ast.BinOp(left=left, right=right):
                return "sbuf" if self.is_tensor(left) or self.is_tensor(right) else ""
            case ast.UnaryOp(operand=operand):
                return "sbuf" if self.is_tensor(operand) else ""
            case ast.Compare(left=left, comparators=others):
                return "sbuf" if any(map(self.is_tensor, (left, *others))) else ""
            case ast.BoolOp(values=values):
                return "sbuf" if all(map(self.is_tensor, values)) else ""
            case ast.IfExp(test=test):
                return "sbuf" if self.is_tensor(test) else ""
            case ast.Subscript(value=owner) | ast.Attribute(value=owner, attr="T"):
                return self.kind(owner)
            case _:
                return ""

    def translated_quietly(self, node: ast.Call) -> ast.expr:
        """The result of :meth:`translate`, without a note that something has changed."""
        before = self.changed
        translated = self._call(node)
        self.changed = before
        return translated

    def loaded(self, node: ast.expr) -> ast.expr:
        """The translation of an operand, in a tile if it is a tensor in HBM."""
        inner = self.translate(node)
        in_hbm = "hbm" in self.kind(node) and inner is node
        return self.call("load", [inner]) if in_hbm else inner

    def call(self, name: str, args: list[ast.expr], **keywords: ast.expr) -> ast.Call:
        """A call of a function of ``nki.language``."""
        function = ast.Attribute(ast.Name(self.nl, ast.Load()), name, ast.Load())
        return ast.Call(function, args, [ast.keyword(key, value) for key, value in keywords.items()])

    def dtype(self, name: str) -> ast.expr:
        """The dtype ``name`` as the code names it."""
        return ast.Attribute(ast.Name(self.nl, ast.Load()), name, ast.Load())

    def product(self, left: ast.expr, right: ast.expr) -> ast.expr:
        """``left @ right``: the left operand transposed, as the Tensor engine takes it."""
        self.changed = True
        turned = self.call("copy", [self.call("transpose", [self._on_chip(left)])])
        return self.call("matmul", [turned, self._on_chip(right)], transpose_x=ast.Constant(True))

    def _on_chip(self, node: ast.expr) -> ast.expr:
        inner = self.loaded(node)
        return self.call("copy", [inner]) if self.kind(node) == "psum" else inner

    def _binary(self, node: ast.BinOp, op: ast.operator, left: ast.expr, right: ast.expr) -> ast.expr:
        if not (self.is_tensor(left) or self.is_tensor(right)):
            return node
        if isinstance(op, ast.MatMult):
            return self.product(left, right)
        operands = [self.loaded(left), self.loaded(right)]
        if isinstance(op, ast.BitAnd | ast.BitOr | ast.BitXor) and (_is_truth(left) or _is_truth(right)):
            name = "and" if isinstance(op, ast.BitAnd) else "or" if isinstance(op, ast.BitOr) else "xor"
            return self._use(f"logical_{name}", operands)
        if isinstance(op, ast.FloorDiv):
            self.changed = True
            return self.call("floor", [self.call("divide", operands)])
        return self._mapped(op, operands) or node

    def _chosen(self, node: ast.expr) -> ast.expr:
        """``and``, ``or``, ``not``, ``x if t else y`` and ``0 < t < 1``, which ask Python for the truth of a tensor."""
        match node:
            case ast.BoolOp(op=op, values=[first, *rest]) if all(map(self.is_tensor, node.values)):
                return self._joined("and" if isinstance(op, ast.And) else "or", [first, *rest])
            case ast.UnaryOp(operand=operand) if self.is_tensor(operand):
                return self._use("logical_not", [self.loaded(operand)])
            case ast.IfExp(test=test, body=body, orelse=orelse) if self.is_tensor(test):
                return self._use("where", [self.loaded(part) for part in (test, body, orelse)])
            case ast.Compare(left=left, ops=ops, comparators=right) if self.is_tensor(node):
                starts = [left, *right[:-1]]
                return self._joined(
                    "and", [ast.Compare(a, [op], [b]) for a, op, b in zip(starts, ops, right, strict=True)]
                )
            case _:
                return node

    def _joined(self, word: str, values: list[ast.expr]) -> ast.expr:
        """``values`` as a tile of truth values; Python would take the last that decides."""
        whole = self.loaded(values[0])
        for value in values[1:]:
            whole = self._use(f"logical_{word}", [whole, self.loaded(value)])
        return whole

    def _mapped(self, op: ast.AST, operands: list[ast.expr]) -> ast.expr | None:
        name = FUNCTION_OF.get(type(op))
        return self._use(name, operands) if name else None

    def _use(self, name: str, args: list[ast.expr], **keywords: ast.expr) -> ast.expr:
        self.changed = True
        return self.call(name, args, **keywords)

    def _call(self, node: ast.Call) -> ast.expr:
        match node.func:
            case ast.Attribute(value=owner, attr=method) if self.is_tensor(owner):
                return self._method(node, owner, method)
            case ast.Name(id=name) | ast.Attribute(attr=name):
                callee = self.site.value(node.func)
            case _:
                return node
        if not any(self.is_tensor(arg) for arg in node.args):
            return node
        if isinstance(callee, types.BuiltinFunctionType) and callee in (min, max) and len(node.args) == 2:
            return self._function(node, f"{name}imum", node.args)
        if callee is not UNKNOWN and not is_toolchain(callee) and _is_numeric(callee):
            return self._function(node, name, node.args)
        args = [self.translate(arg) for arg in node.args]
        keywords = [ast.keyword(k.arg, self.translate(k.value)) for k in node.keywords]
        return ast.Call(node.func, args, keywords) if self.changed else node

    def _method(self, node: ast.Call, owner: ast.expr, method: str) -> ast.expr:
        if isinstance(getattr(NkiTensor, method, None), types.FunctionType):
            return node  # it has this method
        tile = self.loaded(owner)
        match method:
            case "astype" | "to" | "type" if len(node.args) == 1:
                return self._use("copy", [tile], dtype=self._dtype_argument(node.args[0]))
            case "unsqueeze" | "expand_dims" if node.args:
                return self._use("expand_dims", [tile, node.args[0]])
            case _ if dtype_name(method) and not node.args:
                return self._use("copy", [tile], dtype=self.dtype(dtype_name(method)))
            case _:
                return self._function(node, method.removesuffix("_"), [owner, *node.args])

    def _function(self, node: ast.Call, name: str, args: list[ast.expr]) -> ast.expr:
        """The call of a numeric function ``name``, of whatever package, on ``args``."""
        name = _NAMES.get(name, name)
        if name in _PRODUCTS and len(args) == 2:
            return self.product(args[0], args[1])
        if name == "transpose" or name == "t":
            return self._use("transpose", [self.loaded(args[0])])
        if name in _COPIES:
            return self._use("copy", [self.loaded(args[0])])
        if name in _REDUCTIONS:
            axis = next((k.value for k in node.keywords if k.arg in ("axis", "dim")), None)
            axis = axis or (args[1] if len(args) > 1 else ast.Constant(1))
            return self._use(name, [self.loaded(args[0])], axis=axis)
        return self._use(name, [self.loaded(arg) for arg in args]) if name in _ELEMENTWISE else node

    def _dtype_argument(self, node: ast.expr) -> ast.expr:
        """A dtype of any framework, or its text, as a dtype of ``nki.language``."""
        name = dtype_name(self.site.value(node))
        return self.dtype(name) if name else node


def dtype_name(value: object) -> str:
    """The name in ``nki.language`` of a dtype of NumPy or PyTorch, or of the text that names one; "" if none."""
    builtin = {float: "float32", int: "int32", bool: "bool_"}
    if isinstance(value, type) and value in builtin:
        return builtin[value]
    text = value if isinstance(value, str) else getattr(value, "__name__", "") or str(value).rpartition(".")[2]
    text = _NAMES.get(text, {"int64": "int32", "float64": "float32"}.get(text, text))
    return text if text in _DTYPES else ""


_DTYPES: Final = frozenset({
    "float32", "float16", "bfloat16", "int8", "int16", "int32", "uint8", "uint16", "uint32", "float8_e5m2",
    "float8_e4m3fn", "float8_e4m3",
})  # fmt: skip


def _is_truth(node: ast.expr) -> bool:
    """True for a comparison and what joins some: numbers 0 and 1 in the dtype of the tiles: their bits say nothing."""
    match node:
        case ast.Compare() | ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
            return True
        case ast.UnaryOp(op=ast.Invert(), operand=operand):
            return _is_truth(operand)
        case ast.BinOp(left=left, op=ast.BitAnd() | ast.BitOr() | ast.BitXor(), right=right):
            return _is_truth(left) or _is_truth(right)
        case _:
            return False


def _gives_tensor(callee: Callable[..., Any]) -> bool:
    if isinstance(callee, Op):
        return True
    if not is_toolchain(callee):
        return False
    return getattr(callee, "__annotations__", {}).get("return") in (NkiTensor, NkiTensor.__name__)


def _is_numeric(callee: object) -> bool:
    package = home(callee).partition(".")[0]
    if isinstance(callee, types.BuiltinFunctionType) and callee in (abs, pow, min, max, sum, round):
        return True
    return package in HOST_PACKAGES or package in ("math", "_operator", "operator") or type(callee).__name__ == "ufunc"


__all__ = ["Translator", "dtype_name"]
