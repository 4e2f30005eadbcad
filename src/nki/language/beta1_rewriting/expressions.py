"""Expressions of a Beta 1 kernel, rewritten from the inside out."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import Any, ClassVar, Final

from nki.base.python_operators import FUNCTION_OF
from nki.frontend.site import keys_of
from nki.language.beta1_rewriting.calls import NewCall, NotCarriedOverError, call_of, cleaned, code_in_place, nki_value
from nki.language.beta1_rewriting.facts import shape_text
from nki.language.beta1_rewriting.indices import Bounds, as_slice
from nki.language.beta1_rewriting.instructions import InstructionCalls
from nki.language.beta1_rewriting.language_calls import POWERS
from nki.language.beta1_rewriting.operands import operand_mask
from nki.language.beta1_rewriting.subscripts import converted, cut
from nki.language.beta1_rewriting.types import dtype_text
from nki.source_text.rewriting import ExpressionRewriter
from nki.source_text.source import Source, code_of, expression, in_one_line, one_line, replaced, spliced

_KERNELS: Final = ("nki.jit", "nki.trace", "torch_neuronx.nki_jit")


class Expressions(ExpressionRewriter, InstructionCalls):
    """Rewrites expressions."""

    def code_below(self, bounds: Bounds, node: ast.expr) -> str:
        """The code of an expression, cut to ``bounds``."""
        with self.below(bounds):
            return self.code(node)

    # -- calls ---------------------------------------------------------------------------------------------------

    def call(self, node: ast.Call) -> NewCall:
        """A call with its arguments rewritten, below the mask of its own unless the statement takes care of that."""
        return self._bounded(node)[0]

    def _bounded(self, node: ast.Call) -> tuple[NewCall, Bounds]:
        """A call with its arguments rewritten, and the bounds that they are below."""
        mask = next((k.value for k in node.keywords if k.arg == "mask"), None)
        own = mask is not None and node is not self.top and id(node) not in self.types.unmasked
        self.bounds.append(self.mask_bounds(mask) if own and mask is not None else self.bounds[-1])
        call = call_of(node, self.code(node.func), self.code)
        return call, self.bounds.pop()

    def _call(self, node: ast.Call) -> str:
        full = self.names.full(node.func)
        package, _, name = full.rpartition(".")
        call, bounds = self._bounded(node)
        if package == "nki.language":
            return self._function(name, node, call, bounds)
        if package == "nki.isa":
            return self._instruction(name, node, call, bounds)
        if full == "nki.simulate_kernel" and call.args:
            made = NewCall(f"{self.names.alias('nki') or 'nki'}.simulate", call.args[:1]).code
            return NewCall(made, call.args[1:]).code
        if full.startswith(("nki.compiler.sbuf", "nki.compiler.psum")):
            return "nl.psum" if "psum" in full else "nl.sbuf"
        if full in _KERNELS:
            kept = call.with_args(arg for arg in call.args if not arg.name)
            return code_in_place(node, replace(cleaned(self.names, kept, _one), func="nki.jit"))
        match node.func:
            case ast.Attribute(value=ast.Attribute(value=owner, attr="dtype"), attr="type") if self.types.tensor(owner):
                return call.args[0].text
            case ast.Attribute(value=owner, attr=method) if self.types.tensor(owner) is not None:
                return self._method(node, call, method)
            case _:
                return self._passed(node, call)

    def _passed(self, node: ast.Call, call: NewCall) -> str:
        """The call of another function: index tiles among its arguments become slices."""
        args = list(call.args)
        for k, arg in enumerate(args):
            index = self.types.index(arg.node) if arg.node is not None else None
            if index is not None and arg.node is not None:
                text = as_slice(index)
                if not index.steps or text is None or index.steps[0][1].constant != 1:
                    raise NotCarriedOverError(f"the index `{one_line(arg.node)}` is used as a value")
                args[k] = replace(arg, text=text)
        return code_in_place(node, call.with_args(args))

    def _method(self, node: ast.Call, call: NewCall, name: str) -> str:
        """Methods of tensors that have another name today."""
        owner = call.func.rpartition(".")[0]
        args = ", ".join(in_one_line(arg.text) for arg in call.args)
        if name == "astype":
            return f"nl.copy({owner}, dtype={dtype_text(self.names, node.args[0])})"
        if name == "broadcast_to":
            return f"nl.broadcast_to({owner}, {args})"
        if name == "expand_dims":
            return f"{owner}.expand_dim({args})"
        if name == "reshape":
            return code_in_place(node, call.with_args(replace(arg, text=_whole_numbers(arg.text)) for arg in call.args))
        if name in ("assert_shape", "as_tile"):
            return owner
        if name == "view":
            return f"{owner}.view({dtype_text(self.names, node.args[0])})"
        return code_in_place(node, call)

    # -- indices, operators --------------------------------------------------------------------------------------

    def _subscript(self, node: ast.Subscript) -> str:
        mask = operand_mask(self.types, node)
        if mask is not None:
            return self._masked_operand(node, mask)
        if self.types.value(node) is not None:
            return code_of(node)
        base, keys = self.code(node.value), keys_of(node)
        texts = [self.code(key) for key in keys]
        new = converted(self.types, node, base, texts, self.bounds[-1])
        if new is not None:
            return new
        changes = [(each, text) for each, text in zip((node.value, *keys), (base, *texts), strict=True)
                   if text != code_of(each)]  # fmt: skip
        return replaced(node, changes) if changes else code_of(node)

    def _masked_operand(self, node: ast.Subscript, mask: ast.expr) -> str:
        """``tile[index < size]``, an operand of a matmul: the part of it that the mask lets through."""
        bounds = self.mask_bounds(mask)
        self.bounds.append(bounds)
        owner = self.code(node.value)
        self.bounds.pop()
        if bounds.conditions:
            raise NotCarriedOverError(f"the mask of `{one_line(node)}`: put the instruction below an `if`")
        if isinstance(node.value, ast.Subscript):
            return owner
        return cut(owner, self.types.tensor(node.value), bounds, [*bounds.lower, *bounds.upper])

    def _binary(self, node: ast.BinOp) -> str:
        return self._operator(node, type(node.op), node.left, node.right)

    def _comparison(self, node: ast.Compare) -> str:
        if len(node.ops) != 1:
            return self.inside(node)
        op, right = node.ops[0], node.comparators[0]
        if isinstance(op, ast.Is) and one_line(right) != "None":  # means nothing in a kernel
            return self._equal(node, right)
        return self._operator(node, type(op), node.left, right)

    def _equal(self, node: ast.Compare, right: ast.expr) -> str:
        """``x == y`` for ``x is y``."""
        source: Source | None = getattr(node, "source", None)
        if source is None:
            return f"{self.code(node.left)} == {self.code(right)}"
        start, end = source.span(node.left)[1], source.span(right)[0]
        changes = [(*source.span(each), text) for each, text in self.changes(node)]
        sign = source.text[start:end].replace("is", "==", 1)
        return spliced(source, *source.span(node), [*changes, (start, end, sign)])

    def _operator(self, node: ast.expr, kind: type[ast.AST], left: ast.expr, right: ast.expr) -> str:
        tiles = [self.types.tensor(side) is not None for side in (left, right)]
        if kind not in FUNCTION_OF or not any(tiles):
            return self.inside(node)
        x, y = self.aligned(left, right, in_one_line(self.code(left)), in_one_line(self.code(right)))
        if kind is ast.Div:
            return self._quotient(left, right, (x, y))
        if kind is ast.Pow and y in POWERS:
            return f"nl.{POWERS[y]}({x})"
        return f"nl.{FUNCTION_OF[kind]}({x}, {y})"

    def _unary(self, node: ast.UnaryOp) -> str:
        name = FUNCTION_OF.get(type(node.op))
        if name is None or self.types.tensor(node.operand) is None:
            return self.inside(node)
        return f"nl.{name}({in_one_line(self.code(node.operand))})"

    def _attribute(self, node: ast.Attribute) -> str:
        full = self.names.full(node)
        if code_of(node) == "logging.OFF":  # a level that the package of Beta 1 adds to Python's
            return "logging.CRITICAL"
        if full == "nki.tensor":
            return "nt.tensor"
        if full in ("nki.compiler.sbuf", "nki.compiler.psum"):
            return f"nl.{full[-4:]}"
        if node.attr == "itemsize" and self.types.tensor(node.value) is not None:
            return f"{self.code(node.value)}.dtype.itemsize"
        text = self.inside(node)
        if "nki" in full or (full.startswith("numpy.") and len(self.bounds) == 1):  # host calls keep NumPy's
            return nki_value(self.names, node) or text
        return self._of_blocks(node) or text

    def _of_blocks(self, node: ast.Attribute) -> str:
        """``t.dtype`` and ``t.shape`` of a tensor that is a list today; "" for others."""
        owner = self.types.tensor(node.value) if isinstance(node.value, ast.Name) else None
        if owner is None or not owner.blocks or owner.buffer == "hbm" or not isinstance(node.value, ast.Name):
            return ""
        if node.attr == "dtype":
            return f"{node.value.id}{'[0]' * len(owner.blocks)}.dtype"
        return shape_text((*owner.blocks, *owner.shape)) if node.attr == "shape" and owner.shape is not None else ""

    def _nested(self, node: ast.expr) -> str:
        """A comprehension or lambda."""
        self.inner += 1
        text = self.inside(node)
        self.inner -= 1
        return text

    rules: ClassVar = {
        ast.Call: _call, ast.Subscript: _subscript, ast.BinOp: _binary, ast.Compare: _comparison, ast.UnaryOp: _unary,
        ast.Attribute: _attribute, ast.ListComp: _nested, ast.GeneratorExp: _nested, ast.Lambda: _nested,
    }  # fmt: skip


def _whole_numbers(text: str) -> str:
    """Divisions of sizes, which Beta 1 let be floats, as divisions of whole numbers."""
    if "/" not in text:
        return text
    node = expression(in_one_line(text))
    for part in ast.walk(node):
        if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Div):
            part.op = ast.FloorDiv()
    return ast.unparse(node)


def _one(fn: Any) -> None:
    """The signature of ``nki.jit`` without options."""


__all__ = ["Expressions"]
