"""Expressions of a Beta 1 kernel, rewritten from the inside out."""

from __future__ import annotations

from typing import Any, Final

import libcst as cst

from nki import isa, language
from nki.migrate.calls import cleaned, nki_value, with_destination
from nki.migrate.code import code_of, expression, one_line, statement
from nki.migrate.facts import shape_text
from nki.migrate.indices import Bounds, Index, Mask, bounds_of
from nki.migrate.operands import as_bytes, bare, is_number, matmul_operands, target_shape, trailing_axes, varying
from nki.migrate.subscripts import NotCarriedOverError, converted, cut
from nki.migrate.types import BINARY, DATA, OPERATORS, Types, arguments, dtype_text

RESULTS: Final = frozenset(DATA) - {"memset"}
_POWERS: Final = {
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


class Expressions(cst.CSTTransformer):
    """Rewrites one expression. ``before`` collects the statements that have to run first."""

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

    # -- masks ---------------------------------------------------------------------------------------------------

    def visit_Call(self, node: cst.Call) -> bool:  # noqa: N802
        mask = next((arg for arg in node.args if arg.keyword is not None and arg.keyword.value == "mask"), None)
        bounds = self.bounds[-1]
        if mask is not None and node is not self.top:
            bounds = self.mask_bounds(mask.value)
        self.bounds.append(bounds)
        return True

    def mask_bounds(self, node: cst.BaseExpression) -> Bounds:
        """The bounds of a mask. Raises :class:`NotCarriedOverError` for masks that are no rectangles."""
        if isinstance(node, cst.Name) and node.value == "None":
            return Bounds()
        value = self.types.evaluator.mask(node)
        if value is None or (isinstance(node, cst.Name) and self.types.facts.others.get(id(node)) == "mask"):
            raise NotCarriedOverError(f"the mask `{one_line(node)}` is not known here: cut the slices to size")
        bounds = bounds_of(value)
        if bounds.several:
            raise NotCarriedOverError(f"the mask `{bounds.several[0].text}` is no rectangle: use nisa.affine_select")
        return bounds

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:  # noqa: N802
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
        return updated_node

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
        if name in ("assert_shape", "as_tile"):
            return function.value
        if name == "view":
            return expression(f"{owner}.view({dtype_text(self.names, original.args[0].value)})")
        return updated

    # -- nki.language --------------------------------------------------------------------------------------------

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
        if name == "rsqrt" and updated.args:
            first = updated.args[0]
            text = self._in_sbuf(original.args[0].value, one_line(first.value))
            if text != one_line(first.value):
                updated = updated.with_changes(args=[first.with_changes(value=expression(text)), *updated.args[1:]])
        return updated.with_changes(args=cleaned(self.names, updated.args, function))

    def _operands_cut(self, original: cst.Call, updated: cst.Call, bounds: Bounds) -> cst.Call:
        """The call with whole tiles among its operands cut to the bounds of its mask."""
        variables = [*bounds.lower, *bounds.upper]
        if not variables:
            return updated
        args: list[cst.Arg] = []
        for before, after in zip(original.args, updated.args, strict=True):
            tensor = self.types.tensor(before.value)
            if tensor is not None and not isinstance(before.value, cst.Subscript) and tensor.buffer != "hbm":
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
        if variables and not (isinstance(value, cst.Subscript) and self._has_index(value)):
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
        if name == "power" and both[1] in _POWERS:
            return self._one_operand(_POWERS[both[1]], both[0], updated)
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

    # -- nki.isa -------------------------------------------------------------------------------------------------

    def _instruction(self, name: str, original: cst.Call, updated: cst.Call, bounds: Bounds) -> cst.BaseExpression:
        if name in RESULTS or name == "memset":
            if original is self.top:
                return updated
            if any(arg.keyword is not None and arg.keyword.value == "dst" for arg in original.args):
                return updated  # it is a call of today
            return self._temporary(name, original, updated)
        function = getattr(isa, name, None)
        if function is None or isinstance(function, type):
            return updated
        if name == "nc_stream_shuffle":
            named = arguments(updated, ("src", "dst", "shuffle_mask"))
            texts = [f"{key}={one_line(named[key].value)}" for key in ("dst", "src", "shuffle_mask") if key in named]
            return expression(f"nisa.nc_stream_shuffle({', '.join(texts)})")
        updated = as_bytes(self.types, original, self._operands_cut(original, updated, bounds))
        named = arguments(updated, ("dst", "src"))
        if name == "dma_copy" and "dst_rmw_op" in named and {"dst", "src"} <= named.keys():
            op = nki_value(self.names, named["dst_rmw_op"].value)
            if one_line(op) != "None":
                dst, src = one_line(named["dst"].value), one_line(named["src"].value)
                return expression(f"nisa.dma_compute({dst}, [{src}, {dst}], {one_line(op)})")
            updated = updated.with_changes(args=[arg for arg in updated.args if arg is not named["dst_rmw_op"]])
        return updated.with_changes(args=cleaned(self.names, updated.args, function))

    def _temporary(self, name: str, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        """A result inside an expression: a tile of its own, computed before the statement."""
        if self.inner:
            raise NotCarriedOverError(f"`nisa.{name}` inside a comprehension or lambda")
        text = self.fresh(f"{name}_result")
        self.before += self.computed(text, name, original, updated)
        return cst.Name(text)

    def fresh(self, name: str) -> str:
        """A name that the function does not use."""
        candidates = (name, *(f"{name}_{k}" for k in range(2, 999)))
        found = next(each for each in candidates if each not in self.taken)
        self.taken.add(found)
        return found

    def computed(self, target: str, name: str, original: cst.Call, updated: cst.Call) -> list[cst.BaseStatement]:
        """``target`` allocated, and the instruction that writes it."""
        tensor = self.types.tensor(original)
        if tensor is None or not tensor.shape_text:
            raise NotCarriedOverError(
                f"the shape of the result of `nisa.{name}`: add --arg, so that the kernel can run"
            )
        if not tensor.dtype:
            raise NotCarriedOverError(
                f"the dtype of the result of `nisa.{name}`: add --arg, so that the kernel can run"
            )
        if tensor.observed:
            self.notes.append(
                f"`{target}` has the shape {tensor.shape_text} of the run; other arguments may need another"
            )
        kind = "ndarray" if name != "memset" else "full"
        if kind == "full":
            named = arguments(updated, DATA["memset"])
            value = one_line(named["value"].value)
            return [
                statement(f"{target} = nl.full({tensor.shape_text}, {value}, dtype={tensor.dtype}, buffer=nl.sbuf)")
            ]
        dtype = f"{tensor.name}.dtype" if tensor.name and "dtype" not in arguments(original, ()) else tensor.dtype
        made = f"{target} = nl.ndarray({tensor.shape_text}, dtype={dtype}, buffer=nl.{tensor.buffer})"
        return [statement(made), self.written(target, name, original, updated)]

    def written(
        self, target: str, name: str, original: cst.Call, updated: cst.Call, extra: str = ""
    ) -> cst.SimpleStatementLine:
        """The instruction with ``target`` as its destination."""
        updated = self._operands_cut(original, updated, self.bounds[-1])
        if name in ("iota", "affine_select"):
            call = self._patterned(target, name, original, updated)
        elif name == "memset":
            named = arguments(updated, DATA["memset"])
            call: cst.BaseExpression = expression(f"nisa.memset(dst={target}, value={one_line(named['value'].value)})")
        elif name == "tensor_copy_dynamic_src":
            raise NotCarriedOverError(
                "`nisa.tensor_copy_dynamic_src`: use `nisa.tensor_copy` of `t.ap(…, scalar_offset=…)`"
            )
        else:
            call = with_destination(self.names, updated, name, target, extra)
        return cst.SimpleStatementLine([cst.Expr(call)])

    def _patterned(self, target: str, name: str, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        """``nisa.iota`` and ``nisa.affine_select``: the index expression as pattern, offset and channel multiplier."""
        named, then = arguments(original, DATA[name]), arguments(updated, DATA[name])
        value = self.types.value(named["expr" if name == "iota" else "pred"].value)
        op = "equal"
        if isinstance(value, Mask) and len(value.parts) == 1:
            # Differences of the two sides: left - right, or right - left for `>` and `>=`.
            op = {"<": "less", "<=": "less_equal", "==": "equal", "!=": "not_equal"}[value.parts[0].op]
            value = value.parts[0].index
        if not isinstance(value, Index):
            raise NotCarriedOverError(f"the index expression of `nisa.{name}`")
        ndim = max(value.ndim, 2)
        steps: dict[int, tuple[str, str]] = {v.axis: (s.text, v.size.text) for v, s in value.steps}
        free: list[str] = []
        data = (
            self.types.tensor(named["on_true_tile"].value) if "on_true_tile" in named else self.types.tensor(original)
        )
        for axis in range(1 - ndim, 0):
            size = data.shape[axis].text if data is not None and data.shape is not None else "1"
            step, count = steps.get(axis, ("0", size))
            free.append(f"[{step}, {count}]")
        multiplier = steps.get(-ndim, ("0", ""))[0]
        parts = [f"dst={target}", f"pattern=[{', '.join(free)}]"]
        if name == "iota":
            parts += [f"offset={value.base.text}", f"channel_multiplier={multiplier}"]
        else:
            parts += [f"channel_multiplier={multiplier}", f"on_true_tile={one_line(then['on_true_tile'].value)}"]
            parts += [f"on_false_value={one_line(nki_value(self.names, then['on_false_value'].value))}"]
            parts += [f"cmp_op=nl.{op}", f"offset={value.base.text}"]
        return expression(f"nisa.{name}({', '.join(parts)})")

    # -- indices, operators --------------------------------------------------------------------------------------

    def visit_Subscript(self, node: cst.Subscript) -> bool:  # noqa: N802
        return self.types.value(node) is None

    def leave_Subscript(self, original_node: cst.Subscript, updated_node: cst.Subscript) -> cst.BaseExpression:  # noqa: N802
        if self.types.value(original_node) is not None:
            return updated_node
        return converted(self.types, original_node, updated_node, self.bounds[-1])

    def leave_BinaryOperation(  # noqa: N802
        self, original_node: cst.BinaryOperation, updated_node: cst.BinaryOperation
    ) -> cst.BaseExpression:
        return self._operator(
            type(original_node.operator), original_node.left, original_node.right, updated_node.left,
            updated_node.right, updated_node,
        )  # fmt: skip

    def leave_Comparison(self, original_node: cst.Comparison, updated_node: cst.Comparison) -> cst.BaseExpression:  # noqa: N802
        if len(original_node.comparisons) != 1:
            return updated_node
        before, after = original_node.comparisons[0], updated_node.comparisons[0]
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
        if kind is cst.Power and y in _POWERS:
            return self._one_operand(_POWERS[y], x, None)
        return expression(f"nl.{OPERATORS[kind]}({x}, {y})")

    def leave_UnaryOperation(  # noqa: N802
        self, original_node: cst.UnaryOperation, updated_node: cst.UnaryOperation
    ) -> cst.BaseExpression:
        if self.types.tensor(original_node.expression) is None:
            return updated_node
        operator = original_node.operator
        name = (
            "negative" if isinstance(operator, cst.Minus) else "invert" if isinstance(operator, cst.BitInvert) else ""
        )
        return expression(f"nl.{name}({bare(updated_node.expression)})") if name else updated_node

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.BaseExpression:  # noqa: N802
        full = self.names.full(original_node)
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

    def visit_ListComp(self, node: cst.ListComp) -> None:  # noqa: ARG002, N802
        self.inner += 1

    def leave_ListComp(self, original_node: cst.ListComp, updated_node: cst.ListComp) -> cst.ListComp:  # noqa: ARG002, N802
        self.inner -= 1
        return updated_node

    def visit_Lambda(self, node: cst.Lambda) -> None:  # noqa: ARG002, N802
        self.inner += 1

    def leave_Lambda(self, original_node: cst.Lambda, updated_node: cst.Lambda) -> cst.Lambda:  # noqa: ARG002, N802
        self.inner -= 1
        return updated_node


def _range(start: int, stop: int = 0, step: int = 1) -> None:
    """The signature of ``range``."""


def _one(fn: Any) -> None:
    """The signature of ``nki.jit`` without options."""


__all__ = ["RESULTS", "Expressions"]
