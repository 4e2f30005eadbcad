"""Calls of ``nki.language`` in a Beta 1 kernel, as today's functions take them."""

from __future__ import annotations

import ast
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from nki.frontend.site import keys_of
from nki.language.beta1_functions import BINARY
from nki.language.beta1_rewriting.calls import NewCall, NotCarriedOverError, cleaned, code_in_place, function_of
from nki.language.beta1_rewriting.facts import is_repeated, joint
from nki.language.beta1_rewriting.indices import Bounds, bounds_of, nonempty
from nki.language.beta1_rewriting.operands import is_number, matmul_operands, target_shape, trailing_axes, varying
from nki.language.beta1_rewriting.report import Report
from nki.language.beta1_rewriting.subscripts import cut, has_slices
from nki.language.beta1_rewriting.types import Types, arguments, dtype_text
from nki.source_text.lines import Line
from nki.source_text.source import in_one_line, one_line

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
_RANGES: Final = ("affine_range", "sequential_range", "static_range")


class LanguageCalls:
    """Rewrites calls of ``nki.language``; ``types`` is what the names of the function hold."""

    def __init__(self, types: Types, report: Report, taken: set[str]) -> None:
        self.types = types
        self.names = types.names
        self.grid = types.grid
        self.report = report
        self.taken = taken
        self.begin()

    def begin(self) -> None:
        """Begin a statement."""
        self.before: list[Line] = []
        """The statements that have to run first."""
        self.bounds = [Bounds()]
        """The parts of tiles that masks let through: one for the statement, and one for each call around."""
        self.top: ast.Call | None = None
        """The call that the statement itself takes care of, with its mask."""
        self.inner = 0
        """Number of comprehensions and lambdas around the present expression."""

    @contextmanager
    def below(self, bounds: Bounds, top: ast.Call | None = None) -> Generator[None]:
        """Context manager: expressions are cut to ``bounds``; ``top`` is the call that the statement takes care of."""
        before = self.bounds, self.top
        self.bounds, self.top = [bounds], top
        try:
            yield
        finally:
            self.bounds, self.top = before

    def mask_bounds(self, node: ast.expr) -> Bounds:
        """The bounds of a mask. Raises :class:`NotCarriedOverError` for masks that are no rectangles."""
        kind = self.types.facts.kind(node)
        if kind == "none" or (isinstance(node, ast.Constant) and node.value is None):
            return Bounds()
        value = self.types.evaluator.mask(node)
        if value is None or kind == "mask":
            raise NotCarriedOverError(f"the mask `{one_line(node)}` is not known here: cut the slices to size")
        bounds = bounds_of(value)
        bounds.conditions += nonempty(bounds, self.types.loose)
        if bounds.several:
            raise NotCarriedOverError(f"the mask `{bounds.several[0].text}` is no rectangle: use nisa.affine_select")
        return bounds

    def _function(self, name: str, node: ast.Call, call: NewCall, bounds: Bounds) -> str:
        """The code of ``nl.name(…)``."""
        if name == "par_dim":
            return call.args[0].text
        if name in ("arange", "mgrid"):
            return code_in_place(node, call)
        if name in _REFUSED:
            raise NotCarriedOverError(_REFUSED[name])
        if name in ("program_id", "num_programs", "program_ndim") and not self.types.facts.assumed:
            return self._program(name, node, call)
        if name in _RANGES:
            args = [arg for arg in call.args if not arg.name]
            return code_in_place(node, NewCall("range", cleaned(self.names, call.with_args(args), _range).args))
        if name == "store":
            return self._store(node, call, bounds)
        if name == "atomic_rmw":
            rows, value = (call.by_name(("dst", "value"))[key] for key in ("dst", "value"))
            return f"nisa.dma_compute({rows}, [{rows}, {value}], nl.add)"
        if name == "static_cast":
            name, call = "copy", replace(call, func="nl.copy")
        if name == "matmul":
            return self._matmul(node, call)
        if name in BINARY and {"x", "y"} <= arguments(node, ("x", "y")).keys():
            return self._binary_call(name, node, call, bounds)
        function = function_of("nki.language", name)
        if function is None:
            return code_in_place(node, call)
        call = trailing_axes(self.types, node, self._operands_cut(call, bounds))
        if name == "load":
            call = self._column(node, call)
        if name == "rsqrt" and call.args and call.args[0].node is not None:
            first = call.args[0]
            call = call.with_args([replace(first, text=self._in_sbuf(call.args[0].node, first.text)), *call.args[1:]])
        return code_in_place(node, cleaned(self.names, call, function))

    def _column(self, node: ast.Call, call: NewCall) -> NewCall:
        """A load of a tensor of one dimension: on chip its numbers stand in a column."""
        source = arguments(node, ("src",)).get("src")
        tensor = self.types.tensor(source) if source is not None else None
        if node is self.top or tensor is None or tensor.shape is None or len(tensor.shape) != 1:
            return call
        return call.with_texts({"src": f"{call.by_name(('src',))['src']}.expand_dim(1)"}, ("src",))

    def _operands_cut(self, call: NewCall, bounds: Bounds) -> NewCall:
        """The call with whole tiles among its operands cut to the bounds of its mask."""
        variables = [*bounds.lower, *bounds.upper]
        if not variables:
            return call
        args = list(call.args)
        for k, arg in enumerate(args):
            tensor = self.types.tensor(arg.node) if arg.node is not None else None
            if tensor is not None and not isinstance(arg.node, ast.Subscript):
                args[k] = replace(arg, text=cut(in_one_line(arg.text), tensor, bounds, variables))
        return call.with_args(args)

    def _program(self, name: str, node: ast.Call, call: NewCall) -> str:
        axis = in_one_line(call.args[0].text) if call.args else "0"
        if not axis.isdigit():
            raise NotCarriedOverError(f"`{one_line(node)}`: the axis is no number")
        self.grid.setdefault(int(axis), name)
        if name == "program_id":
            return f"program_{axis}"
        return "len(grid)" if name == "program_ndim" else f"grid[{axis}]"

    def _store(self, node: ast.Call, call: NewCall, bounds: Bounds) -> str:
        named, then = arguments(node, ("dst", "value")), call.by_name(("dst", "value"))
        if "value" not in named or "dst" not in named:
            raise NotCarriedOverError("this call of nl.store")
        value, text = named["value"], then["value"]
        tensor = self.types.tensor(value)
        if tensor is None and is_number(value):
            text = f"nl.full({then['dst']}.shape, {text}, {then['dst']}.dtype)"
        if tensor is not None and tensor.buffer == "psum":
            text = f"nl.copy({text})"
        variables = [*bounds.lower, *bounds.upper]
        if variables and not has_slices(value) and not (isinstance(value, ast.Subscript) and self._has_index(value)):
            text = cut(text, tensor, bounds, variables)
        call = call.with_texts({"value": text}, ("dst", "value"))
        return code_in_place(node, cleaned(self.names, call, function_of("nki.language", "store")))

    def _has_index(self, node: ast.Subscript) -> bool:
        return any(self.types.index(key) is not None for key in keys_of(node))

    def _matmul(self, node: ast.Call, call: NewCall) -> str:
        x, y, turned = matmul_operands(call)
        named = arguments(node, ("x", "y"))
        x, y = self._in_sbuf(named["x"], x), self._in_sbuf(named["y"], y)
        x, y = self._of_one_dtype(named["x"], named["y"], x, y)
        if turned:
            return f"nl.matmul({x}, {y}, transpose_x=True)"
        return f"nl.matmul(nl.copy(nl.transpose({x})), {y}, transpose_x=True)"

    def _of_one_dtype(self, left: ast.expr, right: ast.expr, x: str, y: str) -> tuple[str, str]:
        """The operands of a product; one beside float32 becomes float32."""
        one, other = self.types.facts.tensors.get(id(left)), self.types.facts.tensors.get(id(right))
        if one is None or other is None or one.dtype == other.dtype or "float32" not in (one.dtype, other.dtype):
            return x, y
        if one.dtype == "float32":
            return x, f"nl.copy({y}, dtype=nl.float32)"
        return f"nl.copy({x}, dtype=nl.float32)", y

    def _in_sbuf(self, node: ast.expr | None, text: str) -> str:
        tensor = self.types.tensor(node) if node is not None else None
        return f"nl.copy({in_one_line(text)})" if tensor is not None and tensor.buffer == "psum" else text

    def _binary_call(self, name: str, node: ast.Call, call: NewCall, bounds: Bounds) -> str:
        """``nl.add(x, y, …)``: the smaller operand is repeated explicitly."""
        call = self._operands_cut(call, bounds)
        named, then = arguments(node, ("x", "y")), call.by_name(("x", "y"))
        x, y = self.aligned(named["x"], named["y"], then["x"], then["y"])
        dtype = arguments(node).get("dtype")
        more = f", dtype={dtype_text(self.names, dtype)}" if dtype is not None else ""
        if name == "divide":
            return self._quotient(named["x"], named["y"], (x, y), more)
        if name == "power" and y in POWERS:
            return f"nl.{POWERS[y]}({x}{more})"
        call = call.with_texts({"x": x, "y": y}, ("x", "y"))
        return code_in_place(node, cleaned(self.names, call, function_of("nki.language", name)))

    def _quotient(self, left: ast.expr, right: ast.expr, both: tuple[str, str], more: str = "") -> str:
        """``x / y``: no engine divides, so the reciprocal is multiplied with; ``more`` is the dtype of a call."""
        x, y = both
        if self.types.tensor(right) is None:
            simple = isinstance(right, ast.Name | ast.Constant | ast.Attribute | ast.Call | ast.Subscript)
            return f"nl.multiply({x}, 1.0 / {y if simple else f'({y})'}{more})"
        if self.types.tensor(left) is None and x in ("1", "1.0"):
            return f"nl.reciprocal({y}{more})"
        return f"nl.multiply({x}, nl.reciprocal({y}){more})"

    def aligned(self, left: ast.expr, right: ast.expr, x: str, y: str) -> tuple[str, str]:
        """The code of two operands; the smaller one is repeated to the shape of both."""
        one, other = self.types.tensor(left), self.types.tensor(right)
        if one is None or other is None or one.shape is None or other.shape is None:
            return varying(self.types.facts, left, right, x, y)
        if len(one.shape) != len(other.shape):
            return x, y
        shape = joint(one.shape, other.shape)
        target = target_shape(one, other, shape)
        return (
            f"nl.broadcast_to({x}, {target})" if is_repeated(one.shape, shape) else x,
            f"nl.broadcast_to({y}, {target})" if is_repeated(other.shape, shape) else y,
        )


def _range(start: int, stop: int = 0, step: int = 1) -> None:
    """The signature of ``range``."""


__all__ = ["POWERS", "LanguageCalls"]
