"""Calls of ``nki.language`` in a Beta 1 kernel, as today's functions take them."""

from __future__ import annotations

from typing import Any, Final

import libcst as cst

from nki import language
from nki.migrate.calls import cleaned
from nki.migrate.indices import Bounds, Index, bounds_of, nonempty
from nki.migrate.operands import is_number, matmul_operands, target_shape, trailing_axes, varying
from nki.migrate.subscripts import NotCarriedOverError, cut, has_slices
from nki.migrate.syntax.code import expression, one_line
from nki.migrate.types import BINARY, Types, arguments, dtype_text

POWERS: Final = {
    "2": "square",
    "2.0": "square",
    "0.5": "sqrt",
    "-0.5": "rsqrt",
    "-1": "reciprocal",
    "-1.0": "reciprocal",
}
"""Exponents that have a function of their own."""
_REFUSED: Final = {
    "all_reduce": "`nl.all_reduce` combines programs: sum in one tensor over the loop of the programs",
    "loop_reduce": "`nl.loop_reduce`: accumulate in one tensor, and clear it in the first round",
    "gemm_grid": "`nl.gemm_grid`: index with slices",
    "gemm_stationary_grid": "`nl.gemm_stationary_grid`: index with slices",
}


class LanguageCalls(cst.CSTTransformer):
    """Rewrites calls of ``nki.language``; the state of one expression's rewriting."""

    def __init__(
        self, types: Types, taken: set[str], bounds: Bounds | None = None, top: cst.Call | None = None
    ) -> None:
        super().__init__()
        self.types = types
        self.names = types.names
        self.taken = taken
        self.bounds = [bounds or Bounds()]
        self.top = top
        self.before: list[cst.BaseStatement] = []
        self.notes: list[str] = []
        self.grid: dict[int, str] = {}
        self.inner = 0
        """Number of comprehensions and lambdas around the present expression."""

    def mask_bounds(self, node: cst.BaseExpression, *, several: bool = False) -> Bounds:
        """The bounds of a mask. Raises :class:`NotCarriedOverError` for masks that are no rectangles.

        ``several``: conditions of several variables are left in the result.
        """
        if isinstance(node, cst.Name) and (node.value == "None" or self.types.facts.others.get(id(node)) == "none"):
            return Bounds()
        value = self.types.evaluator.mask(node)
        if value is None or (isinstance(node, cst.Name) and self.types.facts.others.get(id(node)) == "mask"):
            raise NotCarriedOverError(f"the mask `{one_line(node)}` is not known here: cut the slices to size")
        bounds = bounds_of(value)
        bounds.conditions += nonempty(bounds, self.types.loose)
        if bounds.several and not several:
            raise NotCarriedOverError(f"the mask `{bounds.several[0].text}` is no rectangle: use nisa.affine_select")
        return bounds

    def _function(self, name: str, original: cst.Call, updated: cst.Call, bounds: Bounds) -> cst.BaseExpression:
        if name == "par_dim":
            return updated.args[0].value
        if name in ("arange", "mgrid"):
            return updated
        if name in _REFUSED:
            raise NotCarriedOverError(_REFUSED[name])
        if name in ("program_id", "num_programs", "program_ndim"):
            return self._program(name, updated)
        if name in ("affine_range", "sequential_range", "static_range"):
            args = [arg for arg in updated.args if arg.keyword is None]
            return updated.with_changes(func=cst.Name("range"), args=cleaned(self.names, args, _range))
        if name == "store":
            return self._store(original, updated, bounds)
        if name == "atomic_rmw":
            return self._atomic(updated)
        if name == "static_cast":
            name, updated = "copy", updated.with_changes(func=expression("nl.copy"))
        if name == "matmul":
            return self._matmul(original, updated)
        if name in BINARY:
            named = arguments(original, ("x", "y"))
            if "x" in named and "y" in named:
                return self._binary_call(name, original, updated, bounds)
        function = getattr(language, name, None)
        if function is None or isinstance(function, type):
            return updated
        updated = trailing_axes(self.types, original, self._operands_cut(original, updated, bounds))
        if name == "load":
            updated = self._column(original, updated)
        if name == "rsqrt" and updated.args:
            first = updated.args[0]
            text = self._in_sbuf(original.args[0].value, one_line(first.value))
            if text != one_line(first.value):
                updated = updated.with_changes(args=[first.with_changes(value=expression(text)), *updated.args[1:]])
        return updated.with_changes(args=cleaned(self.names, updated.args, function))

    def _column(self, original: cst.Call, updated: cst.Call) -> cst.Call:
        """A load of a tensor of one dimension: on chip its numbers stand in a column."""
        source = arguments(original, ("src",)).get("src")
        tensor = self.types.tensor(source.value) if source is not None else None
        if source is None or original is self.top or tensor is None or tensor.shape is None or len(tensor.shape) != 1:
            return updated
        args = [
            after.with_changes(value=expression(f"{one_line(after.value)}.expand_dim(1)"))
            if before is source
            else after
            for before, after in zip(original.args, updated.args, strict=True)
        ]
        return updated.with_changes(args=args)

    def _operands_cut(self, original: cst.Call, updated: cst.Call, bounds: Bounds) -> cst.Call:
        """The call with whole tiles among its operands cut to the bounds of its mask."""
        variables = [*bounds.lower, *bounds.upper]
        if not variables:
            return updated
        args: list[cst.Arg] = []
        for before, after in zip(original.args, updated.args, strict=True):
            tensor = self.types.tensor(before.value)
            if tensor is not None and not isinstance(before.value, cst.Subscript):
                text = cut(one_line(after.value), tensor, bounds, variables)
                after = after.with_changes(value=expression(text))
            args.append(after)
        return updated.with_changes(args=args)

    def _program(self, name: str, updated: cst.Call) -> cst.BaseExpression:
        axis = one_line(updated.args[0].value) if updated.args else "0"
        if not axis.isdigit():
            raise NotCarriedOverError(f"`{one_line(updated)}`: the axis is no number")
        self.grid.setdefault(int(axis), name)
        if name == "program_id":
            return cst.Name(f"program_{axis}")
        return expression("len(grid)" if name == "program_ndim" else f"grid[{axis}]")

    def _store(self, original: cst.Call, updated: cst.Call, bounds: Bounds) -> cst.BaseExpression:
        named, then = arguments(original, ("dst", "value")), arguments(updated, ("dst", "value"))
        if "value" not in named or "dst" not in named:
            raise NotCarriedOverError("this call of nl.store")
        value = named["value"].value
        tensor = self.types.tensor(value)
        text = one_line(then["value"].value)
        if tensor is None and is_number(value):
            target = one_line(then["dst"].value)
            text = f"nl.full({target}.shape, {text}, {target}.dtype)"
        if tensor is not None and tensor.buffer == "psum":
            text = f"nl.copy({text})"
        variables = [*bounds.lower, *bounds.upper]
        if variables and not has_slices(value) and not (isinstance(value, cst.Subscript) and self._has_index(value)):
            text = cut(text, tensor, bounds, variables)
        new = expression(text) if text != one_line(then["value"].value) else then["value"].value
        function: Any = language.store
        args = [arg.with_changes(value=new) if arg is then["value"] else arg for arg in updated.args]
        return updated.with_changes(args=cleaned(self.names, args, function))

    def _has_index(self, node: cst.Subscript) -> bool:
        return any(
            isinstance(element.slice, cst.Index) and isinstance(self.types.value(element.slice.value), Index)
            for element in node.slice
        )

    def _atomic(self, updated: cst.Call) -> cst.BaseExpression:
        named = arguments(updated, ("dst", "value"))
        rows, value = one_line(named["dst"].value), one_line(named["value"].value)
        return expression(f"nisa.dma_compute({rows}, [{rows}, {value}], nl.add)")

    def _matmul(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        x, y, turned = matmul_operands(updated)
        named = arguments(original, ("x", "y"))
        x, y = self._in_sbuf(named["x"].value, x), self._in_sbuf(named["y"].value, y)
        x, y = self._of_one_dtype(named["x"].value, named["y"].value, x, y)
        if turned:
            return expression(f"nl.matmul({x}, {y}, transpose_x=True)")
        return expression(f"nl.matmul(nl.copy(nl.transpose({x})), {y}, transpose_x=True)")

    def _of_one_dtype(self, left: cst.BaseExpression, right: cst.BaseExpression, x: str, y: str) -> tuple[str, str]:
        """The operands of a product; one beside float32 becomes float32."""
        one, other = self.types.facts.tensors.get(id(left)), self.types.facts.tensors.get(id(right))
        if one is None or other is None or one.dtype == other.dtype or "float32" not in (one.dtype, other.dtype):
            return x, y
        if one.dtype == "float32":
            return x, f"nl.copy({y}, dtype=nl.float32)"
        return f"nl.copy({x}, dtype=nl.float32)", y

    def _in_sbuf(self, node: cst.BaseExpression, text: str) -> str:
        tensor = self.types.tensor(node)
        return f"nl.copy({text})" if tensor is not None and tensor.buffer == "psum" else text

    def _binary_call(self, name: str, original: cst.Call, updated: cst.Call, bounds: Bounds) -> cst.BaseExpression:
        """``nl.add(x, y, …)``: the smaller operand is repeated explicitly."""
        updated = self._operands_cut(original, updated, bounds)
        named = arguments(original, ("x", "y"))
        then = arguments(updated, ("x", "y"))
        both = self.aligned(named["x"].value, named["y"].value, one_line(then["x"].value), one_line(then["y"].value))
        if name == "divide":
            return self._quotient(named["x"].value, named["y"].value, both, updated)
        if name == "power" and both[1] in POWERS:
            return self._one_operand(POWERS[both[1]], both[0], updated)
        replaced = dict(zip((id(then["x"]), id(then["y"])), both, strict=True))
        args = [
            arg.with_changes(value=expression(replaced[id(arg)]))
            if id(arg) in replaced and replaced[id(arg)] != one_line(arg.value) else arg
            for arg in updated.args
        ]  # fmt: skip
        return updated.with_changes(args=cleaned(self.names, args, getattr(language, name)))

    def _one_operand(self, name: str, x: str, updated: cst.Call | None) -> cst.BaseExpression:
        """``nl.name(x)`` with the dtype of the call that it replaces."""
        dtype = arguments(updated, ()).get("dtype") if updated is not None else None
        more = f", dtype={dtype_text(self.names, dtype.value)}" if dtype is not None else ""
        return expression(f"nl.{name}({x}{more})")

    def _quotient(
        self, left: cst.BaseExpression, right: cst.BaseExpression, both: tuple[str, str], updated: cst.Call | None
    ) -> cst.BaseExpression:
        """``x / y``: no engine divides, so the reciprocal is multiplied with."""
        x, y = both
        if self.types.tensor(right) is None:
            simple = isinstance(right, cst.Name | cst.Integer | cst.Float | cst.Attribute | cst.Call | cst.Subscript)
            return self._one_operand("multiply", f"{x}, 1.0 / {y if simple else f'({y})'}", updated)
        if self.types.tensor(left) is None and x in ("1", "1.0"):
            return self._one_operand("reciprocal", y, updated)
        return self._one_operand("multiply", f"{x}, nl.reciprocal({y})", updated)

    def aligned(self, left: cst.BaseExpression, right: cst.BaseExpression, x: str, y: str) -> tuple[str, str]:
        """The code of two operands; one of another shape is repeated to that of both."""
        one, other = self.types.tensor(left), self.types.tensor(right)
        if one is None or other is None or one.shape is None or other.shape is None:
            return varying(self.types.facts, left, right, x, y)
        if len(one.shape) != len(other.shape):
            return x, y
        shape = tuple(b if a.constant == 1 else a for a, b in zip(one.shape, other.shape, strict=True))
        target = target_shape(one, other, shape)
        repeats = [
            any(a.constant == 1 != b.constant for a, b in zip(side.shape or (), shape, strict=True))
            for side in (one, other)
        ]
        return (
            f"nl.broadcast_to({x}, {target})" if repeats[0] else x,
            f"nl.broadcast_to({y}, {target})" if repeats[1] else y,
        )


def _range(start: int, stop: int = 0, step: int = 1) -> None:
    """The signature of ``range``."""


__all__ = ["POWERS", "LanguageCalls"]
