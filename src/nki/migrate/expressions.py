"""Expressions of a Beta 1 kernel, rewritten from the inside out."""

from __future__ import annotations

from typing import Any

import libcst as cst

from nki.migrate.calls import cleaned, nki_value
from nki.migrate.facts import shape_text
from nki.migrate.indices import Bounds, Index, as_slice
from nki.migrate.instructions import InstructionCalls
from nki.migrate.language_calls import POWERS
from nki.migrate.operands import bare, operand_mask
from nki.migrate.subscripts import NotCarriedOverError, converted, cut
from nki.migrate.syntax.code import WholeNumbers, code_of, expression, one_line
from nki.migrate.types import OPERATORS, dtype_text


class Expressions(InstructionCalls):
    """Rewrites one expression. ``before`` collects the statements that have to run first."""

    def visit_Call(self, node: cst.Call) -> bool:
        mask = next((arg for arg in node.args if arg.keyword is not None and arg.keyword.value == "mask"), None)
        if id(node) in self.types.unmasked:
            mask = None
        bounds = self.bounds[-1]
        if mask is not None and node is not self.top:
            bounds = self.mask_bounds(mask.value)
        self.bounds.append(bounds)
        return True

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        bounds = self.bounds.pop()
        full = self.names.full(original_node.func)
        package, _, name = full.rpartition(".")
        if package == "nki.language":
            return self._function(name, original_node, updated_node, bounds)
        if package == "nki.isa":
            return self._instruction(name, original_node, updated_node, bounds)
        if full == "nki.simulate_kernel" and updated_node.args:
            called = expression(f"{self.names.alias('nki') or 'nki'}.simulate")
            inner = cst.Call(called, [updated_node.args[0].with_changes(comma=cst.MaybeSentinel.DEFAULT)])
            return cst.Call(inner, updated_node.args[1:])
        if full.startswith(("nki.compiler.sbuf", "nki.compiler.psum")):
            return expression("nl.psum" if "psum" in full else "nl.sbuf")
        if full in ("nki.jit", "nki.trace", "torch_neuronx.nki_jit"):
            kept = [arg for arg in updated_node.args if arg.keyword is None]
            return updated_node.with_changes(func=expression("nki.jit"), args=cleaned(self.names, kept, _one))
        owner = original_node.func.value if isinstance(original_node.func, cst.Attribute) else None
        if owner is not None and self.types.tensor(owner) is not None:
            return self._method(original_node, updated_node)
        return self._passed(original_node, updated_node)

    def _passed(self, original: cst.Call, updated: cst.Call) -> cst.Call:
        """The call of another function: index tiles among its arguments become slices."""
        args: list[cst.Arg] = []
        for before, after in zip(original.args, updated.args, strict=True):
            index = self.types.value(before.value)
            if isinstance(index, Index):
                text = as_slice(index)
                if not index.steps or text is None or index.steps[0][1].constant != 1:
                    raise NotCarriedOverError(f"the index `{one_line(before.value)}` is used as a value")
                after = after.with_changes(value=expression(text))
            args.append(after)
        return updated.with_changes(args=args)

    def _method(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        """Methods of tensors that have another name today."""
        function: Any = updated.func
        owner, name = code_of(function.value), function.attr.value
        args = ", ".join(one_line(arg.value) for arg in updated.args)
        if name == "astype":
            return expression(f"nl.copy({owner}, dtype={dtype_text(self.names, original.args[0].value)})")
        if name == "broadcast_to":
            return expression(f"nl.broadcast_to({owner}, {args})")
        if name == "expand_dims":
            return expression(f"{owner}.expand_dim({args})")
        if name == "reshape":
            return cst.ensure_type(updated.visit(WholeNumbers()), cst.Call)
        if name in ("assert_shape", "as_tile"):
            return function.value
        if name == "view":
            return expression(f"{owner}.view({dtype_text(self.names, original.args[0].value)})")
        return updated

    # -- indices, operators --------------------------------------------------------------------------------------

    def visit_Subscript(self, node: cst.Subscript) -> bool:
        mask = operand_mask(self.types, node)
        if mask is not None:
            self.bounds.append(self.mask_bounds(mask))
        return self.types.value(node) is None

    def leave_Subscript(self, original_node: cst.Subscript, updated_node: cst.Subscript) -> cst.BaseExpression:
        if operand_mask(self.types, original_node) is not None:
            return self._masked_operand(original_node, updated_node, self.bounds.pop())
        if self.types.value(original_node) is not None:
            return updated_node
        return converted(self.types, original_node, updated_node, self.bounds[-1])

    def _masked_operand(self, original: cst.Subscript, updated: cst.Subscript, bounds: Bounds) -> cst.BaseExpression:
        """``tile[index < size]``, an operand of a matmul: the part of it that the mask lets through."""
        variables = [*bounds.lower, *bounds.upper]
        if bounds.conditions:
            raise NotCarriedOverError(f"the mask of `{one_line(original)}`: put the instruction below an `if`")
        if isinstance(original.value, cst.Subscript):
            return updated.value
        return expression(cut(code_of(updated.value), self.types.tensor(original.value), bounds, variables))

    def leave_BinaryOperation(
        self, original_node: cst.BinaryOperation, updated_node: cst.BinaryOperation
    ) -> cst.BaseExpression:
        return self._operator(
            type(original_node.operator), original_node.left, original_node.right, updated_node.left,
            updated_node.right, updated_node,
        )  # fmt: skip

    def leave_Comparison(self, original_node: cst.Comparison, updated_node: cst.Comparison) -> cst.BaseExpression:
        if len(original_node.comparisons) != 1:
            return updated_node
        before, after = original_node.comparisons[0], updated_node.comparisons[0]
        if isinstance(before.operator, cst.Is) and one_line(before.comparator) != "None":  # means nothing in a kernel
            equal = after.with_changes(operator=cst.Equal())
            return updated_node.with_changes(comparisons=[equal])
        return self._operator(
            type(before.operator), original_node.left, before.comparator, updated_node.left, after.comparator,
            updated_node,
        )  # fmt: skip

    def _operator(
        self,
        kind: type[cst.CSTNode],
        left: cst.BaseExpression,
        right: cst.BaseExpression,
        new_left: cst.BaseExpression,
        new_right: cst.BaseExpression,
        updated: cst.BaseExpression,
    ) -> cst.BaseExpression:
        tiles = [self.types.tensor(side) is not None for side in (left, right)]
        if kind not in OPERATORS or not any(tiles):
            return updated
        x, y = self.aligned(left, right, bare(new_left), bare(new_right))
        if kind is cst.Divide:
            return self._quotient(left, right, (x, y), None)
        if kind is cst.Power and y in POWERS:
            return self._one_operand(POWERS[y], x, None)
        return expression(f"nl.{OPERATORS[kind]}({x}, {y})")

    def leave_UnaryOperation(
        self, original_node: cst.UnaryOperation, updated_node: cst.UnaryOperation
    ) -> cst.BaseExpression:
        if self.types.tensor(original_node.expression) is None:
            return updated_node
        operator = original_node.operator
        name = (
            "negative" if isinstance(operator, cst.Minus) else "invert" if isinstance(operator, cst.BitInvert) else ""
        )
        return expression(f"nl.{name}({bare(updated_node.expression)})") if name else updated_node

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.BaseExpression:
        full = self.names.full(original_node)
        if code_of(original_node) == "logging.OFF":  # a level that the package of Beta 1 adds to Python's
            return expression("logging.CRITICAL")
        if full == "nki.tensor":
            return expression("nt.tensor")
        if full in ("nki.compiler.sbuf", "nki.compiler.psum"):
            return expression(f"nl.{full[-4:]}")
        if "nki" in full or (full.startswith("numpy.") and len(self.bounds) == 1):  # host calls keep NumPy's
            return nki_value(self.names, updated_node)
        return self._of_blocks(original_node) or updated_node

    def _of_blocks(self, node: cst.Attribute) -> cst.BaseExpression | None:
        """``t.dtype`` and ``t.shape`` of a tensor that is a list today."""
        owner = self.types.tensor(node.value) if isinstance(node.value, cst.Name | cst.Subscript) else None
        if owner is None or not owner.blocks or owner.buffer == "hbm" or not isinstance(node.value, cst.Name):
            return None
        if node.attr.value == "dtype":
            return expression(f"{node.value.value}{'[0]' * len(owner.blocks)}.dtype")
        if node.attr.value == "shape" and owner.shape is not None:
            return expression(shape_text((*owner.blocks, *owner.shape)))
        return None

    def visit_ListComp(self, node: cst.ListComp) -> None:  # noqa: ARG002
        self.inner += 1

    def leave_ListComp(self, original_node: cst.ListComp, updated_node: cst.ListComp) -> cst.ListComp:  # noqa: ARG002
        self.inner -= 1
        return updated_node

    def visit_Lambda(self, node: cst.Lambda) -> None:  # noqa: ARG002
        self.inner += 1

    def leave_Lambda(self, original_node: cst.Lambda, updated_node: cst.Lambda) -> cst.Lambda:  # noqa: ARG002
        self.inner -= 1
        return updated_node


def _one(fn: Any) -> None:
    """The signature of ``nki.jit`` without options."""


__all__ = ["Expressions"]
